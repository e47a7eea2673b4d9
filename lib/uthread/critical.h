/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ready threads that are critical (SCHED_TEK): they go before all others, under every scheduler, by priority.  Few, so
 * one queue for all workers.  Between tek__enter() and tek__leave().
 */
#ifndef TEK_UTHREAD_CRITICAL_H
#define TEK_UTHREAD_CRITICAL_H

#include "uthread/worker.h"

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint tek__critical_ready __attribute__((visibility("hidden")));

static inline bool tek__critical_any(void)
{
	return atomic_load_explicit(&tek__critical_ready, memory_order_relaxed) != 0;
}

/* From now on it is one, or is none. Anywhere. */
static inline void tek__critical_set(struct tek_uthread *thread, bool critical)
{
	if (critical)
		tek__plain_no_more();
	thread->sched.critical = critical;
}

void tek__critical_add(struct tek_uthread *thread);

/* The first one; NULL if there is none, or if `running` (NULL: nobody) goes before it. */
struct tek_uthread *tek__critical_take(const struct tek_uthread *running);

/* Which worker is to look for it: one on which nobody critical runs, if there is one. */
struct tek_worker *tek__critical_place(struct tek_worker *from);

/* Whether one that has become ready is to run at once instead of the other. */
bool tek__goes_before(const struct tek_uthread *ready, const struct tek_uthread *running);

/* In the child of fork(): nobody is ready. */
void tek__critical_after_fork(void);

#endif
