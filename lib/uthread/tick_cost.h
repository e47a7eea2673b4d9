/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a tick costs: the time from the return of a tick's handler to the begin of the next one, if
 * that is pending by then. A timer with a shorter interval would leave no time to the program.
 *
 * A few of a carrier's ticks are measured, again and again. The handler sends itself a probe and
 * returns; the kernel delivers the probe before the program runs. Then the probe is the tick.
 *
 * All functions: by a carrier, in the handler of its ticks. They take no lock.
 */
#ifndef TEK_UTHREAD_TICK_COST_H
#define TEK_UTHREAD_TICK_COST_H

#include <stdbool.h>
#include <stdint.h>

/* Of one carrier. Zero at its begin. */
struct tek_tick_cost {
	unsigned int ticks, samples;
	uint64_t sent_at;     /* in ns */
	uint64_t least_ns;    /* of these samples */
	uint64_t interval_ns; /* the last result; 0: none yet */
};

/* A timer's tick has begun: whether a probe follows, and is the tick. Then the handler returns. */
bool tek_ut__tick_cost_probe(struct tek_tick_cost *cost);

/*
 * The probe has begun. Returns the least interval of the timer, in ns, with which the program gets
 * most of the time; 0: there are too few samples yet.
 */
uint64_t tek_ut__tick_cost_interval(struct tek_tick_cost *cost);

#endif
