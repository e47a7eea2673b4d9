/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/priority.h"

#include "uthread/idle.h"
#include "uthread/preempt.h"
#include "uthread/sched.h"
#include "uthread/worker.h"

void tek__priority_change(struct tek_uthread *thread, signed char priority)
{
	if (!tek__sched->reprioritise) {
		__atomic_store_n(&thread->sched.priority, priority, __ATOMIC_RELAXED);
		return;
	}
	struct tek_worker *at = tek__sched->reprioritise(thread, priority);
	if (!at)
		return;
	/* As in tek__ready(): a worker that becomes idle polls once more. */
	if (tek__parallel()) {
		tek__fence();
		tek__idle_wake(at);
	}
	tek__preempt_kick(at);
}
