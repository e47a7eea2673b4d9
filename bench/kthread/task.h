/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the programs of this directory share.  Each of them parses its options, becomes what they
 * say, says `ready`, and waits for a line `FROM TO` on standard input: when it is to begin and to
 * end, CLOCK_MONOTONIC in ns.  Then it runs and prints one line of JSON.
 *
 * Real-time load is bounded: nothing runs for longer than MAX_SECONDS.
 */
#ifndef KTHREAD_TASK_H
#define KTHREAD_TASK_H

#include "../response/number.h"

#include <stdint.h>

#define MAX_SECONDS 120

/* Make the calling thread SCHED_FIFO of this priority; 0: leave it as it is. */
void be_realtime(int priority);

/* Be an ordinary thread again. */
void sched_other(void);

/* Keep the calling thread on this CPU; -1: leave it as it is. */
void stay_on(int cpu);

/* Have all memory present before it is needed, now and later. */
void lock_memory(void);

/* One piece of work, in ns. */
struct iteration {
	uint64_t begin_ns; /* when its period began, since FROM */
	uint64_t response_ns;
};

/* Print them as the first member of the line of JSON, which stays open. */
void print_rounds(const struct iteration *iterations, uint64_t count);

/* Say `ready` and wait for the times. Exits if standard input ends before. */
void wait_for_times(uint64_t *from_ns, uint64_t *to_ns);

#endif
