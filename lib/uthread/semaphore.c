/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/semaphore.h"

#include "uthread/guard.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AWAITED 0x80000000u /* the value is 0, a thread waits */
#define GUARD 1u            /* only with AWAITED */

static unsigned int word_of(struct tek_semaphore *semaphore)
{
	return atomic_load_explicit(&semaphore->word, memory_order_relaxed);
}

int tek_ut__semaphore_try(struct tek_semaphore *semaphore)
{
	unsigned int word;

	do {
		word = word_of(semaphore);
		if (word & AWAITED || !word)
			return EAGAIN;
	} while (!tek_ut__change_unsplit(&semaphore->word, word, word - 1));
	return 0;
}

/* While another thread has the guard. In a word without AWAITED the bit is part of the value. */
static void wait_for_guard(struct tek_semaphore *semaphore)
{
	for (unsigned int tries = 1;; tries++) {
		unsigned int word = atomic_load_explicit(&semaphore->word, memory_order_acquire);
		if (!(word & AWAITED) || !(word & GUARD))
			return;
		if (tries % TEK_SPIN_TRIES == 0)
			syscall(SYS_sched_yield);
		else
			tek_ut__relax();
	}
}

/*
 * Deferred, between tek_ut__guard_enter() and tek_ut__guard_leave(). Takes the guard, if a thread
 * waits.
 */
static bool take_guard(struct tek_semaphore *semaphore)
{
	unsigned int word = word_of(semaphore);

	while (word & AWAITED) {
		if (word & GUARD)
			wait_for_guard(semaphore);
		else if (!tek_ut__parallel() ||
			 tek_ut__change_unsplit(&semaphore->word, word, word | GUARD))
			return true;
		word = word_of(semaphore);
	}
	return false;
}

static bool take_guard_or_unit(struct tek_semaphore *semaphore, bool *got_unit)
{
	*got_unit = tek_ut__semaphore_try(semaphore) == 0;
	/* Else it may be the first waiter. */
	return *got_unit || take_guard(semaphore) ||
	       tek_ut__change_unsplit(&semaphore->word, 0,
				      AWAITED | (tek_ut__parallel() ? GUARD : 0));
}

/* Deferred. Takes the guard, if a thread waits; false: none does. */
static bool lock_awaited(struct tek_semaphore *semaphore)
{
	if (tek_ut__parallel())
		tek_ut__guard_enter();
	bool locked = take_guard(semaphore);
	if (!locked && tek_ut__parallel())
		tek_ut__guard_leave();
	return locked;
}

/* Deferred. Takes a unit, or the guard: then it returns true. */
static bool lock_or_take(struct tek_semaphore *semaphore)
{
	bool got_unit;

	if (tek_ut__parallel())
		tek_ut__guard_enter();
	while (!take_guard_or_unit(semaphore, &got_unit))
		;
	if (got_unit && tek_ut__parallel())
		tek_ut__guard_leave();
	return !got_unit;
}

/* The new word, without the guard. */
static void unlock(struct tek_semaphore *semaphore)
{
	tek_ut__guard_unlock(&semaphore->word, semaphore->waiters.first ? AWAITED : 0);
}

/* Deferred. */
static int wait(struct tek_semaphore *semaphore, const struct timespec *deadline,
		bool interruptible)
{
	struct tek_waiter waiter;

	if (!lock_or_take(semaphore))
		return 0;
	tek_ut__waiter_init(&waiter);
	tek_ut__waiters_add_by_priority(&semaphore->waiters, &waiter);
	unlock(semaphore);
	enum tek_wake how = interruptible
				    ? tek_ut__wait_interruptible(&waiter, deadline,
								 TEK_WAITS_SEMAPHORE)
				    : tek_ut__wait_deferred(&waiter, deadline, TEK_WAITS_SEMAPHORE);
	if (how == TEK_WOKEN)
		return 0; /* it may be destroyed already */
	/* If no thread waits it is not in the list, and no thread accesses it. */
	if (lock_awaited(semaphore)) {
		tek_ut__waiters_remove(&semaphore->waiters, &waiter);
		unlock(semaphore);
	}
	return how == TEK_TIMED_OUT ? ETIMEDOUT : EINTR;
}

int tek_ut__semaphore_wait(struct tek_semaphore *semaphore, struct tek_until until,
			   bool interruptible)
{
	const struct timespec *deadline;
	struct timespec room;

	if (tek_ut__semaphore_try(semaphore) == 0)
		return 0;
	int error = tek__until_deadline(until, &room, &deadline);
	if (error)
		return error;
	tek_ut__enter();
	error = wait(semaphore, deadline, interruptible);
	tek_ut__leave();
	return error;
}

/* Gives the unit to a waiter; false: none waits any more. */
static bool give(struct tek_semaphore *semaphore)
{
	tek_ut__enter();
	bool given = lock_awaited(semaphore);
	struct tek_waiter *waiter = given ? tek_ut__claim_first(&semaphore->waiters) : NULL;
	if (waiter) {
		unlock(semaphore);
		tek_ut__wake_claimed(waiter);
	} else if (given) {
		/* All of them are about to give up. */
		tek_ut__guard_unlock(&semaphore->word, 1);
	}
	tek_ut__leave();
	return given;
}

int tek_ut__semaphore_post(struct tek_semaphore *semaphore)
{
	for (;;) {
		unsigned int word = word_of(semaphore);
		if (word & AWAITED) {
			if (give(semaphore))
				return 0;
		} else if (word == TEK_SEM_VALUE_MAX) {
			return EOVERFLOW;
		} else if (tek_ut__change_unsplit(&semaphore->word, word, word + 1)) {
			return 0;
		}
	}
}

int tek_ut__semaphore_value(struct tek_semaphore *semaphore)
{
	unsigned int word = word_of(semaphore);
	return word & AWAITED ? 0 : (int)word;
}

bool tek_ut__semaphore_is_used(struct tek_semaphore *semaphore)
{
	return word_of(semaphore) & AWAITED;
}
