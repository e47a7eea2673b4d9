/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The life of a profiled process: start, fork, the end, and what counting costs.
 */
#ifndef TEK_PRELOAD_PROFILE_START_H
#define TEK_PRELOAD_PROFILE_START_H

/*
 * The process is about to end, or to become another program: notes what is to be known of its
 * threads. May be called twice, and goes on counting if nothing comes of it.
 */
void tek_prof__last(void);

/* The process ends by itself, now. */
void tek_prof__over(void);

/*
 * Measures in this process what counting adds to a call of each kind; takes some tens of
 * microseconds.
 */
void tek_prof__measure_cost(void);

#endif
