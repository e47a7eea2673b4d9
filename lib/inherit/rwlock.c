/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/rwlock.h"

#include "base/real.h"
#include "base/self.h"
#include "base/user_memory.h"
#include "inherit/inversion.h"
#include "inherit/lock_wait.h"
#include "inherit/waits.h"

bool tek__rwlock_layout_is_known(void)
{
#ifdef __GLIBC__
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	if (!tek__real.pthread_rwlock_clockrdlock || !tek__real.pthread_rwlock_clockwrlock)
		return false;
	tek__c_library.pthread_rwlock_wrlock(&lock);
	const bool is_writer = lock.__data.__cur_writer == tek__gettid();
	tek__c_library.pthread_rwlock_unlock(&lock);
	return is_writer && lock.__data.__cur_writer == 0;
#else
	return false;
#endif
}

pid_t tek__rwlock_writer(const void *lock, bool is_mine)
{
#ifdef __GLIBC__
	const int *writer = &((const pthread_rwlock_t *)lock)->__data.__cur_writer;
	int tid;

	if (is_mine)
		return __atomic_load_n(writer, __ATOMIC_RELAXED);
	return tek__user_copy_surely(&tid, writer, sizeof(tid)) ? tid : 0;
#else
	(void)lock, (void)is_mine;
	return 0;
#endif
}

bool tek__rwlock_is_read_by(const void *lock, const struct tek_thread *thread)
{
	for (unsigned int i = 0; i < TEK_READ_LOCKS; i++)
		if (__atomic_load_n(&thread->reads[i], __ATOMIC_RELAXED) == (uintptr_t)lock)
			return true;
	return false;
}

/* ---- by the thread itself ---- */

/* Puts `to` in the place of `from` in the list of the calling thread. False: that is not there. */
static bool replace(uintptr_t from, uintptr_t to)
{
	struct tek_thread *self = tek__thread_mine;

	for (unsigned int i = 0; self && i < TEK_READ_LOCKS; i++) {
		if (self->reads[i] == from) {
			__atomic_store_n(&self->reads[i], to, __ATOMIC_RELAXED);
			return true;
		}
	}
	return false;
}

static int read_plainly(void *lock)
{
	return tek__real.pthread_rwlock_rdlock(lock);
}

static int try_read(void *lock)
{
	return tek__real.pthread_rwlock_tryrdlock(lock);
}

static int read_until(void *lock, clockid_t clock, const struct timespec *at)
{
	if (clock == CLOCK_REALTIME)
		return tek__real.pthread_rwlock_timedrdlock(lock, at);
	return tek__real.pthread_rwlock_clockrdlock(lock, clock, at);
}

static int write_plainly(void *lock)
{
	return tek__real.pthread_rwlock_wrlock(lock);
}

static int try_write(void *lock)
{
	return tek__real.pthread_rwlock_trywrlock(lock);
}

static int write_until(void *lock, clockid_t clock, const struct timespec *at)
{
	if (clock == CLOCK_REALTIME)
		return tek__real.pthread_rwlock_timedwrlock(lock, at);
	return tek__real.pthread_rwlock_clockwrlock(lock, clock, at);
}

static int take(const struct tek_lock_calls *calls, pthread_rwlock_t *lock, struct tek_until until,
		uintptr_t call)
{
	if (!tek__thread_mine || (until.at && !tek__is_time(until.at)))
		return tek__lock_plainly(calls, lock, until);
	int error = calls->try(lock);
	if (error != EBUSY)
		return error;
	return tek__lock_wait(calls, lock, tek__waits_for(TEK_WAITS_FOR_RWLOCK, lock), until, call);
}

static int record_read(pthread_rwlock_t *lock, int error)
{
	if (!error)
		replace(0, (uintptr_t)lock);
	return error;
}

int tek__rwlock_read(pthread_rwlock_t *lock, struct tek_until until, uintptr_t call)
{
	static const struct tek_lock_calls calls = {read_plainly, try_read, read_until};

	return record_read(lock, take(&calls, lock, until, call));
}

int tek__rwlock_try_read(pthread_rwlock_t *lock)
{
	return record_read(lock, try_read(lock));
}

int tek__rwlock_write(pthread_rwlock_t *lock, struct tek_until until, uintptr_t call)
{
	static const struct tek_lock_calls calls = {write_plainly, try_write, write_until};

	return take(&calls, lock, until, call);
}

int tek__rwlock_unlock(pthread_rwlock_t *lock, uintptr_t call)
{
	const struct tek_thread *self = tek__thread_mine;

	/* Before another thread can free it, and lock another one at the same address. */
	const bool was_read = replace((uintptr_t)lock, 0);
	if (self && self->member.reasons & TEK_WHY_LIFT)
		tek__inversion_releases(lock, call);
	int error = tek__real.pthread_rwlock_unlock(lock);
	if (error && was_read)
		replace(0, (uintptr_t)lock);
	if (!error && self && self->member.reasons & TEK_WHY_LIFT)
		tek__waits_changed();
	return error;
}
