/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ready threads that are critical (SCHED_TEK): they go before all other threads, under every
 * scheduler, by priority. They are few, so all workers share one queue. Between tek_ut__enter() and
 * tek_ut__leave().
 */
#ifndef TEK_UTHREAD_CRITICAL_H
#define TEK_UTHREAD_CRITICAL_H

#include "uthread/worker.h"

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint tek_ut__critical_ready __attribute__((visibility("hidden")));

static inline bool tek_ut__critical_any(void)
{
	return atomic_load_explicit(&tek_ut__critical_ready, memory_order_relaxed) != 0;
}

/* From now on it is critical, or is not. Anywhere. */
static inline void tek_ut__critical_set(struct tek_uthread *thread, bool critical)
{
	if (critical)
		tek_ut__plain_no_more();
	thread->sched.critical = critical;
}

void tek_ut__critical_add(struct tek_uthread *thread);

/* The first one; NULL if there is none, or if `running` (or NULL) goes before it. */
struct tek_uthread *tek_ut__critical_take(const struct tek_uthread *running);

/* The worker that has to poll for it: one without a critical thread, if there is one. */
struct tek_worker *tek_ut__critical_place(struct tek_worker *from);

/* Whether a thread that became ready has to run at once instead of the running one. */
bool tek_ut__goes_before(const struct tek_uthread *ready, const struct tek_uthread *running);

/* In the child of fork(): no thread is ready. */
void tek_ut__critical_after_fork(void);

#endif
