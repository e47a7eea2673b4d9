/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin, then sleep, with priority inheritance: while a thread of higher priority sleeps for it, its
 * holder has that priority. The kernel keeps the queue, by priority, and hands the lock over.
 *
 * futex(2), FUTEX_LOCK_PI; L. Sha, R. Rajkumar, J. P. Lehoczky: Priority Inheritance Protocols
 * (1990).
 *
 * The kernel knows kernel threads only.  In a process with user-level threads the lock is the futex
 * mutex: a user-level thread goes from kernel thread to kernel thread while it holds it, and has no
 * priority of the kernel's.
 */
#include "sync/futex.h"
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/self.h"
#include "sync/waiting.h"
#include "sync/word.h"

#include <errno.h>
#include <linux/futex.h>

#define NAP_NS 1000000

static atomic_uint *word_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->first;
}

/* The kernel leaves 30 bits for the thread id, and uses the other ones. */
static unsigned int self(void)
{
	return (unsigned int)tek_sync__gettid();
}

/* Acquires: synchronises with the exchange that releases. */
static bool try(struct tek_lock *lock)
{
	unsigned int free = 0;

	if (tek_sync__host)
		return tek_sync__word_try(word_of(lock));
	return atomic_compare_exchange_strong_explicit(word_of(lock), &free, self(),
						       memory_order_acquire, memory_order_relaxed);
}

static bool try_if_free(struct tek_lock *lock)
{
	return atomic_load_explicit(word_of(lock), memory_order_relaxed) == 0 && try(lock);
}

/*
 * Its holder has ended, or is this thread: no thread will unlock it. As the C library's mutexes do.
 */
static int wait_in_vain(struct tek_until until)
{
	atomic_uint nobody = 0;
	int error = 0;

	while (!error)
		error = tek_sync__futex_wait_until(&nobody, 0, until);
	return error;
}

/* The kernel does not let it sleep for the lock: it tries now and then. */
static int wait_without_inheritance(struct tek_lock *lock, struct tek_until until)
{
	int error = 0;

	while (!error && !try(lock)) {
		struct tek_spinning spinning = {0}; /* looks at the time each time */
		error = tek_sync__spin_until(&spinning, until);
		if (!error)
			tek_sync__nap(NAP_NS);
	}
	return error;
}

static int sleep(struct tek_lock *lock, struct tek_until until)
{
	switch (tek_sync__futex_lock_pi(word_of(lock), until)) {
	case 0: /* acquires what was released before the kernel was asked to hand it over */
		(void)atomic_load_explicit(word_of(lock), memory_order_acquire);
		return 0;
	case ETIMEDOUT:
		return ETIMEDOUT;
	case EINVAL:
		return EINVAL;
	case ESRCH:
		return wait_in_vain(until);
	case EDEADLK: /* a circle of holders; one of them may wait until a point of time only */
		if ((atomic_load_explicit(word_of(lock), memory_order_relaxed) & FUTEX_TID_MASK) ==
		    self())
			return wait_in_vain(until);
		return wait_without_inheritance(lock, until);
	default: /* the kernel has no memory for it, or no such call for that clock */
		return wait_without_inheritance(lock, until);
	}
}

/*
 * While a thread sleeps, the kernel hands the lock on, with a context switch each time: so ordinary
 * threads poll patiently first. The priority of a real-time thread only counts once it sleeps.
 */
static __attribute__((noinline)) int wait(struct tek_lock *lock, struct tek_until until)
{
	if (tek_sync__host)
		return tek_sync__word_sleep(word_of(lock), until);
	if (tek_sync__poll(lock, try_if_free, until) ||
	    (!until.at && tek_sync__poll_patiently(lock, try_if_free)))
		return 0;
	return sleep(lock, until);
}

static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return try(lock) ? 0 : wait(lock, until);
}

static int lock(struct tek_lock *lock)
{
	return lock_until(lock, TEK_FOR_EVER);
}

static __attribute__((noinline)) int hand_over(struct tek_lock *lock)
{
	atomic_fetch_or_explicit(word_of(lock), 0, memory_order_release);
	tek_sync__futex_unlock_pi(word_of(lock));
	return 0;
}

static int unlock(struct tek_lock *lock)
{
	unsigned int mine = self();

	if (tek_sync__host)
		tek_sync__word_unlock(word_of(lock));
	else if (!atomic_compare_exchange_strong_explicit(
			 word_of(lock), &mine, 0, memory_order_release, memory_order_relaxed))
		return hand_over(lock);
	return 0;
}

const struct tek_lock_kind tek_sync__lock_pi = {
	.name = "pi",
	.sleeps = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = tek_sync__lock_has_first,
};
