/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tek/lock.h - locks of the kind of your choice, for programs that are written for them.
 *
 * The same locks that `tek run --lock NAME` gives to programs that know nothing of them.
 * libtek-sync(7) tells what the kinds are, and tek_lock_kind_name() lists them.
 *
 * Life
 * ----
 *   A tek_lock_t of zeros (a static one, calloc(3), TEK_LOCK_INIT) is free, and of kind "auto".
 *   tek_lock_init()       makes it one of another kind
 *   tek_lock_lock(), tek_lock_trylock(), tek_lock_timedlock(), then tek_lock_unlock() by the same
 *   thread
 *   Nothing has to be destroyed.  Its memory may be freed by who has unlocked it, if nobody else
 *   will lock it: who has unlocked it before does not touch it any more.
 * It must not be copied, nor be in memory that several processes share.  A thread that locks one
 * that it has already waits for ever.  A lock that a thread leaves locked when it ends stays locked
 * (one of kind "pi" goes to who sleeps for it).
 *
 * Callers
 * -------
 * Kernel threads, and the user-level threads of libtek-uthread.so (preloaded; not those of
 * tek/uthread.h, which share their thread-local storage).  No function here may be called in a
 * signal handler, or by the child of a vfork(2); none is a cancellation point, none allocates
 * memory, and each leaves errno alone.  The child of a fork(2) may use those locks that were free,
 * or its own thread's, even if threads waited for them in the parent.  To lock acquires, and to
 * unlock releases, in the sense of C11.
 *
 * How to get it: compile and link with `pkg-config --cflags --libs tek-sync-native`, or link with
 * -ltek-sync-native.  The library has none of the C library's symbols, so nothing else in the
 * program changes.
 */
#ifndef TEK_LOCK_H
#define TEK_LOCK_H

#include <stdint.h>
#include <sys/types.h> /* clockid_t */
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tek_lock_kind;

/* Four words.  A cache line of its own (64 bytes) is up to the program. */
typedef struct {
	const struct tek_lock_kind *kind_;
	uintptr_t words_[2];
	unsigned int process_;
} tek_lock_t;

/* A free one of kind "auto". */
#define TEK_LOCK_INIT \
	{ \
		0, {0, 0}, 0 \
	}

/*
 * Makes it a free lock of that kind; NULL: of kind "auto".  Nobody may be using it.  0, or EINVAL:
 * there is no such kind (the lock stays as it was).  Never blocks.
 */
int tek_lock_init(tek_lock_t *lock, const char *kind);

/*
 * Locks it; waits as long as that takes, as its kind waits: spinning or asleep.  May switch
 * user-level threads.
 */
void tek_lock_lock(tek_lock_t *lock);

/* 0, or EBUSY: somebody has it.  Never blocks. */
int tek_lock_trylock(tek_lock_t *lock);

/*
 * As tek_lock_lock(), until a point of time of CLOCK_REALTIME or CLOCK_MONOTONIC at most, as
 * pthread_mutex_clocklock(3) has it.  0, ETIMEDOUT, or EINVAL: there is no such clock, or nothing
 * left but to wait and *until is no time.  A thread that waits so for a lock with a queue
 * (ticket, ticket-pb, k42, mcs) tries it again and again beside the queue.
 */
int tek_lock_timedlock(tek_lock_t *lock, clockid_t clock, const struct timespec *until);

/* By the thread that has locked it; otherwise what happens is undefined.  Never blocks. */
void tek_lock_unlock(tek_lock_t *lock);

/* The kind's name, to print.  May be called by anybody at any time, as may the following ones. */
const char *tek_lock_kind_of(const tek_lock_t *lock);

/* The names of all kinds: of number 0, 1, 2... NULL: there are no more. */
const char *tek_lock_kind_name(unsigned int number);

/* A few words on the kind of that number.  NULL: there is none. */
const char *tek_lock_kind_about(unsigned int number);

/*
 * How often a lock of kind "auto" of this process has gone from spinning to sleeping, and back,
 * since it began.  Each may be NULL.
 */
void tek_lock_auto_changes(unsigned long *to_sleeping, unsigned long *to_spinning);

#ifdef __cplusplus
}
#endif

#endif
