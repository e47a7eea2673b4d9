/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin, then sleep; any thread takes it when it is free.
 *
 *   prefers readers: a reader gets it unless a writer has it, so it may have it several times; a
 *                    writer's unlock wakes all waiting readers
 *   prefers writers: a reader waits if a writer waits; each unlock wakes the first writer
 *
 * Sleepers are in a list under a bit of the state word (GUARD), which is held for a few
 * instructions. While it is held, only its holder changes the word. The unlocker takes out the
 * waiters that it will wake, stores the word, and then wakes them by their own words: the lock may
 * be gone.
 *
 * A woken waiter tries again, and sleeps again if another thread was faster. WOKEN means that a
 * woken waiter is about to try, so no other one has to be woken. The invariant while GUARD is free:
 *   if a thread sleeps, the lock is held in a mode that excludes all sleepers, or WOKEN is set
 * A woken waiter restores it (settle) before it sleeps again, gives up, or has the lock.
 */
#include "sync/rwlock.h"
#include "sync/waiting.h"

#define GUARD 1u
#define WRITER 2u
#define WAITERS 4u /* the list is not empty */
#define WOKEN 8u
#define BARRED 16u /* to readers: it prefers writers, and a writer waits */
#define READER 32u /* times the number of readers that hold it */

struct tek_rwlock_waiter {
	struct tek_sleeper sleeper;
	struct tek_rwlock_waiter *next;
	bool writes;
	bool listed;
};

static bool is_to_be_had(unsigned int state, bool writes)
{
	return writes ? !(state & WRITER) && state < READER : !(state & (WRITER | BARRED));
}

static unsigned int with(unsigned int state, bool writes)
{
	return writes ? state | WRITER : state + READER;
}

static unsigned int load(struct tek_sync_rwlock *lock)
{
	return atomic_load_explicit(&lock->park.state, memory_order_relaxed);
}

static void let_holder_go_on(struct tek_spinning *spinning)
{
	tek_sync__spin(spinning);
	if (spinning->iterations % TEK_SPIN_ITERATIONS == 0)
		tek_sync__give_way();
}

/*
 * Acquires what every earlier holder has released. Either only exchanges lie between, which do not
 * hide it, or a thread has held GUARD, which acquires and releases too.
 */
static inline bool try(struct tek_sync_rwlock *lock, bool writes)
{
	struct tek_spinning spinning = {0};
	unsigned int state = load(lock);

	while (is_to_be_had(state, writes)) {
		if (state & GUARD) {
			let_holder_go_on(&spinning);
			state = load(lock);
		} else if (atomic_compare_exchange_weak_explicit(
				   &lock->park.state, &state, with(state, writes),
				   memory_order_acquire, memory_order_relaxed)) {
			return true;
		}
	}
	return false;
}

/* Returns the state without the guard. */
static unsigned int hold(struct tek_sync_rwlock *lock)
{
	struct tek_spinning spinning = {0};
	unsigned int state = load(lock);

	for (;;) {
		if (state & GUARD) {
			let_holder_go_on(&spinning);
			state = load(lock);
		} else if (atomic_compare_exchange_weak_explicit(
				   &lock->park.state, &state, state | GUARD, memory_order_acquire,
				   memory_order_relaxed)) {
			return state;
		}
	}
}

/* ---- the list, under the guard ---- */

static void add_first(struct tek_sync_rwlock *lock, struct tek_rwlock_waiter *waiter)
{
	waiter->next = lock->park.first;
	lock->park.first = waiter;
	if (!waiter->next)
		lock->park.last = waiter;
	waiter->listed = true;
}

static void add_last(struct tek_sync_rwlock *lock, struct tek_rwlock_waiter *waiter)
{
	waiter->next = NULL;
	if (lock->park.first)
		lock->park.last->next = waiter;
	else
		lock->park.first = waiter;
	lock->park.last = waiter;
	waiter->listed = true;
}

static void take_out(struct tek_sync_rwlock *lock, struct tek_rwlock_waiter *waiter)
{
	struct tek_rwlock_waiter *before = NULL;

	for (struct tek_rwlock_waiter *here = lock->park.first; here != waiter; here = here->next)
		before = here;
	if (before)
		before->next = waiter->next;
	else
		lock->park.first = waiter->next;
	if (lock->park.last == waiter)
		lock->park.last = before;
	waiter->listed = false;
}

static struct tek_rwlock_waiter *first_that(struct tek_sync_rwlock *lock, bool writes)
{
	struct tek_rwlock_waiter *waiter = lock->park.first;

	while (waiter && waiter->writes != writes)
		waiter = waiter->next;
	return waiter;
}

/* Takes out the next owners: all readers, or one writer. */
static struct tek_rwlock_waiter *choose(struct tek_sync_rwlock *lock, unsigned int state)
{
	struct tek_rwlock_waiter *chosen = NULL, *waiter;

	if (is_to_be_had(state, false) &&
	    (lock->prefers != TEK_RWLOCK_WRITERS || !first_that(lock, true)))
		while ((waiter = first_that(lock, false))) {
			take_out(lock, waiter);
			waiter->next = chosen;
			chosen = waiter;
		}
	if (!chosen && is_to_be_had(state, true) && (chosen = first_that(lock, true))) {
		take_out(lock, chosen);
		chosen->next = NULL;
	}
	return chosen;
}

/* Restores the invariant, releases GUARD, and wakes. The store that releases is the last access. */
static void settle(struct tek_sync_rwlock *lock, unsigned int state)
{
	struct tek_rwlock_waiter *woken = NULL, *next;

	state &= ~(WAITERS | BARRED);
	if (lock->park.writers && lock->prefers == TEK_RWLOCK_WRITERS)
		state |= BARRED;
	if (lock->park.first && !(state & WOKEN) && (woken = choose(lock, state)))
		state |= WOKEN;
	if (lock->park.first)
		state |= WAITERS;
	atomic_store_explicit(&lock->park.state, state, memory_order_release);
	for (; woken; woken = next) {
		next = woken->next;
		tek_sync__awaken(&woken->sleeper);
	}
}

/* ---- waiting ---- */

/*
 * Sleeps until it is woken: 0; or until the deadline, and is out of the list then: ETIMEDOUT,
 * EINVAL.
 */
static int sleep_in_list(struct tek_sync_rwlock *lock, struct tek_rwlock_waiter *waiter,
			 struct tek_until until)
{
	int error = tek_sync__sleep(&waiter->sleeper, until);

	if (!error)
		return 0;
	unsigned int state = hold(lock);
	if (waiter->listed) {
		take_out(lock, waiter);
		if (waiter->writes)
			lock->park.writers--;
		/* Readers may have waited only because this writer did. */
		settle(lock, state);
		return error;
	}
	settle(lock, state);
	/* The waker still needs *waiter. */
	return tek_sync__sleep(&waiter->sleeper, TEK_FOR_EVER);
}

static int queue(struct tek_sync_rwlock *lock, bool writes, struct tek_until until)
{
	struct tek_rwlock_waiter waiter = {.writes = writes};
	unsigned int state = hold(lock);
	int error;

	if (is_to_be_had(state, writes)) {
		settle(lock, with(state, writes));
		return 0;
	}
	if (writes)
		lock->park.writers++;
	tek_sync__sleeper_init(&waiter.sleeper);
	add_last(lock, &waiter);
	settle(lock, state);
	while (!(error = sleep_in_list(lock, &waiter, until))) {
		state = hold(lock) & ~WOKEN;
		if (is_to_be_had(state, writes)) {
			if (writes)
				lock->park.writers--;
			settle(lock, with(state, writes));
			break;
		}
		tek_sync__sleeper_init(&waiter.sleeper);
		add_first(lock, &waiter);
		settle(lock, state);
	}
	return error;
}

static bool spin(struct tek_sync_rwlock *lock, bool writes)
{
	struct tek_spinning spinning = {0};

	while (spinning.iterations < tek_sync__spin_limit) {
		if (is_to_be_had(load(lock), writes) && try(lock, writes))
			return true;
		tek_sync__spin(&spinning);
	}
	return false;
}

static int lock_until(struct tek_sync_rwlock *lock, bool writes, struct tek_until until)
{
	return try(lock, writes) || spin(lock, writes) ? 0 : queue(lock, writes, until);
}

/*
 * No thread is to be woken if none sleeps, if a woken one is about to try, or if readers still hold
 * it: then all sleepers are writers, or readers that wait for a writer.
 */
static inline bool wakes_nobody(unsigned int state, unsigned int left)
{
	return !(state & WAITERS) || (state & WOKEN) || left >= READER;
}

static inline void unlock(struct tek_sync_rwlock *lock, bool writes)
{
	const unsigned int change = writes ? WRITER : READER;
	unsigned int state = load(lock);

	while (!(state & GUARD) && wakes_nobody(state, state - change))
		if (atomic_compare_exchange_weak_explicit(&lock->park.state, &state, state - change,
							  memory_order_release,
							  memory_order_relaxed))
			return;
	settle(lock, hold(lock) - change);
}

static bool try_read(struct tek_sync_rwlock *lock)
{
	return try(lock, false);
}

static bool try_write(struct tek_sync_rwlock *lock)
{
	return try(lock, true);
}

static int read_until(struct tek_sync_rwlock *lock, struct tek_until until)
{
	return lock_until(lock, false, until);
}

static int write_until(struct tek_sync_rwlock *lock, struct tek_until until)
{
	return lock_until(lock, true, until);
}

static void unlock_read(struct tek_sync_rwlock *lock)
{
	unlock(lock, false);
}

static void unlock_write(struct tek_sync_rwlock *lock)
{
	unlock(lock, true);
}

/* The state records the holders exactly: a holder of GUARD had not changed it yet. */
static void adopt(struct tek_sync_rwlock *lock, bool written)
{
	(void)written;
	lock->park.first = lock->park.last = NULL;
	lock->park.writers = 0;
	atomic_store_explicit(&lock->park.state, load(lock) & (WRITER | ~(READER - 1)),
			      memory_order_relaxed);
}

const struct tek_rwlock_kind tek_sync__rwlock_park = {
	.name = "park",
	.recursive = true,
	.sleeps = true,
	.try_read = try_read,
	.try_write = try_write,
	.read_until = read_until,
	.write_until = write_until,
	.adopt = adopt,
	.unlock_read = unlock_read,
	.unlock_write = unlock_write,
};
