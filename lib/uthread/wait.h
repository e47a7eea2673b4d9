/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting: the common part of mutexes, condition variables, sleeps and file descriptors.
 *
 * The thread that waits has a struct tek_waiter on its stack. Under the object's lock it puts the
 * waiter into the object's list; then it releases the lock and calls tek_ut__wait(). The waking
 * thread takes the waiter out of the list, under that lock, and calls tek_ut__wake(). Several may
 * try, a timeout and a signal among them: the first one succeeds, the rest get false and choose
 * another waiter.
 *
 * After tek_ut__wait() has returned anything but TEK_WOKEN the waiter may still be in the list: its
 * owner takes the lock and removes it (tek_ut__waiters_remove() accepts a waiter that is not listed
 * any more).
 *
 * An object that may be freed as soon as its waiters are woken is released in three steps. Under
 * its lock a waiter is taken out and claimed (tek_ut__claim()): it stays in place, and only the
 * claimer can wake it. The release of the lock is the last access to the object. Then the waiter is
 * woken. So the woken thread need not access the object either.
 *
 * A kernel thread that is not the engine's waits by a futex, so all of this works for it, too.
 */
#ifndef TEK_UTHREAD_WAIT_H
#define TEK_UTHREAD_WAIT_H

#include "tek_abi.h"
#include "uthread/heap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct tek_uthread;

/* The words of TEK_WAITS_*. */
#define TEK_WAITS_WORDS (TEK_WAITS_PAUSE + 1)
extern const char *const tek_ut__waits_words[TEK_WAITS_WORDS] __attribute__((visibility("hidden")));

enum tek_wake {
	TEK_WAITING,
	TEK_CLAIMED, /* its claimer is about to wake it, and no other thread can: tek_ut__claim() */
	TEK_WOKEN,
	TEK_TIMED_OUT,
	TEK_INTERRUPTED, /* a signal for it arrived, or it was cancelled */
};

struct tek_waiter {
	struct tek_waiter *next, *previous;
	bool listed;
	struct tek_uthread *thread; /* NULL: a kernel thread */
	atomic_uint state;          /* enum tek_wake */
	struct tek_heap_node timer; /* while it has a deadline */
	bool timed;                 /* is in the heap of timers */
	void *data;                 /* of the thread that woke it */
	unsigned int process; /* where it began: a child of that process has no thread to wake */
};

/*
 * This process among those that may have the same memory: 0, or in a child of fork() its number.
 */
extern unsigned int tek_ut__process __attribute__((visibility("hidden")));

/* The waiters of an object, first come first; zero is empty. The object's lock guards it. */
struct tek_waiters {
	struct tek_waiter *first, *last;
};

/*
 * An object may check without its lock whether a thread waits, so this word is written as a whole.
 */
static inline void tek_ut__waiters_set_first(struct tek_waiters *list, struct tek_waiter *waiter)
{
	__atomic_store_n(&list->first, waiter, __ATOMIC_RELAXED);
}

void tek_ut__waiters_add(struct tek_waiters *list, struct tek_waiter *waiter);
void tek_ut__waiters_insert_by_priority(struct tek_waiters *list, struct tek_waiter *waiter);
void tek_ut__waiters_remove(struct tek_waiters *list, struct tek_waiter *waiter);

/* Before waiters of lesser priority. */
static inline void tek_ut__waiters_add_by_priority(struct tek_waiters *list,
						   struct tek_waiter *waiter)
{
	if (__builtin_expect(list->first != NULL, 0)) {
		tek_ut__waiters_insert_by_priority(list, waiter);
		return;
	}
	waiter->next = waiter->previous = NULL;
	waiter->listed = true;
	list->last = waiter;
	tek_ut__waiters_set_first(list, waiter);
}

/* The priority for that order: 0 for kernel threads, as for most threads. */
int tek_ut__waiter_rank(const struct tek_waiter *waiter);
int tek_ut__rank(const struct tek_uthread *thread);

/* The calling thread will wait. */
void tek_ut__waiter_init(struct tek_waiter *waiter);

/*
 * Waits until a thread calls tek_ut__wake(), or until `deadline` of CLOCK_MONOTONIC; NULL: for
 * ever. Returns the reason that tek_ut__wake() was given. May be called with preemption deferred;
 * then it is deferred again on return. `what`: TEK_WAITS_*, for observers.
 */
enum tek_wake tek_ut__wait(struct tek_waiter *waiter, const struct timespec *deadline,
			   unsigned char what);

/* The same, for a caller that has deferred preemption: it need not defer again. */
enum tek_wake tek_ut__wait_deferred(struct tek_waiter *waiter, const struct timespec *deadline,
				    unsigned char what);

/* The same as the first, and tek_ut__interrupt() ends it. */
enum tek_wake tek_ut__wait_interruptible(struct tek_waiter *waiter, const struct timespec *deadline,
					 unsigned char what);

/*
 * Ends the wait, if it has not ended yet: returns whether. Then *waiter is its owner's again, and
 * may be gone.
 */
bool tek_ut__wake(struct tek_waiter *waiter, enum tek_wake how);

/* Takes the first waiter that can be woken out of the list, and wakes it; false: there is none. */
bool tek_ut__wake_first(struct tek_waiters *list);

/*
 * The first half of that: from now on only the caller can wake it, and must, by the second half.
 * Until then it stays in place, and `next` and `previous` are the caller's. False: its wait has
 * ended, or it is of another process.
 */
bool tek_ut__claim(struct tek_waiter *waiter);
void tek_ut__wake_claimed(struct tek_waiter *waiter);

/* Takes the first waiter that can be claimed out of the list; NULL: there is none. */
struct tek_waiter *tek_ut__claim_first(struct tek_waiters *list);

/* Wakes a whole list of claimed waiters. */
void tek_ut__wake_all_claimed(struct tek_waiters *claimed);

/* Waits a moment for an event that no thread reports. Not deferred. */
void tek_ut__pause(void);

/* Ends the interruptible wait that a thread is in, if it is in one. */
void tek_ut__interrupt(struct tek_uthread *thread);

/*
 * Wakes all waiters with expired deadlines; returns the next deadline, in ns of CLOCK_MONOTONIC,
 * UINT64_MAX: none. By workers, at each tick and when they have nothing to do.
 */
uint64_t tek_ut__timers_run(void);
bool tek_ut__timers_any(void);

/* In the child of fork(): no thread waits. */
void tek_ut__wait_after_fork(void);

#endif
