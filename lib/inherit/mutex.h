/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes of the C library whose holder is lifted while a Fast thread waits.
 *
 * The owner is read from the mutex, where the C library has it. tek__inherit_start() tries a mutex
 * of its own to find out whether that is so; if it is not, all calls go straight to the next
 * definition.
 *
 * Where another library wraps the functions there is no inheritance.
 *
 * A mutex that is free is locked here, as the C library does it: a call to it would cost more than
 * the lock. What has to wait, and each other type of mutex, goes to the C library. Mutexes with
 * PTHREAD_PRIO_INHERIT or PTHREAD_PRIO_PROTECT are the kernel's.
 *
 * The functions need no lock.
 */
#ifndef TEK_INHERIT_MUTEX_H
#define TEK_INHERIT_MUTEX_H

#include "base/self.h"
#include "base/until.h"
#include "threads/member.h"
#include "threads/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* For the start. Where there are rules it begins at once. */
void tek__inherit_start(bool is_on);

/* The first Fast thread of the process: from now on holders are known. Needs the lock. */
void tek__inherit_begin(void);

/* TEK does nothing in this process any more. Needs no lock. */
void tek__inherit_end(void);

/* In the child of a fork: no wait is marked. */
void tek__mutex_forget(void);

extern bool tek__inherit_works;

/* Holders are known and are lifted. */
static inline bool tek__inherit_is_on(void)
{
	return __atomic_load_n(&tek__inherit_works, __ATOMIC_RELAXED);
}

/*
 * 0: a normal mutex may be locked here. Before the start, and where that is not possible, one more
 * than the marked waits for condition variables (cond.h), whose mutexes are to be seen.
 */
extern unsigned int tek__mutex_detours;

/* True while the process has had one thread only, so that the C library needs no atomic access. */
extern const char *tek__mutex_single_threaded;

/*
 * Waits for it where that has to be. As pthread_mutex_lock(), and pthread_mutex_clocklock(). `call`
 * is the address to which that returns.
 */
int tek__mutex_lock(pthread_mutex_t *mutex, struct tek_until until, uintptr_t call);

/* Unlocks, by a thread that is lifted. As pthread_mutex_unlock(); `call` likewise. */
int tek__mutex_unlock_lifted(pthread_mutex_t *mutex, uintptr_t call);

/*
 * The kernel id of the thread that holds it; 0: none, or not known. The caller is in a function of
 * the mutex, or the mutex may be gone (is_mine: false).
 */
pid_t tek__mutex_owner(const void *mutex, bool is_mine);

/* Whether TEK lifts the holder of such a mutex. */
bool tek__mutex_is_inherited(const pthread_mutex_t *mutex);

/*
 * Wakes a thread that waits in the kernel for a mutex that is free now. 0: pthread_mutex_unlock()
 * ends with this call, so that it needs no frame on its stack.
 */
int tek__mutex_wake(pthread_mutex_t *mutex);

static inline bool tek__mutex_is_ours(const pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
	return !__atomic_load_n(&tek__mutex_detours, __ATOMIC_RELAXED) &&
	       mutex->__data.__kind == PTHREAD_MUTEX_TIMED_NP && !*tek__mutex_single_threaded;
#else
	(void)mutex;
	return false;
#endif
}

/* Locks a normal mutex that is free. False: it did nothing. */
static inline bool tek__mutex_try(pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
	const pid_t self = tek__known_tid();
	int unlocked = 0;

	if (!tek__mutex_is_ours(mutex) || !self ||
	    !__atomic_compare_exchange_n(&mutex->__data.__lock, &unlocked, 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	mutex->__data.__owner = self;
	mutex->__data.__nusers++;
	return true;
#else
	(void)mutex;
	return false;
#endif
}

enum tek_released { TEK_NOT_RELEASED, TEK_RELEASED, TEK_RELEASED_WITH_WAITERS };

/* Unlocks a normal mutex. The caller wakes a waiter. */
static inline enum tek_released tek__mutex_release(pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
	enum { WITH_WAITERS = 2 };
	const struct tek_thread *self = tek__thread_mine;

	if (!tek__mutex_is_ours(mutex) || (self && self->member.reasons & TEK_WHY_LIFT))
		return TEK_NOT_RELEASED;
	mutex->__data.__owner = 0;
	mutex->__data.__nusers--;
	if (__builtin_expect(__atomic_exchange_n(&mutex->__data.__lock, 0, __ATOMIC_RELEASE) ==
				     WITH_WAITERS,
			     0))
		return TEK_RELEASED_WITH_WAITERS;
	return TEK_RELEASED;
#else
	(void)mutex;
	return TEK_NOT_RELEASED;
#endif
}

#endif
