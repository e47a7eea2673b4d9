/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/cond.h"

#include "base/objects.h"
#include "base/pi_lock.h"
#include "base/real.h"
#include "base/signal_block.h"
#include "inherit/mutex.h"
#include "threads/process.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>

/* A Fast thread that waits: on its stack, and out of the list before the wait returns. */
struct waiter {
	struct waiter *next;
	const pthread_cond_t *cond;
	pthread_mutex_t *mutex;
	int nice;
	bool is_listed;
	bool is_signalled; /* by pthread_cond_signal(), and no other thread */
	sem_t woken;
};

static struct tek_objects objects;

/* In the order of their coming. */
static struct waiter *first;
static unsigned int count; /* read without the lock, too */
static struct tek_pi_lock lock;

/* Takes the lock, with all signals blocked. False: a handler interrupted its holder. */
static bool take(tek_signals *before)
{
	*before = tek__signals_block();
	if (tek__pi_lock_take(&lock))
		return true;
	tek__signals_restore(*before);
	return false;
}

static void release(tek_signals before)
{
	tek__pi_lock_release(&lock);
	tek__signals_restore(before);
}

static void no_flag_overlaps(struct tek_objects *found)
{
	(void)found;
}

bool tek__cond_layout_is_known(void)
{
	tek__objects_find(&objects, no_flag_overlaps);
	return objects.cond_shared.bit && objects.cond_monotonic.bit &&
	       tek__c_library.sem_clockwait;
}

bool tek__cond_waits_here(const pthread_cond_t *cond)
{
	const struct tek_thread *self = tek__thread_mine;

	return tek__inherit_works && self && self->member.fast && !tek__process_is_new() &&
	       !tek__flag_is_set(cond, objects.cond_shared);
}

clockid_t tek__cond_clock(const pthread_cond_t *cond)
{
	return tek__flag_is_set(cond, objects.cond_monotonic) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* ---- under the lock ---- */

static void set_count(unsigned int to)
{
	__atomic_store_n(&count, to, __ATOMIC_SEQ_CST);
}

static void add(struct waiter *waiter)
{
	struct waiter **end = &first;

	while (*end)
		end = &(*end)->next;
	*end = waiter;
	waiter->is_listed = true;
	set_count(count + 1);
}

static void take_out(struct waiter *waiter)
{
	struct waiter **at = &first;

	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
	waiter->is_listed = false;
	set_count(count - 1);
}

/* The most critical one, of equal ones the first. */
static struct waiter *next_of(const pthread_cond_t *cond)
{
	struct waiter *best = NULL;

	for (struct waiter *waiter = first; waiter; waiter = waiter->next)
		if (waiter->cond == cond && (!best || waiter->nice < best->nice))
			best = waiter;
	return best;
}

static void wake(struct waiter *waiter, bool is_signalled)
{
	take_out(waiter);
	waiter->is_signalled = is_signalled;
	tek__c_library.sem_post(&waiter->woken);
}

/* ---- by the waiter ---- */

/* Whether it was woken. It takes the lock also then: the waker may still use the semaphore. */
static bool leave(struct waiter *waiter)
{
	tek_signals before;

	take(&before);
	const bool was_listed = waiter->is_listed;
	if (was_listed)
		take_out(waiter);
	release(before);
	return !was_listed;
}

/* Clean-up handlers of the program find the mutex locked, and a signal goes to another thread. */
static void cancelled(void *argument)
{
	struct waiter *waiter = argument;
	pthread_cond_t *cond = (pthread_cond_t *)(uintptr_t)waiter->cond;

	if (leave(waiter) && waiter->is_signalled && !tek__cond_signal(cond))
		tek__real.pthread_cond_signal(cond);
	tek__mutex_lock(waiter->mutex, TEK_FOR_EVER);
}

static int sleep_until(struct waiter *waiter, struct tek_until until)
{
	int result;

	do {
		result = until.at ? tek__c_library.sem_clockwait(&waiter->woken, until.clock,
								 until.at)
				  : tek__c_library.sem_wait(&waiter->woken);
	} while (result && errno == EINTR);
	return result ? errno : 0;
}

static int unlock(pthread_mutex_t *mutex)
{
	const struct tek_thread *self = tek__thread_mine;

	if (self && self->member.reasons & TEK_WHY_LIFT)
		return tek__mutex_unlock_lifted(mutex);
	return tek__real.pthread_mutex_unlock(mutex);
}

int tek__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, struct tek_until until)
{
	struct waiter waiter = {
		.cond = cond,
		.mutex = mutex,
		.nice = tek__thread_mine->member.nice,
	};
	const int saved = errno;
	tek_signals before;
	int error;

	if (until.at && !tek__is_time(until.at))
		return EINVAL;
	pthread_testcancel();
	tek__c_library.sem_init(&waiter.woken, 0, 0);
	if (!take(&before))
		return 0;
	add(&waiter);
	release(before);
	error = unlock(mutex);
	if (error) {
		leave(&waiter);
		return error;
	}
	pthread_cleanup_push(cancelled, &waiter);
	error = sleep_until(&waiter, until);
	pthread_cleanup_pop(0);
	if (leave(&waiter))
		error = 0;
	errno = saved;
	/* The result of locking precedes that of the wait: EOWNERDEAD. */
	int lock_error = tek__mutex_lock(mutex, TEK_FOR_EVER);
	return lock_error ? lock_error : error;
}

/* ---- by the waker ---- */

static bool take_if_any_waits(tek_signals *before)
{
	/* In the child of a fork, before TEK has begun again, these are the parent's. */
	return __atomic_load_n(&count, __ATOMIC_SEQ_CST) && !tek__process_is_new() && take(before);
}

bool tek__cond_signal(const pthread_cond_t *cond)
{
	tek_signals before;

	if (!take_if_any_waits(&before))
		return false;
	struct waiter *waiter = next_of(cond);
	if (waiter)
		wake(waiter, true);
	release(before);
	return waiter;
}

bool tek__cond_broadcast(const pthread_cond_t *cond)
{
	struct waiter *waiter;
	tek_signals before;
	bool found = false;

	if (!take_if_any_waits(&before))
		return false;
	while ((waiter = next_of(cond))) {
		wake(waiter, false);
		found = true;
	}
	release(before);
	return found;
}

void tek__cond_forget(void)
{
	first = NULL;
	set_count(0);
	memset(&lock, 0, sizeof(lock));
}
