/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * `tek run --place rtfifo` watches the threads that TEK made SCHED_FIFO: their CPUs have a budget,
 * and none stays real-time when tek has ended.  In the directory of the run tek keeps a file,
 * "watched", as long as it does; each process with such threads makes one there that has its
 * number.
 *
 * All of it is async-signal-safe but for the start.
 */
#ifndef TEK_PLACE_KEEPER_H
#define TEK_PLACE_KEEPER_H

#include <stdbool.h>

/*
 * At the start, if threads are to be SCHED_FIFO.  False: they must not be, for this process belongs
 * to a run that has ended or cannot see it (another pid namespace, another root).  Outside of a run
 * (TEK_PLACE set by hand) they may, and no process watches them.
 */
bool tek__keeper_start(void);

/* Before a thread of this process becomes SCHED_FIFO. False: it must not. */
bool tek__keeper_begin(void);

#endif
