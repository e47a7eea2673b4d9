/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/inversion.h"

#include "base/clock.h"
#include "base/module.h"
#include "base/procfs.h"
#include "base/signal_block.h"
#include "inherit/waits.h"
#include "mediate/guard.h"
#include "mediate/lift.h"
#include "mediate/region.h"
#include "threads/inversions.h"
#include "threads/process.h"

#include <string.h>

/* A thread with less CPU time while it is not Fast has no run delay that means anything. */
#define LEAST_RUN_NS UINT64_C(1000000)

static void set_since(struct tek_inversion_wait *wait, uint64_t ns)
{
	__atomic_store_n(&wait->serial, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&wait->since_ns, ns, __ATOMIC_RELEASE);
}

static bool is_found(const struct tek_inversion_wait *wait)
{
	return __atomic_load_n(&wait->since_ns, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&wait->serial, __ATOMIC_ACQUIRE);
}

void tek__inversion_begin(unsigned int kind, uintptr_t object, uintptr_t call)
{
	struct tek_inversion_wait *wait = &tek__thread_mine->inversion;

	/* The table lists the file, so that another process can name the call. */
	if (!tek__module_has(call, 1))
		tek__module_note(call);
	set_since(wait, 0);
	wait->kind = (unsigned char)kind;
	wait->object = object;
	wait->call = call;
	set_since(wait, tek__now(CLOCK_MONOTONIC));
}

void tek__inversion_prepare(const void *mutex, uintptr_t call)
{
	tek__inversion_begin(TEK_WAITS_COND, (uintptr_t)mutex, call);
	set_since(&tek__thread_mine->inversion, 0);
}

void tek__inversion_marked(struct tek_thread *waiter)
{
	if (!waiter->inversion.since_ns && waiter->inversion.kind)
		set_since(&waiter->inversion, tek__now(CLOCK_MONOTONIC));
}

void tek__inversion_unmarked(struct tek_thread *waiter)
{
	if (waiter->inversion.serial)
		tek__inversions_wait_ends((tek_u32)waiter->tid);
	set_since(&waiter->inversion, 0);
}

/* ---- the holder, under the lock ---- */

static uint64_t lifted_time(const struct tek_member *member)
{
	const uint64_t since = member->lifted_since_ns;

	return member->lifted_ns + (since ? tek__now(CLOCK_BOOTTIME) - since : 0);
}

void tek__inversion_found(struct tek_thread *waiter, const struct tek_thread *holder)
{
	struct tek_inversion_wait *wait = &waiter->inversion;

	if (!__atomic_load_n(&wait->since_ns, __ATOMIC_ACQUIRE) || wait->serial ||
	    holder->member.reasons & ~TEK_WHY_LIFT)
		return;
	wait->holder = holder->tid;
	wait->has_ended = wait->was_queried = false;
	wait->lifted_ns = lifted_time(&holder->member);
	wait->cpu_ns = tek__guard_fast_cpu(holder);
	wait->release = 0;
	memset(wait->name, 0, sizeof(wait->name));
	const struct tek_held_up held_up = {
		.tid = (tek_u32)waiter->tid,
		.holder = (tek_u32)holder->tid,
		.kind = wait->kind,
		.object = wait->object,
		.call = wait->call,
		.since_ns = tek__now(CLOCK_BOOTTIME),
	};
	tek__inversions_wait_begins(&held_up);
	__atomic_store_n(&wait->serial, holder->serial, __ATOMIC_RELEASE);
}

/* From here on the times are those of the wait. */
static void take_times(struct tek_inversion_wait *wait, const struct tek_thread *holder)
{
	wait->fast_cpu_ns = tek__guard_fast_cpu(holder);
	wait->lifted_ns = lifted_time(&holder->member) - wait->lifted_ns;
	wait->cpu_ns = wait->fast_cpu_ns - wait->cpu_ns;
	wait->has_ended = true;
	if (wait->kind == TEK_WAITS_JOIN)
		wait->release = holder->birth.function;
	else if (__atomic_load_n(&holder->released.lock, __ATOMIC_ACQUIRE) == wait->object)
		wait->release = holder->released.call;
	memcpy(wait->name, holder->name, sizeof(wait->name));
}

/* What the kernel knows of it. */
static void query_holder(struct tek_inversion_wait *wait)
{
	wait->ran_ns = wait->delayed_ns = 0;
	tek__procfs_run_delay(wait->holder, &wait->ran_ns, &wait->delayed_ns);
	if (!wait->name[0])
		tek__procfs_thread_name(wait->holder, wait->name);
}

static void inform_waiters(const struct tek_thread *holder)
{
	for (struct tek_thread *waiter = tek__region_first(); waiter;
	     waiter = waiter->member.region_next) {
		struct tek_inversion_wait *wait = &waiter->inversion;
		if (!wait->since_ns || wait->serial != holder->serial || wait->has_ended)
			continue;
		take_times(wait, holder);
		query_holder(wait);
		wait->was_queried = true;
	}
}

void tek__inversion_thread_ends(struct tek_thread *thread)
{
	if (thread->inversion.serial)
		tek__inversions_wait_ends((tek_u32)thread->tid);
	if (thread->member.lifts)
		inform_waiters(thread);
}

void tek__inversion_releases(const void *lock, uintptr_t call)
{
	struct tek_thread *self = tek__thread_mine;

	self->released.call = call;
	__atomic_store_n(&self->released.lock, (uintptr_t)lock, __ATOMIC_RELEASE);
}

/* ---- the record, by the waiter ---- */

/* Needs the lock. */
static struct tek_inversion describe(struct tek_inversion_wait *wait, uint64_t wait_ns)
{
	const struct tek_thread *holder = tek__thread_known_tid(wait->holder);

	if (!wait->has_ended && holder && holder->serial == wait->serial)
		take_times(wait, holder);
	else if (!wait->has_ended) /* never lifted, and gone */
		wait->lifted_ns = wait->cpu_ns = wait->fast_cpu_ns = 0;
	/* The lift may have ended a moment after the wait. */
	wait->lifted_ns = wait->lifted_ns < wait_ns ? wait->lifted_ns : wait_ns;
	wait->cpu_ns = wait->cpu_ns < wait->lifted_ns ? wait->cpu_ns : wait->lifted_ns;
	return (struct tek_inversion){
		.kind = wait->kind,
		.object = wait->object,
		.call = wait->call,
		.wait_ns = wait_ns,
	};
}

static uint64_t cost(const struct tek_inversion_wait *wait, uint64_t wait_ns)
{
	if (wait->ran_ns < wait->fast_cpu_ns + LEAST_RUN_NS)
		return 0;
	const double delay = (double)wait->delayed_ns / (double)(wait->ran_ns - wait->fast_cpu_ns);
	return wait_ns + (uint64_t)((double)wait->cpu_ns * delay);
}

/* The slow part, for the few waits of which the table wants all. Without the lock. */
static void add_details(struct tek_inversion *record, struct tek_inversion_wait *wait)
{
	const struct tek_thread *self = tek__thread_mine;

	if (!wait->was_queried)
		query_holder(wait);
	if (wait->release && !tek__module_has(wait->release, 1))
		tek__module_note(wait->release);
	if (self->named)
		memcpy(record->waiter_name, self->name, sizeof(record->waiter_name));
	else
		tek__procfs_thread_name(self->tid, (char *)record->waiter_name);
	memcpy(record->holder_name, wait->name, sizeof(record->holder_name));
	record->waiter_tid = (tek_u32)self->tid;
	record->holder_tid = (tek_u32)wait->holder;
	record->lifted_ns = wait->lifted_ns;
	record->lifted_cpu_ns = wait->cpu_ns;
	record->release = wait->release;
	record->cost_ns = cost(wait, record->wait_ns);
}

static void add(const struct tek_inversion *record)
{
	if (tek__lock()) {
		tek__inversions_add(record);
		tek__unlock();
	}
}

/* Signals are blocked. */
static void record(struct tek_inversion_wait *wait)
{
	const uint64_t wait_ns = tek__now(CLOCK_MONOTONIC) - wait->since_ns;
	struct tek_inversion inversion;

	if (!tek__lock())
		return;
	tek__waits_review();
	tek__inversions_wait_ends((tek_u32)tek__thread_mine->tid);
	inversion = describe(wait, wait_ns);
	const bool is_wanted = tek__inversions_wants(&inversion);
	if (!is_wanted)
		tek__inversions_add(&inversion);
	tek__unlock();
	if (!is_wanted)
		return;
	add_details(&inversion, wait);
	add(&inversion);
}

void tek__inversion_end(void)
{
	struct tek_inversion_wait *wait = &tek__thread_mine->inversion;

	if (is_found(wait)) {
		const tek_signals before = tek__signals_block();
		record(wait);
		tek__signals_restore(before);
	} else if (tek__waits_have_effects()) {
		tek__waits_changed();
	}
	set_since(wait, 0);
	/* In a signal handler: the wait that it interrupted is not recorded. */
	wait->kind = TEK_WAITS_NO;
}

void tek__inversion_forget(void)
{
	struct tek_thread *self = tek__thread_mine;

	if (!self)
		return;
	set_since(&self->inversion, 0);
	self->inversion.kind = TEK_WAITS_NO;
}
