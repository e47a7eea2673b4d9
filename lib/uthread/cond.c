/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/cond.h"

#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned int lock(struct tek_cond *cond)
{
	return tek_ut__guard_lock(&cond->guard, TEK_COND_GUARD);
}

static void unlock(struct tek_cond *cond)
{
	tek_ut__guard_unlock(&cond->guard, 0);
}

static struct tek_cond_waiter *of_wait(struct tek_waiter *wait)
{
	return (struct tek_cond_waiter *)wait;
}

static struct tek_waiter *first_of(struct tek_cond *cond)
{
	return __atomic_load_n(&cond->waiters.first, __ATOMIC_ACQUIRE);
}

/* ---- under the guard ---- */

/* The first waiter of this process. */
static struct tek_waiter *first_here(const struct tek_cond *cond)
{
	return cond->process == tek_ut__process ? cond->waiters.first : NULL;
}

static void add(struct tek_cond *cond, struct tek_waiter *wait)
{
	if (__builtin_expect(cond->process != tek_ut__process, 0)) {
		tek_ut__waiters_set_first(&cond->waiters, NULL);
		cond->process = tek_ut__process;
	}
	tek_ut__waiters_add_by_priority(&cond->waiters, wait);
}

/* Takes it out, for the waking thread. False: the waiter is giving up, and takes itself out. */
static bool claim(struct tek_cond *cond, struct tek_waiter *wait)
{
	if (!tek_ut__claim(wait))
		return false;
	tek_ut__waiters_remove(&cond->waiters, wait);
	return true;
}

/*
 * It waits for its mutex instead, if that is locked. Returns whether it has to be woken: it is
 * claimed then.
 */
static bool move(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	struct tek_waiter *wait = &waiter->of_mutex.wait;

	tek_ut__waiters_remove(&cond->waiters, wait);
	bool moved = tek_ut__mutex_add_waiter(waiter->mutex, &waiter->of_mutex);
	bool claimed = !moved && tek_ut__claim(wait);
	/* The last access to one that was not claimed: settled(). */
	atomic_store_explicit(&waiter->place, moved ? TEK_COND_MOVED : TEK_COND_REACHED,
			      memory_order_release);
	return claimed;
}

/* Returns whether it has to be woken. */
static bool reach(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	if (!atomic_load_explicit(&waiter->movable, memory_order_relaxed))
		return claim(cond, &waiter->of_mutex.wait);
	/* Before the move: from then on an unlock of the mutex may wake it. */
	return tek_ut__change(&waiter->place, TEK_COND_LISTED, TEK_COND_MOVING) &&
	       move(cond, waiter);
}

/* ---- by the waiter ---- */

static void begin(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek_ut__waiter_init(&waiter->of_mutex.wait);
	lock(cond);
	add(cond, &waiter->of_mutex.wait);
	unlock(cond);
}

/* Its place, after a broadcast has finished with it. */
static unsigned int settled(struct tek_cond_waiter *waiter)
{
	unsigned int place;

	for (unsigned int tries = 1;
	     (place = atomic_load_explicit(&waiter->place, memory_order_acquire)) ==
	     TEK_COND_MOVING;
	     tries++) {
		if (tries % TEK_SPIN_TRIES == 0)
			syscall(SYS_sched_yield);
		else
			tek_ut__relax();
	}
	return place;
}

/* Its wait has ended without a wake-up; returns whether a broadcast had reached it. */
__attribute__((noinline)) static bool withdraw(struct tek_cond *cond,
					       struct tek_cond_waiter *waiter)
{
	if (tek_ut__change(&waiter->place, TEK_COND_LISTED, TEK_COND_LEAVING)) {
		lock(cond);
		tek_ut__waiters_remove(&cond->waiters, &waiter->of_mutex.wait);
		unlock(cond);
		return false;
	}
	if (settled(waiter) == TEK_COND_MOVED)
		tek_ut__mutex_remove_waiter(waiter->mutex, &waiter->of_mutex);
	return true;
}

static int sleep_until_woken(struct tek_cond *cond, struct tek_cond_waiter *waiter,
			     const struct timespec *deadline, bool interruptible)
{
	struct tek_waiter *wait = &waiter->of_mutex.wait;
	enum tek_wake how = interruptible
				    ? tek_ut__wait_interruptible(wait, deadline, TEK_WAITS_COND)
				    : tek_ut__wait_deferred(wait, deadline, TEK_WAITS_COND);

	if (how == TEK_WOKEN) {
		/* If the waiter was moved, the mutex has woken it, and waits for it. */
		waiter->of_mutex.woken = settled(waiter) == TEK_COND_MOVED &&
					 !waiter->of_mutex.owns;
		return 0;
	}
	bool reached = withdraw(cond, waiter);
	if (how == TEK_INTERRUPTED)
		return EINTR;
	return reached ? 0 : ETIMEDOUT;
}

/* It never waited, and was not movable. */
__attribute__((noinline)) static void give_up(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	struct tek_waiter *wait = &waiter->of_mutex.wait;

	if (tek_ut__change(&wait->state, TEK_WAITING, TEK_INTERRUPTED)) {
		withdraw(cond, waiter);
		return;
	}
	/* A signal has found it, which is for another waiter. */
	tek_ut__wait_deferred(wait, NULL, TEK_WAITS_COND);
	tek_ut__cond_signal(cond);
}

void tek_ut__cond_begin(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek_ut__enter();
	begin(cond, waiter);
	tek_ut__leave();
}

void tek_ut__cond_give_up(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek_ut__enter();
	give_up(cond, waiter);
	tek_ut__leave();
}

int tek_ut__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter,
		       const struct timespec *deadline, bool interruptible)
{
	tek_ut__enter();
	int error = sleep_until_woken(cond, waiter, deadline, interruptible);
	tek_ut__leave();
	return error;
}

/*
 * Special mutexes have to know their waiters: mutex_special.c. A recursive one may have stayed the
 * caller's own.
 */
static bool is_movable(const struct tek_mutex *mutex)
{
	return !(mutex->kind & TEK_MUTEX_SPECIAL) && !mutex->count;
}

/* Flat: calls of functions that have one or two callers took a tenth of its time. */
__attribute__((flatten)) int tek_ut__cond_wait(struct tek_cond *cond,
					       struct tek_cond_waiter *waiter,
					       struct tek_until until, bool interruptible)
{
	const struct timespec *deadline;
	struct timespec room;
	int error = tek__until_deadline(until, &room, &deadline);

	if (error)
		return error;
	const bool movable = is_movable(waiter->mutex);
	tek_ut__enter();
	begin(cond, waiter);
	error = tek_ut__mutex_unlock_quickly(waiter->mutex) ? 0
							    : tek_ut__mutex_unlock(waiter->mutex);
	if (error) {
		give_up(cond, waiter);
	} else {
		/* Only now is it certain that it waits. */
		atomic_store_explicit(&waiter->movable, movable, memory_order_relaxed);
		error = sleep_until_woken(cond, waiter, deadline, interruptible);
	}
	tek_ut__leave();
	return error;
}

/* ---- by other threads ---- */

__attribute__((flatten)) void tek_ut__cond_signal(struct tek_cond *cond)
{
	struct tek_waiter *wait;

	/*
	 * A waiter is listed if its unlock of the mutex is ordered before this call, by the mutex
	 * or otherwise.
	 */
	if (!first_of(cond))
		return;
	tek_ut__enter();
	lock(cond);
	for (wait = first_here(cond); wait && !claim(cond, wait); wait = wait->next)
		;
	unlock(cond);
	if (wait)
		tek_ut__wake_claimed(wait);
	tek_ut__leave();
}

void tek_ut__cond_broadcast(struct tek_cond *cond)
{
	struct tek_waiters claimed = {NULL, NULL};

	if (!first_of(cond))
		return;
	tek_ut__enter();
	lock(cond);
	for (struct tek_waiter *wait = first_here(cond), *next; wait; wait = next) {
		next = wait->next;
		if (reach(cond, of_wait(wait)))
			tek_ut__waiters_add(&claimed, wait);
	}
	unlock(cond);
	tek_ut__wake_all_claimed(&claimed);
	tek_ut__leave();
}

enum use { UNUSED, BEING_LEFT, IN_USE };

/* Under the guard. */
static enum use use_of(const struct tek_cond *cond)
{
	enum use use = UNUSED;

	for (const struct tek_waiter *wait = first_here(cond); wait; wait = wait->next) {
		if (atomic_load_explicit(&wait->state, memory_order_relaxed) == TEK_WAITING)
			return IN_USE;
		use = BEING_LEFT;
	}
	return use;
}

int tek_ut__cond_destroy(struct tek_cond *cond)
{
	enum use use = UNUSED;

	do {
		if (use == BEING_LEFT)
			tek_ut__pause();
		tek_ut__enter();
		lock(cond);
		use = use_of(cond);
		unlock(cond);
		tek_ut__leave();
	} while (use == BEING_LEFT);
	return use == IN_USE ? EBUSY : 0;
}
