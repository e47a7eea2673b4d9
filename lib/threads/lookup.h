/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The thread that a call is about, by pthread_t or by kernel id: for the calls of pthread.h,
 * sched.h and tek/tek.h.
 */
#ifndef TEK_THREADS_LOOKUP_H
#define TEK_THREADS_LOOKUP_H

#include "threads/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct sched_attr; /* the kernel's */

/* The target thread of a call. */
struct tek_target {
	bool by_tid;
	pthread_t handle;
	pid_t tid; /* 0: the calling thread */
	struct sched_attr
		*attr; /* the argument of sched_setattr(2), which takes a tid; else NULL */
};

static inline struct tek_target tek__by_handle(pthread_t handle)
{
	return (struct tek_target){.handle = handle};
}

static inline struct tek_target tek__by_tid(pid_t tid)
{
	return (struct tek_target){.by_tid = true, .tid = tid};
}

/* The thread, found or adopted; NULL if there is none in this process. Needs the lock. */
struct tek_thread *tek__lookup(struct tek_target target);

/* The same without adopting, and without asking the kernel whether it still exists. */
struct tek_thread *tek__lookup_known(struct tek_target target);

/*
 * Why there is none: EINVAL, EAGAIN (it is of this process but has no slot, or is past its
 * end), EPERM (it is of another process) or ESRCH.  Needs no lock.
 */
int tek__lookup_error(struct tek_target target);

#endif
