/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/lock_wait.h"

#include "base/clock.h"
#include "base/relax.h"
#include "inherit/inversion.h"
#include "inherit/mutex.h"
#include "inherit/rwlock.h"
#include "inherit/waits.h"
#include "mediate/lift.h"
#include "threads/inversions.h"

/* How long a Fast thread polls a lock before its holder is lifted: a lift takes about as long. */
#define POLL_NS UINT64_C(2000)

/*
 * A waiter follows the chain again after these times: another thread may have got the lock, or a
 * deadlock in the chain may be over. Each time is twice the one before.
 */
#define FIRST_CHECK_NS UINT64_C(500000)
#define LONGEST_CHECK_NS UINT64_C(16000000)
#define LONGEST_REST_NS UINT64_C(500000000)

int tek__lock_plainly(const struct tek_lock_calls *calls, void *lock, struct tek_until until)
{
	return until.at ? calls->lock_until(lock, until.clock, until.at) : calls->lock(lock);
}

/* 0, or the error of the last try. */
static int poll(const struct tek_lock_calls *calls, void *lock)
{
	const uint64_t end = tek__now(CLOCK_MONOTONIC) + POLL_NS;
	int error;

	do {
		tek__relax_cpu();
		error = calls->try(lock);
	} while (error == EBUSY && tek__now(CLOCK_MONOTONIC) < end);
	return error;
}

/* Waits for at most `ns`. *is_last: until the time of the caller is over, if it has one. */
static int wait_for_some_time(const struct tek_lock_calls *calls, void *lock,
			      struct tek_until until, uint64_t ns, bool *is_last)
{
	*is_last = until.at &&
		   (!tek__is_time(until.at) || tek__ns_of(until.at) <= tek__now(until.clock) + ns);
	if (*is_last)
		return tek__lock_plainly(calls, lock, until);
	const struct timespec at = tek__timespec_of(tek__now(CLOCK_MONOTONIC) + ns);
	return calls->lock_until(lock, CLOCK_MONOTONIC, &at);
}

static int wait_and_lift(const struct tek_lock_calls *calls, void *lock, struct tek_until until)
{
	bool is_last = false;
	int error = poll(calls, lock);

	if (error != EBUSY)
		return error;
	tek__waits_changed();
	uint64_t rest = 0;
	for (uint64_t ns = FIRST_CHECK_NS;; ns = ns < LONGEST_CHECK_NS ? 2 * ns : ns) {
		error = wait_for_some_time(calls, lock, until, ns > rest ? ns : rest, &is_last);
		if (error != ETIMEDOUT || is_last)
			return error;
		const uint64_t begin = tek__now(CLOCK_MONOTONIC);
		tek__waits_check();
		/* Many waiters that check use up the time in which the holder could run. */
		rest = 8 * (tek__now(CLOCK_MONOTONIC) - begin);
		rest = rest < LONGEST_REST_NS ? rest : LONGEST_REST_NS;
	}
}

static bool is_rwlock(uintptr_t object)
{
	return (object & TEK_WAITS_FOR_KIND) == TEK_WAITS_FOR_RWLOCK;
}

static unsigned int kind_of(uintptr_t object)
{
	return is_rwlock(object) ? TEK_WAITS_RWLOCK : TEK_WAITS_MUTEX;
}

/* Whether the calling thread has locked it already. */
static bool holds(const struct tek_thread *self, uintptr_t object, const void *lock)
{
	if (is_rwlock(object))
		return tek__rwlock_writer(lock, true) == self->tid ||
		       tek__rwlock_is_read_by(lock, self);
	return tek__mutex_owner(lock, true) == self->tid;
}

/* Whether the calling thread is Fast. A review that lifts it reads its word after that. */
static bool is_fast(const struct tek_thread *self)
{
	return __atomic_load_n(&self->member.fast, __ATOMIC_SEQ_CST);
}

int tek__lock_wait(const struct tek_lock_calls *calls, void *lock, uintptr_t object,
		   struct tek_until until, uintptr_t call)
{
	struct tek_thread *self = tek__thread_mine;
	const bool is_recorded = is_fast(self);

	if (is_recorded)
		tek__inversion_begin(kind_of(object), (uintptr_t)lock, call);
	const uintptr_t own_before = tek__waits_set_own(self,
							holds(self, object, lock) ? object : 0);
	const uintptr_t before = tek__waits_set(self, object);
	int error = is_fast(self) ? wait_and_lift(calls, lock, until)
				  : tek__lock_plainly(calls, lock, until);
	tek__waits_set(self, before);
	tek__waits_set_own(self, own_before);
	if (is_recorded)
		tek__inversion_end();
	else if (tek__inversions_have_deadlocks() || (is_fast(self) && tek__lifted_threads()))
		tek__waits_changed(); /* it was lifted meanwhile, and further holders with it */
	return error;
}
