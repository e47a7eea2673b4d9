/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread that looks at the memory of the machine in a period of its own: pages that are dirty or
 * being written back, the number from which writers are held up, free pages.  One look takes
 * some 50 us, so the period is to be milliseconds.
 */
#ifndef KTHREAD_SAMPLER_H
#define KTHREAD_SAMPLER_H

#include <stdint.h>

/* Create it, with this real-time priority; 0: none. It waits for sampler_go(). */
void sampler_start(uint64_t period_ns, int priority);

/* Have it look between these times. Does nothing if there is none. */
void sampler_go(uint64_t from_ns, uint64_t to_ns);

void sampler_join(void);

/* "samples":[[ns since FROM, dirty, threshold, free], ...] */
void sampler_print(void);

#endif
