/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes: normal, recursive, error-checking; robust ones, and those with priority inheritance or a ceiling.
 *
 * A mutex that is all zero is a normal one.  Its state says whether it is locked, whether anybody waits,
 * and whether one of those has been woken and is on his way (TEK_MUTEX_WOKEN).  While one is, nobody else is woken.
 * A running thread may lock it before the one who was woken comes (barging): otherwise each unlock would cost two
 * switches.  Who was woken in vain twice gets it handed over by the next unlock.
 *
 * What always holds: if it is free and somebody is in the list, then one has been woken and is on his way.
 *
 * Locking a normal mutex that is free, and unlocking it where nobody has to be woken, is one instruction, without
 * tek__enter(); all else happens under the guard bit of the state (guard.h).
 *
 * Life: nobody touches a mutex after the store that unlocks it, so the next owner may destroy and free it.
 *
 * The functions here may be called by any thread, kernel threads too; those that wait not between tek__enter()
 * and tek__leave().
 */
#ifndef TEK_UTHREAD_MUTEX_H
#define TEK_UTHREAD_MUTEX_H

#include "sync/until.h"
#include "uthread/guard.h"
#include "uthread/own.h"
#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* tek_mutex.state */
#define TEK_MUTEX_LOCKED 1u  /* the lowest bit: tek__set_lowest_quickly() */
#define TEK_MUTEX_WAITERS 2u /* somebody is in the list */
#define TEK_MUTEX_GUARD 4u
#define TEK_MUTEX_WOKEN 8u

/*
 * tek_mutex.kind: numbers and bits of glibc, which has them in its static initialisers.  That of a mutex that
 * was destroyed is negative.
 */
enum {
	TEK_MUTEX_NORMAL = 0,
	TEK_MUTEX_RECURSIVE = 1,
	TEK_MUTEX_ERRORCHECK = 2,
	TEK_MUTEX_ADAPTIVE = 3, /* as a normal one */
	TEK_MUTEX_TYPE = 3,     /* these bits say which of them */
	TEK_MUTEX_ROBUST = 16,
	TEK_MUTEX_INHERIT = 32,
	TEK_MUTEX_PROTECT = 64,
	TEK_MUTEX_SPECIAL = TEK_MUTEX_ROBUST | TEK_MUTEX_INHERIT | TEK_MUTEX_PROTECT,
	TEK_MUTEX_SHARED = 128, /* of several processes: the C library's */
};

/* How often one is woken in vain before it is handed the mutex. */
#define TEK_MUTEX_PATIENCE 2

/* What special ones have beside: mutex_special.c. */
struct tek_mutex_more {
	struct tek_waiters waiters;
	struct tek_mutex *mutex;
	enum { TEK_MUTEX_SOUND, TEK_MUTEX_OWNER_DIED, TEK_MUTEX_NOT_RECOVERABLE } health;
	int ceiling;
	struct tek_mutex_more *held_next; /* of those that its owner holds */
	struct tek_own *blocked;          /* who waits for it, if it inherits: inherit.c */
};

/* It lies in the C library's pthread_mutex_t: preload/uthread/mutex.c. */
struct tek_mutex {
	atomic_uint state;
	unsigned int count; /* recursive: how often it is locked beyond the first time */
	_Atomic uintptr_t
		owner; /* tek__me(); 0: nobody, or a normal mutex, for which nobody asks */
	int kind;
	union {
		struct tek_waiters waiters;
		struct tek_mutex_more *more; /* special ones */
	};
};

/* Who waits for a mutex. */
struct tek_mutex_waiter {
	struct tek_waiter wait; /* first: lists are of these */
	unsigned int vain;      /* how often it was woken in vain */
	bool coming;            /* it was woken by an unlock: TEK_MUTEX_WOKEN stands for it */
	bool owns;              /* the mutex was handed over to it */
};

/* Of one that has not waited yet. The rest is written when it does. */
static inline void tek__mutex_waiter_init(struct tek_mutex_waiter *waiter)
{
	waiter->vain = 0;
	waiter->coming = waiter->owns = false;
}

static inline bool tek__mutex_is_plain(const struct tek_mutex *mutex)
{
	return mutex->kind == TEK_MUTEX_NORMAL || mutex->kind == TEK_MUTEX_ADAPTIVE;
}

/* Whether who lets it go, in this state, has to wake nobody: nobody waits, or somebody is on his way already. */
static inline bool tek__mutex_wakes_nobody(unsigned int state)
{
	return __builtin_expect(state == TEK_MUTEX_LOCKED, 1) ||
	       (state & (TEK_MUTEX_WOKEN | TEK_MUTEX_GUARD)) == TEK_MUTEX_WOKEN;
}

/* The caller has it: lets it go, if he has to wake nobody. Else false. */
static inline bool tek__mutex_let_go(struct tek_mutex *mutex)
{
	unsigned int state = TEK_MUTEX_LOCKED;

	if (__builtin_expect(!tek__parallel(), 1)) {
		state = atomic_load_explicit(&mutex->state, memory_order_relaxed);
		return tek__mutex_wakes_nobody(state) &&
		       tek__change_quickly(&mutex->state, state, state & ~TEK_MUTEX_LOCKED);
	}
	tek__store_something();
	if (__builtin_expect(atomic_compare_exchange_strong_explicit(&mutex->state, &state, 0,
								     memory_order_release,
								     memory_order_relaxed),
			     1))
		return true;
	return tek__mutex_wakes_nobody(state) &&
	       atomic_compare_exchange_strong_explicit(&mutex->state, &state,
						       state & ~TEK_MUTEX_LOCKED,
						       memory_order_release, memory_order_relaxed);
}

/*
 * The quick ways, of a normal mutex: to lock it if it is free, whoever waits for it, and to unlock it if nobody has to be
 * woken.  They return whether that was all; everything else is for tek__mutex_lock() and tek__mutex_unlock().
 */
static inline bool tek__mutex_lock_quickly(struct tek_mutex *mutex)
{
	return __builtin_expect(mutex->kind == TEK_MUTEX_NORMAL, 1) &&
	       tek__set_lowest_quickly(&mutex->state, TEK_MUTEX_GUARD);
}

static inline bool tek__mutex_unlock_quickly(struct tek_mutex *mutex)
{
	return __builtin_expect(mutex->kind == TEK_MUTEX_NORMAL, 1) && tek__mutex_let_go(mutex);
}

/* ---- the state alone, for mutexes of all kinds: mutex_wait.c ---- */

/* Whether it was free, even if others wait for it. */
bool tek__mutex_barge(struct tek_mutex *mutex);

/*
 * Waits until the caller has it: 0, ETIMEDOUT, EINVAL (`until` is no time), EINTR (interruptible: tek__interrupt()).
 * *waiter is new, or says what became of an earlier wait.
 */
int tek__mutex_take(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		    struct tek_until until, bool interruptible);

/* The caller has it, and does not have it any more. */
void tek__mutex_give(struct tek_mutex *mutex);

/*
 * `waiter`, which waits somewhere else, waits for this one instead, if it is locked: what a condition variable does with
 * those whom it would wake in vain.  Returns whether.  Between tek__enter() and tek__leave().
 */
bool tek__mutex_add_waiter(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter);

/* That one does not wait any more. Between tek__enter() and tek__leave(). */
void tek__mutex_remove_waiter(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter);

/* ---- with what their kind asks for: mutex.c ---- */

/*
 * Each returns 0 or
 *   EBUSY            trylock: it is locked
 *   EDEADLK          error-checking: the caller has it
 *   EAGAIN           recursive: 4 billion times is enough; or no memory for what robust ones need
 *   EINVAL           it was destroyed; the caller's priority is above its ceiling; `until` is no time
 *   ETIMEDOUT, EINTR as tek__mutex_take()
 *   EOWNERDEAD       robust: the caller has it now, but its last owner ended in the middle
 *   ENOTRECOVERABLE  robust: nobody made it consistent; nobody ever has it again
 *   EPERM            unlock: the caller does not have it (not found out of normal ones)
 */
int tek__mutex_try(struct tek_mutex *mutex);
/* *waiter is new, or comes from a wait that failed with EINTR, or from that for a condition variable. */
int tek__mutex_lock(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		    struct tek_until until, bool interruptible);
int tek__mutex_unlock(struct tek_mutex *mutex);

/* 0, EBUSY, EINVAL: it was destroyed before. It can be initialised again. */
int tek__mutex_destroy(struct tek_mutex *mutex);

/* ---- special ones: mutex_special.c ---- */

/* `kind` with TEK_MUTEX_SPECIAL bits: 0 or ENOMEM. Not deferred: allocates. */
int tek__mutex_special_init(struct tek_mutex *mutex, int kind, int ceiling);
void tek__mutex_special_destroy(struct tek_mutex *mutex);
int tek__mutex_special_try(struct tek_mutex *mutex);
int tek__mutex_special_lock(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
			    struct tek_until until, bool interruptible);
int tek__mutex_special_unlock(struct tek_mutex *mutex);

/* 0 or EINVAL: it is not robust, or not in need of that. */
int tek__mutex_consistent(struct tek_mutex *mutex);

/* The calling thread ends: robust ones that it holds go to others. By tek__keys_end(). */
void tek__mutexes_end(struct tek_own *own);

#endif
