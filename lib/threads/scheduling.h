/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's scheduling of a thread: queries only.  What changes it is in mediate/rt.h.
 *
 * Kernel ids of other threads need the lock (threads/process.h), which prevents their reuse.
 */
#ifndef TEK_THREADS_SCHEDULING_H
#define TEK_THREADS_SCHEDULING_H

#include "base/sched_attr.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Policy and priority as they were last seen being set; the kernel may know better. */
struct tek_seen {
	unsigned char policy; /* SCHED_* */
	signed char nice;
	unsigned char rt_priority;
	bool reset_on_fork;
};

static inline bool tek__is_real_time(int policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR;
}

/* The one that goes with the policy: nice value or real-time priority. */
static inline signed char tek__seen_priority(struct tek_seen seen)
{
	return tek__is_real_time(seen.policy) ? (signed char)seen.rt_priority : seen.nice;
}

/* All of it, by a raw system call. Returns 0 or an errno value; may set errno. */
int tek__scheduling_get(pid_t tid, struct tek_sched_attr *attr);

/*
 * The kernel's settings of a thread now, as far as a record holds them. Returns 0 or an errno
 * value.
 */
int tek__scheduling_query(pid_t tid, struct tek_seen *seen);

/* The nice value that a thread has or, while real-time, will have. */
int tek__scheduling_nice(pid_t tid);

#endif
