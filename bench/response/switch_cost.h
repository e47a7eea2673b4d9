/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The time of a context switch of each critical thread (tek-2020, Fig. 8): the
 * threads of the event path play ping-pong in pairs through pipes, both pinned to
 * one CPU, with the scheduling they have at the time.
 */
#ifndef APPLIANCE_SWITCH_COST_H
#define APPLIANCE_SWITCH_COST_H

#define SWITCH_PLAYERS 3
#define SWITCH_BATCHES 120
#define SWITCH_ROUND_TRIPS 200 /* in a batch */

/* Main thread, before the others start. */
void switch_cost_init(void);

/*
 * Play all games with the other players, once STAGE_QUIET has come.  `player`, from 0,
 * says which one the calling thread is.  In game i, i serves and is measured, and the
 * next one returns.
 */
void switch_cost_take_part(unsigned player);

/* Time from one thread to the other, in ns, the median of all batches of its game. */
extern double switch_cost_ns[SWITCH_PLAYERS];

#endif
