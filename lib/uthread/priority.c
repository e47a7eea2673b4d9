/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/priority.h"

#include "uthread/idle.h"
#include "uthread/preempt.h"
#include "uthread/sched.h"
#include "uthread/worker.h"

void tek_ut__priority_change(struct tek_uthread *thread, signed char priority)
{
	if (!tek_ut__sched->reprioritise) {
		__atomic_store_n(&thread->sched.priority, priority, __ATOMIC_RELAXED);
		return;
	}
	struct tek_worker *at = tek_ut__sched->reprioritise(thread, priority);
	if (!at)
		return;
	/* As in tek_ut__ready(): a worker that becomes idle polls once more. */
	if (tek_ut__parallel()) {
		tek_ut__fence();
		tek_ut__idle_wake(at);
	}
	tek_ut__preempt_kick(at);
}
