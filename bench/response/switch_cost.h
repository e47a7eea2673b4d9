/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The time of a context switch of each critical thread (tek-2020, Fig. 8) and of an
 * ordinary one: two threads play ping-pong through pipes, both pinned to one CPU of an
 * otherwise idle machine, with the scheduling they have at the time.
 */
#ifndef APPLIANCE_SWITCH_COST_H
#define APPLIANCE_SWITCH_COST_H

#include <stdbool.h>

/* Threads 0 to 2 of the table, on the event path, and 3 and 4, which are ordinary ones. */
#define SWITCH_PLAYERS 5
#define SWITCH_GAMES 4
#define SWITCH_BATCHES 120
#define SWITCH_ROUND_TRIPS 200 /* in a batch */

/* Main thread, before the other threads start. With `skip` no game is played. */
void switch_cost_init(bool skip);

/*
 * Play all games with the other players, once STAGE_QUIET has come.  `player`, from 0,
 * says which one the calling thread is.  In game i, player i serves and is measured.
 */
void switch_cost_take_part(unsigned player);

/* Time from one thread to the other, in ns, the median of all batches of a game. */
extern double switch_cost_ns[SWITCH_GAMES];

#endif
