/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes that are robust, inherit priorities, or have a ceiling. They have additional memory
 * (struct tek_mutex_more), and their owner has a list of those it holds: inherit.h.
 *
 * The end of its owner unlocks a robust mutex, and the next owner gets EOWNERDEAD. If that owner
 * unlocks it without having made it consistent, all present and later waiters get ENOTRECOVERABLE:
 * each locks and unlocks it, which wakes the next.
 */
#include "uthread/inherit.h"
#include "uthread/mutex.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* The owner has ended, and the mutex is not robust: it stays locked. No thread has this id. */
#define GONE ((uintptr_t)2)

int tek_ut__mutex_special_init(struct tek_mutex *mutex, int kind, int ceiling)
{
	struct tek_mutex_more *more = calloc(1, sizeof(*more));

	if (!more)
		return ENOMEM;
	more->mutex = mutex;
	more->ceiling = ceiling;
	*mutex = (struct tek_mutex){.kind = kind, .more = more};
	return 0;
}

void tek_ut__mutex_special_destroy(struct tek_mutex *mutex)
{
	free(mutex->more);
	mutex->more = NULL;
}

static uintptr_t owner_of(struct tek_mutex *mutex)
{
	return atomic_load_explicit(&mutex->owner, memory_order_relaxed);
}

static bool is_lost(const struct tek_mutex *mutex)
{
	return mutex->kind & TEK_MUTEX_ROBUST && mutex->more->health == TEK_MUTEX_NOT_RECOVERABLE;
}

/* The caller owns it now. */
static int got(struct tek_own *own, struct tek_mutex *mutex)
{
	/* `health` is written by owners only. */
	if (is_lost(mutex)) {
		tek_ut__mutex_give(mutex);
		return ENOTRECOVERABLE;
	}
	tek_ut__inherit_got(own, mutex);
	return mutex->more->health == TEK_MUTEX_OWNER_DIED ? EOWNERDEAD : 0;
}

/* The caller owns it already: the result of another lock; -1: it waits for itself. */
static int again(struct tek_mutex *mutex)
{
	switch (mutex->kind & TEK_MUTEX_TYPE) {
	case TEK_MUTEX_RECURSIVE:
		if (mutex->count == UINT_MAX)
			return EAGAIN;
		mutex->count++;
		return 0;
	case TEK_MUTEX_ERRORCHECK:
		return EDEADLK;
	default:
		return -1;
	}
}

/* Whether the caller may lock it, and the memory that it needs for that. */
static int prepare(const struct tek_mutex *mutex, struct tek_own **own)
{
	*own = tek_ut__own_made();
	if (!*own)
		return EAGAIN;
	if (mutex->kind & TEK_MUTEX_PROTECT && (*own)->thread &&
	    tek_ut__priority_of((*own)->thread) > mutex->more->ceiling)
		return EINVAL;
	return 0;
}

int tek_ut__mutex_special_try(struct tek_mutex *mutex)
{
	struct tek_own *own;
	int error;

	if (owner_of(mutex) == tek_ut__me()) {
		error = again(mutex);
		return error == EDEADLK || error < 0 ? EBUSY : error;
	}
	error = prepare(mutex, &own);
	if (error)
		return error;
	return tek_ut__mutex_barge(mutex) ? got(own, mutex) : EBUSY;
}

int tek_ut__mutex_special_lock(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
			       struct tek_until until, bool interruptible)
{
	struct tek_own *own;
	int error;

	if (owner_of(mutex) == tek_ut__me()) {
		error = again(mutex);
		if (error >= 0)
			return error;
	}
	error = prepare(mutex, &own);
	if (error)
		return error;
	if (!waiter->woken && tek_ut__mutex_barge(mutex))
		return got(own, mutex);
	if (mutex->kind & TEK_MUTEX_INHERIT)
		tek_ut__inherit_wait(own, mutex);
	error = tek_ut__mutex_take(mutex, waiter, until, interruptible);
	if (mutex->kind & TEK_MUTEX_INHERIT)
		tek_ut__inherit_waited(own, mutex);
	return error ? error : got(own, mutex);
}

static void let_go(struct tek_own *own, struct tek_mutex *mutex)
{
	mutex->count = 0;
	tek_ut__inherit_lose(own, mutex);
	tek_ut__mutex_give(mutex);
}

int tek_ut__mutex_special_unlock(struct tek_mutex *mutex)
{
	if (owner_of(mutex) != tek_ut__me())
		return EPERM;
	if (mutex->count) {
		mutex->count--;
		return 0;
	}
	if (mutex->more->health == TEK_MUTEX_OWNER_DIED)
		mutex->more->health = TEK_MUTEX_NOT_RECOVERABLE;
	let_go(tek_ut__own(), mutex);
	return 0;
}

int tek_ut__mutex_consistent(struct tek_mutex *mutex)
{
	if (mutex->kind < 0 || !(mutex->kind & TEK_MUTEX_ROBUST) ||
	    mutex->more->health != TEK_MUTEX_OWNER_DIED || owner_of(mutex) != tek_ut__me())
		return EINVAL;
	mutex->more->health = TEK_MUTEX_SOUND;
	return 0;
}

void tek_ut__mutexes_end(struct tek_own *own)
{
	struct tek_mutex_more *more;

	while ((more = own->held)) {
		struct tek_mutex *mutex = more->mutex;
		if (mutex->kind & TEK_MUTEX_ROBUST) {
			if (more->health == TEK_MUTEX_SOUND)
				more->health = TEK_MUTEX_OWNER_DIED;
			let_go(own, mutex);
		} else {
			tek_ut__inherit_lose(own, mutex);
			atomic_store_explicit(&mutex->owner, GONE, memory_order_relaxed);
		}
	}
}
