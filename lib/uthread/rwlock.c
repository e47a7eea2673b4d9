/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/rwlock.h"

#include "uthread/worker.h"

#include <errno.h>

/* So many readers, and no bit overflows. */
#define FULL (~0u - TEK_RWLOCK_READER + 1)

struct rwlock_waiter {
	struct tek_waiter wait; /* first: lists are of these */
	bool writes;
	int rank; /* its priority in the list */
};

static struct rwlock_waiter *first_of(const struct tek_rwlock *lock)
{
	return (struct rwlock_waiter *)lock->waiters.first;
}

static struct rwlock_waiter *after(const struct rwlock_waiter *waiter)
{
	return (struct rwlock_waiter *)waiter->wait.next;
}

static unsigned int state_of(struct tek_rwlock *lock)
{
	return atomic_load_explicit(&lock->state, memory_order_relaxed);
}

static bool is_writer(struct tek_rwlock *lock)
{
	return atomic_load_explicit(&lock->writer, memory_order_relaxed) == tek_ut__me();
}

/* Only the writer itself ever finds itself there. */
static void set_writer(struct tek_rwlock *lock, uintptr_t writer)
{
	atomic_store_explicit(&lock->writer, writer, memory_order_relaxed);
}

/* Unless a writer of its own priority comes before it: TEK_RWLOCK_URGENT. */
static bool may_read(unsigned int state)
{
	return !(state & (TEK_RWLOCK_WRITER | TEK_RWLOCK_BARRED));
}

static bool may_write(unsigned int state)
{
	return !(state & TEK_RWLOCK_WRITER) && state < TEK_RWLOCK_READER;
}

/* The calling thread holds one read lock more, or less, in all. */
static void count_read_locks(int change)
{
	struct tek_uthread *self = tek_ut__here_self();

	/* A program may let another thread unlock. */
	if (self && (change > 0 || self->read_locks))
		self->read_locks += (unsigned int)change;
}

/* ---- under the guard: the next owner ---- */

/* The first one of that kind, from there on; NULL: there is none. */
static struct rwlock_waiter *find(struct rwlock_waiter *waiter, bool writes)
{
	while (waiter && waiter->writes != writes)
		waiter = after(waiter);
	return waiter;
}

/* Whether the calling thread, as a reader, comes before all waiting writers. */
static bool passes_writers(const struct tek_rwlock *lock)
{
	const struct tek_uthread *self = tek_ut__here_self();
	const int rank = tek_ut__rank(self);
	const struct rwlock_waiter *writer;

	if (rank <= 0 || self->read_locks)
		return true;
	writer = find(first_of(lock), true);
	return !writer || rank > writer->rank;
}

/* The first waiter of the greatest priority, writers first; NULL: all have 0, or less. */
static struct rwlock_waiter *most_urgent(const struct tek_rwlock *lock)
{
	struct rwlock_waiter *first = first_of(lock);

	if (!first || first->rank <= 0)
		return NULL;
	struct rwlock_waiter *writer = find(first, true);
	return writer && writer->rank == first->rank ? writer : first;
}

static bool grant_to(struct tek_rwlock *lock, struct rwlock_waiter *waiter)
{
	tek_ut__waiters_remove(&lock->waiters, &waiter->wait);
	return tek_ut__wake(&waiter->wait, TEK_WOKEN);
}

static unsigned int grant_writer(struct tek_rwlock *lock, unsigned int state)
{
	struct rwlock_waiter *waiter;

	while (may_write(state) && (waiter = find(first_of(lock), true))) {
		if (grant_to(lock, waiter))
			state |= TEK_RWLOCK_WRITER;
	}
	return state;
}

static unsigned int grant_readers(struct tek_rwlock *lock, unsigned int state)
{
	struct rwlock_waiter *waiter;

	while (!(state & TEK_RWLOCK_WRITER) && state < FULL &&
	       (waiter = find(first_of(lock), false))) {
		if (grant_to(lock, waiter))
			state += TEK_RWLOCK_READER;
	}
	return state;
}

/* One after the other, until one of them has to wait for the current holders. */
static unsigned int grant_urgent(struct tek_rwlock *lock, unsigned int state)
{
	struct rwlock_waiter *waiter;

	while ((waiter = most_urgent(lock))) {
		const bool writes = waiter->writes;
		if (writes ? !may_write(state) : (state & TEK_RWLOCK_WRITER) || state >= FULL)
			break;
		if (grant_to(lock, waiter))
			state = writes ? state | TEK_RWLOCK_WRITER : state + TEK_RWLOCK_READER;
	}
	return state;
}

/* The state bits of the waiters. */
static unsigned int bits_of(const struct tek_rwlock *lock)
{
	const struct rwlock_waiter *writer = find(first_of(lock), true);
	unsigned int bits = TEK_RWLOCK_WAITERS;

	if (writer && lock->kind == TEK_RWLOCK_PREFER_WRITER)
		bits |= TEK_RWLOCK_BARRED;
	if (writer && writer->rank > 0)
		bits |= TEK_RWLOCK_URGENT;
	return bits;
}

/* Grants the lock to all waiters that can have it, and releases the guard. */
static void settle(struct tek_rwlock *lock, unsigned int state)
{
	bool writers_first = lock->kind == TEK_RWLOCK_PREFER_WRITER;

	state &= ~(TEK_RWLOCK_WAITERS | TEK_RWLOCK_BARRED | TEK_RWLOCK_URGENT);
	state = grant_urgent(lock, state);
	if (first_of(lock) && !most_urgent(lock)) {
		if (writers_first)
			state = grant_writer(lock, state);
		if (!writers_first || !find(first_of(lock), true))
			state = grant_readers(lock, state);
		if (!writers_first)
			state = grant_writer(lock, state);
	}
	if (first_of(lock))
		state |= bits_of(lock);
	tek_ut__guard_unlock(&lock->state, state);
}

/* ---- waiting ---- */

/* Takes the lock, if it is available; the state is that under the guard. */
static bool take(struct tek_rwlock *lock, bool writes, unsigned int state)
{
	if (writes ? !may_write(state) : !may_read(state) || state >= FULL || !passes_writers(lock))
		return false;
	tek_ut__guard_unlock(&lock->state,
			     writes ? state | TEK_RWLOCK_WRITER : state + TEK_RWLOCK_READER);
	return true;
}

/* Deferred. */
static int queue(struct tek_rwlock *lock, bool writes, const struct timespec *deadline,
		 bool interruptible)
{
	struct rwlock_waiter waiter = {.writes = writes};
	unsigned int state = tek_ut__guard_lock(&lock->state, TEK_RWLOCK_GUARD);

	if (take(lock, writes, state))
		return 0;
	if (!writes && state >= FULL) {
		tek_ut__guard_unlock(&lock->state, state);
		return EAGAIN;
	}
	tek_ut__waiter_init(&waiter.wait);
	waiter.rank = tek_ut__waiter_rank(&waiter.wait);
	tek_ut__waiters_add_by_priority(&lock->waiters, &waiter.wait);
	tek_ut__guard_unlock(&lock->state, state | bits_of(lock));

	enum tek_wake how =
		interruptible ? tek_ut__wait_interruptible(&waiter.wait, deadline, TEK_WAITS_RWLOCK)
			      : tek_ut__wait_deferred(&waiter.wait, deadline, TEK_WAITS_RWLOCK);
	if (how == TEK_WOKEN)
		return 0;
	state = tek_ut__guard_lock(&lock->state, TEK_RWLOCK_GUARD);
	tek_ut__waiters_remove(&lock->waiters, &waiter.wait);
	/* Readers may have waited only because this writer waited. */
	settle(lock, state);
	return how == TEK_TIMED_OUT ? ETIMEDOUT : EINTR;
}

static int wait(struct tek_rwlock *lock, bool writes, struct tek_until until, bool interruptible)
{
	const struct timespec *deadline;
	struct timespec room;

	if (is_writer(lock))
		return EDEADLK;
	int error = tek__until_deadline(until, &room, &deadline);
	if (error)
		return error;
	tek_ut__enter();
	error = queue(lock, writes, deadline, interruptible);
	tek_ut__leave();
	return error;
}

/* ---- the interface ---- */

/* A writer waits that may come before the caller. */
static int try_to_pass(struct tek_rwlock *lock)
{
	tek_ut__enter();
	unsigned int state = tek_ut__guard_lock(&lock->state, TEK_RWLOCK_GUARD);
	int error = state >= FULL ? EAGAIN : 0;
	if (!error && !take(lock, false, state)) {
		tek_ut__guard_unlock(&lock->state, state);
		error = EBUSY;
	}
	tek_ut__leave();
	return error;
}

static int try_read(struct tek_rwlock *lock)
{
	for (;;) {
		unsigned int state = state_of(lock);
		if (!may_read(state))
			return EBUSY;
		if (state >= FULL)
			return EAGAIN;
		if (state & TEK_RWLOCK_GUARD)
			tek_ut__guard_wait(&lock->state, TEK_RWLOCK_GUARD);
		else if (state & TEK_RWLOCK_URGENT)
			return try_to_pass(lock);
		else if (tek_ut__change_unsplit(&lock->state, state, state + TEK_RWLOCK_READER))
			return 0;
	}
}

int tek_ut__rwlock_try_read(struct tek_rwlock *lock)
{
	int error = try_read(lock);

	if (!error)
		count_read_locks(1);
	return error;
}

int tek_ut__rwlock_try_write(struct tek_rwlock *lock)
{
	for (;;) {
		unsigned int state = state_of(lock);
		if (!may_write(state))
			return EBUSY;
		if (state & TEK_RWLOCK_GUARD) {
			tek_ut__guard_wait(&lock->state, TEK_RWLOCK_GUARD);
		} else if (tek_ut__change_unsplit(&lock->state, state, state | TEK_RWLOCK_WRITER)) {
			set_writer(lock, tek_ut__me());
			return 0;
		}
	}
}

int tek_ut__rwlock_read(struct tek_rwlock *lock, struct tek_until until, bool interruptible)
{
	int error = try_read(lock);

	if (error == EBUSY)
		error = wait(lock, false, until, interruptible);
	if (!error)
		count_read_locks(1);
	return error;
}

int tek_ut__rwlock_write(struct tek_rwlock *lock, struct tek_until until, bool interruptible)
{
	if (tek_ut__rwlock_try_write(lock) == 0)
		return 0;
	int error = wait(lock, true, until, interruptible);
	if (!error)
		set_writer(lock, tek_ut__me());
	return error;
}

/* The state after the caller's unlock; the bits of waiters stay. */
static unsigned int without_caller(unsigned int state)
{
	return state & TEK_RWLOCK_WRITER ? state & ~TEK_RWLOCK_WRITER : state - TEK_RWLOCK_READER;
}

int tek_ut__rwlock_unlock(struct tek_rwlock *lock)
{
	unsigned int state = state_of(lock);

	/*
	 * The thread that granted it to the caller may still have the guard; then the state is not
	 * updated yet.
	 */
	if (!(state & TEK_RWLOCK_GUARD) && may_write(state))
		return EPERM;
	if (is_writer(lock))
		set_writer(lock, 0);
	else
		count_read_locks(-1);
	for (; !(state & (TEK_RWLOCK_WAITERS | TEK_RWLOCK_GUARD)); state = state_of(lock)) {
		if (tek_ut__change_unsplit(&lock->state, state, without_caller(state)))
			return 0;
	}
	tek_ut__enter();
	settle(lock, without_caller(tek_ut__guard_lock(&lock->state, TEK_RWLOCK_GUARD)));
	tek_ut__leave();
	return 0;
}

bool tek_ut__rwlock_is_used(struct tek_rwlock *lock)
{
	return state_of(lock) != 0;
}
