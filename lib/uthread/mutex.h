/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes: normal, recursive, error-checking; robust ones, and those with priority inheritance or a
 * ceiling.
 *
 * An all-zero mutex is a normal one. Its state has a bit each for: it is locked, threads wait for
 * it, and a woken waiter is on its way (TEK_MUTEX_WOKEN). While that bit is set no other waiter is
 * woken. A running thread may lock the mutex before the woken waiter arrives (barging): otherwise
 * each unlock costs two switches. After two vain wake-ups the next unlock hands the mutex over to
 * the waiter.
 *
 * Invariant: if the mutex is free and its list has a waiter, one waiter is woken and on its way.
 *
 * Locking a free normal mutex is one instruction without tek_ut__enter(), and so is an unlock that
 * wakes no waiter. All else happens under the guard bit of the state (guard.h).
 *
 * Life: no thread touches a mutex after the store that unlocks it, so the next owner may destroy
 * and free it.
 *
 * Any thread may call these functions, kernel threads too. A function that waits must not be called
 * between tek_ut__enter() and tek_ut__leave().
 */
#ifndef TEK_UTHREAD_MUTEX_H
#define TEK_UTHREAD_MUTEX_H

#include "base/until.h"
#include "uthread/guard.h"
#include "uthread/own.h"
#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* tek_mutex.state */
#define TEK_MUTEX_LOCKED 1u  /* the lowest bit: tek_ut__set_lowest_quickly() */
#define TEK_MUTEX_WAITERS 2u /* the list has a waiter */
#define TEK_MUTEX_GUARD 4u
#define TEK_MUTEX_WOKEN 8u

/*
 * tek_mutex.kind: numbers and bits of glibc, which has them in its static initialisers. A destroyed
 * mutex has a negative kind.
 */
enum {
	TEK_MUTEX_NORMAL = 0,
	TEK_MUTEX_RECURSIVE = 1,
	TEK_MUTEX_ERRORCHECK = 2,
	TEK_MUTEX_ADAPTIVE = 3, /* as a normal one */
	TEK_MUTEX_TYPE = 3,     /* the mask of these four */
	TEK_MUTEX_ROBUST = 16,
	TEK_MUTEX_INHERIT = 32,
	TEK_MUTEX_PROTECT = 64,
	TEK_MUTEX_SPECIAL = TEK_MUTEX_ROBUST | TEK_MUTEX_INHERIT | TEK_MUTEX_PROTECT,
	TEK_MUTEX_SHARED = 128, /* of several processes: the C library's */
};

/* After this number of vain wake-ups a waiter is handed the mutex. */
#define TEK_MUTEX_PATIENCE 2

/* The further state of special mutexes: mutex_special.c. */
struct tek_mutex_more {
	struct tek_waiters waiters;
	struct tek_mutex *mutex;
	enum { TEK_MUTEX_SOUND, TEK_MUTEX_OWNER_DIED, TEK_MUTEX_NOT_RECOVERABLE } health;
	int ceiling;
	struct tek_mutex_more *held_next; /* of those that its owner holds */
	struct tek_own *blocked;          /* its waiters, if it inherits: inherit.c */
};

/* It lies in the C library's pthread_mutex_t: preload/uthread/mutex.c. */
struct tek_mutex {
	atomic_uint state;
	unsigned int count; /* recursive: how often it is locked beyond the first time */
	_Atomic uintptr_t
		owner; /* tek_ut__me(); 0: none, or a normal mutex, which records no owner */
	int kind;
	union {
		struct tek_waiters waiters;
		struct tek_mutex_more *more; /* special ones */
	};
};

/* A waiter for a mutex. */
struct tek_mutex_waiter {
	struct tek_waiter wait; /* first: lists are of these */
	unsigned int vain;      /* how often it was woken in vain */
	bool woken;             /* it was woken by an unlock: TEK_MUTEX_WOKEN stands for it */
	bool owns;              /* the mutex was handed over to it */
};

/* For a waiter that has not waited yet. The other fields are written when it waits. */
static inline void tek_ut__mutex_waiter_init(struct tek_mutex_waiter *waiter)
{
	waiter->vain = 0;
	waiter->woken = waiter->owns = false;
}

static inline bool tek_ut__mutex_is_plain(const struct tek_mutex *mutex)
{
	return mutex->kind == TEK_MUTEX_NORMAL || mutex->kind == TEK_MUTEX_ADAPTIVE;
}

/* Whether an unlock in this state wakes no waiter: none waits, or one is on its way already. */
static inline bool tek_ut__mutex_wakes_nobody(unsigned int state)
{
	return __builtin_expect(state == TEK_MUTEX_LOCKED, 1) ||
	       (state & (TEK_MUTEX_WOKEN | TEK_MUTEX_GUARD)) == TEK_MUTEX_WOKEN;
}

/* The caller owns it: unlocks it, if no waiter has to be woken. Else false. */
static inline bool tek_ut__mutex_let_go(struct tek_mutex *mutex)
{
	unsigned int state = TEK_MUTEX_LOCKED;

	if (__builtin_expect(!tek_ut__parallel(), 1)) {
		state = atomic_load_explicit(&mutex->state, memory_order_relaxed);
		return tek_ut__mutex_wakes_nobody(state) &&
		       tek_ut__change_quickly(&mutex->state, state, state & ~TEK_MUTEX_LOCKED);
	}
	tek_ut__store_something();
	if (__builtin_expect(atomic_compare_exchange_strong_explicit(&mutex->state, &state, 0,
								     memory_order_release,
								     memory_order_relaxed),
			     1))
		return true;
	return tek_ut__mutex_wakes_nobody(state) &&
	       atomic_compare_exchange_strong_explicit(&mutex->state, &state,
						       state & ~TEK_MUTEX_LOCKED,
						       memory_order_release, memory_order_relaxed);
}

/*
 * The fast paths of a normal mutex: lock it if it is free, even if threads wait for it; unlock it
 * if no waiter has to be woken. False: nothing happened; tek_ut__mutex_lock() or
 * tek_ut__mutex_unlock() has to be called.
 */
static inline bool tek_ut__mutex_lock_quickly(struct tek_mutex *mutex)
{
	return __builtin_expect(mutex->kind == TEK_MUTEX_NORMAL, 1) &&
	       tek_ut__set_lowest_quickly(&mutex->state, TEK_MUTEX_GUARD);
}

static inline bool tek_ut__mutex_unlock_quickly(struct tek_mutex *mutex)
{
	return __builtin_expect(mutex->kind == TEK_MUTEX_NORMAL, 1) && tek_ut__mutex_let_go(mutex);
}

/* ---- the state alone, for mutexes of all kinds: mutex_wait.c ---- */

/* Locks it if it is free, even if threads wait for it. Returns whether it did. */
bool tek_ut__mutex_barge(struct tek_mutex *mutex);

/*
 * Waits until the caller owns it: 0, ETIMEDOUT, EINVAL (`until` is no time), EINTR (interruptible:
 * tek_ut__interrupt()). *waiter is new, or has the state of an earlier wait.
 */
int tek_ut__mutex_take(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		       struct tek_until until, bool interruptible);

/* Unlocks it. The caller owns it. */
void tek_ut__mutex_give(struct tek_mutex *mutex);

/*
 * `waiter`, which waits for another object, waits for this mutex instead, if it is locked. A
 * condition variable does so with waiters that it would wake in vain. Returns whether. Between
 * tek_ut__enter() and tek_ut__leave().
 */
bool tek_ut__mutex_add_waiter(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter);

/* The waiter does not wait any more. Between tek_ut__enter() and tek_ut__leave(). */
void tek_ut__mutex_remove_waiter(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter);

/* ---- by kind: mutex.c ---- */

/*
 * Each returns 0 or
 *   EBUSY            trylock: it is locked
 *   EDEADLK          error-checking: the caller owns it
 *   EAGAIN           recursive: locked 4 billion times; or no memory for the state of a robust one
 *   EINVAL           it was destroyed; the caller's priority is above its ceiling; `until` is
 *                    no time
 *   ETIMEDOUT, EINTR as tek_ut__mutex_take()
 *   EOWNERDEAD       robust: the caller owns it now, but its last owner ended while it held it
 *   ENOTRECOVERABLE  robust: it was not made consistent and cannot be locked again
 *   EPERM            unlock: the caller does not own it (not detected for normal ones)
 */
int tek_ut__mutex_try(struct tek_mutex *mutex);
/*
 * *waiter is new, or comes from a wait that failed with EINTR, or from one for a condition
 * variable.
 */
int tek_ut__mutex_lock(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		       struct tek_until until, bool interruptible);
int tek_ut__mutex_unlock(struct tek_mutex *mutex);

/* 0, EBUSY, EINVAL: it was destroyed before. It can be initialised again. */
int tek_ut__mutex_destroy(struct tek_mutex *mutex);

/* ---- special ones: mutex_special.c ---- */

/* `kind` with TEK_MUTEX_SPECIAL bits: 0 or ENOMEM. Not deferred: allocates. */
int tek_ut__mutex_special_init(struct tek_mutex *mutex, int kind, int ceiling);
void tek_ut__mutex_special_destroy(struct tek_mutex *mutex);
int tek_ut__mutex_special_try(struct tek_mutex *mutex);
int tek_ut__mutex_special_lock(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
			       struct tek_until until, bool interruptible);
int tek_ut__mutex_special_unlock(struct tek_mutex *mutex);

/* 0 or EINVAL: it is not robust, or not inconsistent. */
int tek_ut__mutex_consistent(struct tek_mutex *mutex);

/*
 * The calling thread ends: its robust mutexes become free for other threads. By tek_ut__keys_end().
 */
void tek_ut__mutexes_end(struct tek_own *own);

#endif
