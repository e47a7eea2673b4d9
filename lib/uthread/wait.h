/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting: what mutexes, condition variables, sleeps and file descriptors have in common.
 *
 * Who waits has a struct tek_waiter on its stack, puts it into a list of what it waits for, under the lock of
 * that, releases the lock and calls tek__wait().  Who ends the wait takes it out of the list, under that lock, and
 * calls tek__wake().  Several may try, a timeout and a signal among them: the first one counts, the others
 * are told so (false), and choose another waiter.
 *
 * After tek__wait() has returned anything but TEK_WOKEN the waiter may still be in the list: its owner takes
 * the lock and takes it out (tek__waiters_remove() can be called for one that is not there any more).
 *
 * A thing that may be gone as soon as its waiters have been told is let go in between: under its lock a waiter is
 * taken out and claimed (tek__claim()), which nobody can forestall any more, and keeps it where it is; then the lock is
 * released, the last access to the thing; then it is woken.  So who was woken need not look at the thing either.
 *
 * A kernel thread that is none of the engine's waits by a futex, so all of this works for it, too.
 */
#ifndef TEK_UTHREAD_WAIT_H
#define TEK_UTHREAD_WAIT_H

#include "tek_abi.h"
#include "uthread/heap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct tek_uthread;

/* Of TEK_WAITS_*: a word for each. */
#define TEK_WAITS_WORDS (TEK_WAITS_PAUSE + 1)
extern const char *const tek__waits_words[TEK_WAITS_WORDS] __attribute__((visibility("hidden")));

enum tek_wake {
	TEK_WAITING,
	TEK_CLAIMED, /* it is about to be woken, and by nobody else: tek__claim() */
	TEK_WOKEN,
	TEK_TIMED_OUT,
	TEK_INTERRUPTED, /* a signal for it has come, or it was cancelled */
};

struct tek_waiter {
	struct tek_waiter *next, *previous;
	bool listed;
	struct tek_uthread *thread; /* NULL: a kernel thread */
	atomic_uint state;          /* enum tek_wake */
	struct tek_heap_node timer; /* while it has a deadline */
	bool timed;                 /* is in the heap of timers */
	void *data;                 /* of who woke it */
	unsigned int process; /* where it began: in a child of that nobody is there to be woken */
};

/*
 * Which process this is among those that may have the same memory: 0, or in a child of fork() its number.
 */
extern unsigned int tek__process __attribute__((visibility("hidden")));

/* Those who wait for a thing, first come first; zero is empty. Its lock is that of the thing. */
struct tek_waiters {
	struct tek_waiter *first, *last;
};

/* An object may look without its lock whether anybody waits at all, so this word is written as a whole. */
static inline void tek__waiters_set_first(struct tek_waiters *list, struct tek_waiter *waiter)
{
	__atomic_store_n(&list->first, waiter, __ATOMIC_RELAXED);
}

void tek__waiters_add(struct tek_waiters *list, struct tek_waiter *waiter);
void tek__waiters_add_among_others(struct tek_waiters *list, struct tek_waiter *waiter);
void tek__waiters_remove(struct tek_waiters *list, struct tek_waiter *waiter);

/* Before those of lesser priority. */
static inline void tek__waiters_add_by_priority(struct tek_waiters *list, struct tek_waiter *waiter)
{
	if (__builtin_expect(list->first != NULL, 0)) {
		tek__waiters_add_among_others(list, waiter);
		return;
	}
	waiter->next = waiter->previous = NULL;
	waiter->listed = true;
	list->last = waiter;
	tek__waiters_set_first(list, waiter);
}

/* By which that is: kernel threads have 0, as most have. */
int tek__waiter_rank(const struct tek_waiter *waiter);
int tek__uthread_rank(const struct tek_uthread *thread);

/* The calling thread will wait. */
void tek__waiter_init(struct tek_waiter *waiter);

/*
 * Waits until somebody calls tek__wake(), or until `deadline` of CLOCK_MONOTONIC; NULL: for ever.  What it is
 * told there.  May be called with preemption deferred; then it is deferred again when it returns.
 * `what` is for those who look: TEK_WAITS_*.
 */
enum tek_wake tek__wait(struct tek_waiter *waiter, const struct timespec *deadline,
			unsigned char what);

/* The same, by who has deferred preemption: that costs nothing twice. */
enum tek_wake tek__wait_deferred(struct tek_waiter *waiter, const struct timespec *deadline,
				 unsigned char what);

/* The same as the first, and tek__interrupt() ends it. */
enum tek_wake tek__wait_interruptible(struct tek_waiter *waiter, const struct timespec *deadline,
				      unsigned char what);

/* Ends the wait, if nobody else has: returns whether. Then *waiter is its owner's again, and may be gone. */
bool tek__wake(struct tek_waiter *waiter, enum tek_wake how);

/* Takes the first one out of the list that can be woken, and wakes it; false: there is none. */
bool tek__wake_first(struct tek_waiters *list);

/*
 * The first half of that: from now on only the caller wakes it, and has to, by the second half.  Until then it stays
 * where it is, and `next` and `previous` are the caller's.  False: its wait has ended, or it is of another process.
 */
bool tek__claim(struct tek_waiter *waiter);
void tek__wake_claimed(struct tek_waiter *waiter);

/* Takes the first one out of the list that can be claimed; NULL: there is none. */
struct tek_waiter *tek__claim_first(struct tek_waiters *list);

/* All of a list of claimed ones. */
void tek__wake_all_claimed(struct tek_waiters *claimed);

/* Waits a moment for what nobody tells. Not deferred. */
void tek__pause(void);

/* Ends the interruptible wait that a thread is in, if it is in one. */
void tek__interrupt(struct tek_uthread *thread);

/*
 * Wakes all whose time has come; returns the next one's, in ns of CLOCK_MONOTONIC, UINT64_MAX: none waits for a time.  By
 * workers, at each tick and when they have nothing to do.
 */
uint64_t tek__timers_run(void);
bool tek__timers_any(void);

/* In the child of fork(): nobody waits. */
void tek__wait_after_fork(void);

#endif
