/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduling attributes that pthread functions set and query for user-level threads: policy,
 * priority, CPUs, CPU-time clock.
 *
 * A priority counts among the threads of the program, where the scheduler has priorities (fifo).
 * With SCHED_TEK (tek/tek.h) a thread goes before all other threads, under every scheduler, and its
 * priority is a nice value. The kernel's scheduling of the process stays as it is.
 */
#ifndef TEK_UTHREAD_POSIX_SCHED_H
#define TEK_UTHREAD_POSIX_SCHED_H

#include "tek_abi.h"
#include "uthread/posix/record.h"

#include <stddef.h>
#include <time.h>

/*
 * The range of a policy's priorities, as sched_get_priority_min() and _max() report it; that of
 * SCHED_TEK has nice values.
 */
int tek_ut__sched_least(int policy);
int tek_ut__sched_most(int policy);

/* The value that the scheduler compares: the greater one goes first. */
int tek_ut__sched_rank(int policy, int priority);

/* Whether there is such a policy, with such a priority: 0, EINVAL. */
int tek_ut__sched_check(int policy, int priority);

int tek_ut__sched_set(struct tek_posix *posix, int policy, int priority);

/*
 * tek_critical_enter() and _leave() by the calling thread: meanwhile it goes before all other
 * threads as with SCHED_TEK, and still reads its own policy. 0; EOVERFLOW, EINVAL as in tek/tek.h.
 */
int tek_ut__sched_critical_enter(void);
int tek_ut__sched_critical_leave(void);

/* The stack size of threads that set none. */
size_t tek_ut__sched_default_stack(void);

/*
 * A thread's CPUs: it runs wherever its worker does, so they are stored, and reported again. 0,
 * EINVAL: none of them is the process's, ENOMEM.
 */
int tek_ut__sched_set_cpus(struct tek_posix *posix, size_t bytes, const cpu_set_t *cpus);
int tek_ut__sched_get_cpus(struct tek_posix *posix, size_t bytes, cpu_set_t *cpus);

/*
 * The kernel counts the time of kernel threads only. So the caller is bound to one
 * (uthread/bound.h), and has that clock. Another thread, unless it is bound, has the clock of the
 * process, which is never less. 0 or EAGAIN.
 */
int tek_ut__sched_get_clock(const struct tek_posix *posix, clockid_t *clock);

/* The initial scheduling of the first thread. */
void tek_ut__sched_adopt(struct tek_posix *first);

#endif
