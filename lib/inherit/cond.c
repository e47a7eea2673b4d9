/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/cond.h"

#include "base/clock.h"
#include "base/objects.h"
#include "base/procfs.h"
#include "base/signal_block.h"
#include "inherit/inversion.h"
#include "inherit/mutex.h"
#include "inherit/waits.h"
#include "mediate/guard.h"
#include "mediate/lift.h"
#include "mediate/region.h"
#include "threads/process.h"

/*
 * The budget guard checks a wait so long after its time. Most waiters have the mutex by then, and a
 * thread that waits periodically does not wake the guard each time.
 */
#define CHECK_AFTER_NS UINT64_C(1000000)

/* The state of a wait: these bits, and above them the number of the thread's wait. */
enum { WAITS = 1, MARKED = 2, NEXT = 4 };

unsigned int tek__cond_waiting, tek__cond_marked;
static unsigned int doubted; /* counts marks that were taken back */

/* The mutex of all marked waits; NULL: they have several. */
static const void *marked_mutex;

static struct tek_objects objects;

static void no_flag_overlaps(struct tek_objects *found)
{
	(void)found;
}

bool tek__cond_is_seen(const pthread_mutex_t *mutex)
{
	const struct tek_thread *self = tek__thread_mine;

	return tek__inherit_is_on() && self && self->member.fast && !tek__process_is_new() &&
	       tek__mutex_is_inherited(mutex);
}

clockid_t tek__cond_clock(const pthread_cond_t *cond)
{
	tek__objects_find(&objects, no_flag_overlaps);
	return objects.cond_monotonic.bit && tek__flag_is_set(cond, objects.cond_monotonic)
		       ? CLOCK_MONOTONIC
		       : CLOCK_REALTIME;
}

static void count(unsigned int *counter, int by)
{
	__atomic_add_fetch(counter, (unsigned int)by, __ATOMIC_SEQ_CST);
}

static unsigned int state_of(const struct tek_thread *thread)
{
	return __atomic_load_n(&thread->cond_wait.state, __ATOMIC_SEQ_CST);
}

/* ---- marks, under the lock; the thread itself may end its wait at any time ---- */

static bool changes(struct tek_thread *thread, unsigned int from, unsigned int to)
{
	return __atomic_compare_exchange_n(&thread->cond_wait.state, &from, to, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Locks of ordinary threads are seen while a wait is marked. */
static void count_mark(int by)
{
	count(&tek__cond_marked, by);
	count(&tek__mutex_detours, by);
}

static void mark(struct tek_thread *thread, unsigned int state)
{
	thread->cond_wait.believed_until_ns = tek__now(CLOCK_MONOTONIC) + TEK_COND_BELIEVED_NS;
	const void *mutex = thread->cond_wait.mutex;
	const bool is_only = !tek__cond_marked || marked_mutex == mutex;

	__atomic_store_n(&marked_mutex, is_only ? mutex : NULL, __ATOMIC_SEQ_CST);
	if (!(state & MARKED)) {
		count_mark(1);
		if (changes(thread, state, state | MARKED))
			tek__inversion_marked(thread);
		else
			count_mark(-1);
	}
}

/* Without /proc the answer is yes: a missing lift is better than one without an end. */
static bool may_wait_for(const struct tek_thread *thread, const pthread_cond_t *cond)
{
	uintptr_t futex;

	return !tek__procfs_futex(thread->tid, &futex) ||
	       (futex >= (uintptr_t)cond && futex < (uintptr_t)(cond + 1));
}

/* Takes the mark back if the thread may still wait for the condition variable. */
static void doubt(struct tek_thread *thread, unsigned int state)
{
	const uint64_t now = tek__now(CLOCK_MONOTONIC);

	if (thread->cond_wait.believed_until_ns > now)
		return;
	thread->cond_wait.believed_until_ns = now + TEK_COND_BELIEVED_NS;
	if (!may_wait_for(thread, thread->cond_wait.cond) ||
	    !changes(thread, state, state & ~(unsigned int)MARKED))
		return;
	count(&doubted, 1);
	count_mark(-1);
	tek__inversion_unmarked(thread);
}

const pthread_mutex_t *tek__cond_mutex_of(const struct tek_thread *thread)
{
	const unsigned int state = state_of(thread);
	const pthread_mutex_t *mutex = __atomic_load_n(&thread->cond_wait.mutex, __ATOMIC_RELAXED);

	return state & MARKED && state_of(thread) == state ? mutex : NULL;
}

/* ---- by the waiter ---- */

static uint64_t check_time(struct tek_until until)
{
	if (!until.at || !tek__is_time(until.at))
		return UINT64_MAX;
	const uint64_t end = tek__ns_of(until.at), now = tek__now(until.clock);
	const uint64_t rest = end > now ? end - now : 0;
	const uint64_t from = tek__now(CLOCK_MONOTONIC) + CHECK_AFTER_NS;
	return rest < UINT64_MAX - from ? from + rest : UINT64_MAX;
}

static void wake_guard(uint64_t at)
{
	const tek_signals before = tek__signals_block();

	if (tek__lock()) {
		tek__guard_deadline(at);
		tek__unlock();
	}
	tek__signals_restore(before);
}

void tek__cond_begin(const pthread_cond_t *cond, pthread_mutex_t *mutex, struct tek_until until,
		     uintptr_t call)
{
	struct tek_cond_wait *wait = &tek__thread_mine->cond_wait;
	const unsigned int before = wait->state;
	const uint64_t check_ns = check_time(until);

	/* siglongjmp(3) may have left a wait. */
	tek__cond_abandon(tek__thread_mine);
	tek__inversion_prepare(mutex, call);
	wait->cond = cond;
	__atomic_store_n(&wait->mutex, mutex, __ATOMIC_RELAXED);
	wait->check_ns = check_ns;
	count(&tek__cond_waiting, 1);
	__atomic_store_n(&wait->state, (before & ~(unsigned int)(NEXT - 1)) + NEXT + WAITS,
			 __ATOMIC_SEQ_CST);
	/* Where timers are in the guard's place there is no other thread to hold the mutex. */
	if (check_ns != UINT64_MAX && !tek__guard_is_lone())
		wake_guard(check_ns);
}

void tek__cond_abandon(struct tek_thread *thread)
{
	const unsigned int state = __atomic_fetch_and(
		&thread->cond_wait.state, ~(unsigned int)(WAITS | MARKED), __ATOMIC_SEQ_CST);

	if (state & WAITS)
		count(&tek__cond_waiting, -1);
	if (state & MARKED)
		count_mark(-1);
}

void tek__cond_end(void)
{
	if (!tek__thread_mine)
		return;
	tek__cond_abandon(tek__thread_mine);
	tek__inversion_end();
}

/* ---- by other threads ---- */

/* Marks the Fast threads that wait for it. False: there are none. */
static bool mark_all(const pthread_cond_t *cond)
{
	bool found = false;

	for (struct tek_thread *thread = tek__region_first(); thread;
	     thread = thread->member.region_next) {
		const unsigned int state = state_of(thread);
		if (!(state & WAITS) || thread->cond_wait.cond != cond)
			continue;
		mark(thread, state);
		found = true;
	}
	return found;
}

/* In the child of a fork, before TEK has begun again, the waits are the parent's. */
static bool take_lock(tek_signals *before)
{
	if (tek__process_is_new())
		return false;
	*before = tek__signals_block();
	if (tek__lock())
		return true;
	tek__signals_restore(*before);
	return false;
}

static void give_lock(tek_signals before)
{
	tek__unlock();
	tek__signals_restore(before);
}

static void announce(const pthread_cond_t *cond)
{
	tek_signals before;

	if (!take_lock(&before))
		return;
	if (mark_all(cond))
		tek__waits_review();
	give_lock(before);
}

/*
 * It is announced first: the woken thread may run at once, in the place of this one. If a mark was
 * taken back meanwhile, that may have been one of these, too early.
 */
int tek__cond_wake(pthread_cond_t *cond, int (*wake)(pthread_cond_t *cond))
{
	const unsigned int before = __atomic_load_n(&doubted, __ATOMIC_SEQ_CST);

	announce(cond);
	int error = wake(cond);
	if (__atomic_load_n(&doubted, __ATOMIC_SEQ_CST) != before)
		announce(cond);
	return error;
}

/* Whether a wait for this mutex is marked; those of long ago are doubted. */
static bool is_awaited(const pthread_mutex_t *mutex)
{
	bool found = false;

	for (struct tek_thread *thread = tek__region_first(); thread;
	     thread = thread->member.region_next) {
		const unsigned int state = state_of(thread);
		if (!(state & MARKED))
			continue;
		doubt(thread, state);
		found |= tek__cond_mutex_of(thread) == mutex;
	}
	return found;
}

void tek__cond_locked(const pthread_mutex_t *mutex)
{
	const void *marked = __atomic_load_n(&marked_mutex, __ATOMIC_SEQ_CST);
	tek_signals before;

	if ((marked && marked != mutex) || !take_lock(&before))
		return;
	if (is_awaited(mutex))
		tek__waits_review();
	give_lock(before);
}

uint64_t tek__cond_check(uint64_t now)
{
	uint64_t next = UINT64_MAX;
	bool found = false;

	for (struct tek_thread *thread = tek__region_first(); thread;
	     thread = thread->member.region_next) {
		const unsigned int state = state_of(thread);
		const uint64_t check_ns = thread->cond_wait.check_ns;
		if (state & MARKED)
			doubt(thread, state);
		if ((state & (WAITS | MARKED)) != WAITS)
			continue;
		if (check_ns <= now) {
			mark(thread, state);
			found = true;
		} else if (check_ns < next) {
			next = check_ns;
		}
	}
	if (found)
		tek__waits_review();
	return next;
}

void tek__cond_forget(void)
{
	struct tek_thread *self = tek__thread_mine;

	tek__mutex_forget();
	tek__cond_waiting = tek__cond_marked = 0;
	if (self)
		self->cond_wait.state &= ~(unsigned int)(WAITS | MARKED);
}
