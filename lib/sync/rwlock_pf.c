/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Phase-fair read-write spin lock with tickets: where both wait, a phase of readers and one writer
 * alternate. So a reader waits for one writer at most, and a writer for one phase of readers and
 * the writers before it.
 *
 * B. Brandenburg and J. Anderson, Spin-Based Reader-Writer Synchronization for Multiprocessor
 * Real-Time Systems (2010), PF-T, with one difference. A leaving writer first admits the next
 * writer and then the readers, and the next writer waits for that. So its last access is the one
 * that unlocks, and a reader may free the lock.
 *
 * A reader must not read-lock it again: a writer that has arrived meanwhile waits for the first
 * lock and blocks the second one. A waiter cannot leave the queues, so a wait with a deadline polls
 * instead.
 */
#include "sync/rwlock.h"
#include "sync/waiting.h"

/*
 * readers_in: the number of readers that have arrived, and whether a writer is present. The phase
 * shows a reader that the writer is another one. It is not the ticket's lowest bit, as in the
 * paper: a writer that only tries may leave without having been in.
 */
#define PRESENT 2u
#define PHASE 1u /* of the last writer that was inside */
#define BITS (PRESENT | PHASE)
#define READER 4u

/*
 * For spinning. The spinner then acquires by one of the next two functions, or by a load like
 * theirs.
 */
static unsigned int read_word(atomic_uint *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static unsigned int readers_in(struct tek_sync_rwlock *lock)
{
	return atomic_load_explicit(&lock->pf.readers_in, memory_order_acquire);
}

static unsigned int readers_out(struct tek_sync_rwlock *lock)
{
	return atomic_load_explicit(&lock->pf.readers_out, memory_order_acquire);
}

static bool try_read(struct tek_sync_rwlock *lock)
{
	unsigned int in = atomic_load_explicit(&lock->pf.readers_in, memory_order_relaxed);

	/* Acquires what the last writer has released there. */
	while (!(in & PRESENT))
		if (atomic_compare_exchange_weak_explicit(&lock->pf.readers_in, &in, in + READER,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

static void read_queued(struct tek_sync_rwlock *lock)
{
	const unsigned int in = atomic_fetch_add_explicit(&lock->pf.readers_in, READER,
							  memory_order_acquire);
	struct tek_spinning spinning = {0};

	/*
	 * Waits until this writer has left: no writer of the same phase can enter before this
	 * reader. Additions to the word, by other readers and the next writer, do not hide from the
	 * load what the writer has released.
	 */
	if (!(in & PRESENT))
		return;
	while ((read_word(&lock->pf.readers_in) & BITS) == (in & BITS))
		tek_sync__spin(&spinning);
	readers_in(lock);
}

/* Releases the reads: the next writer acquires them when it sees that all readers have left. */
static void unlock_read(struct tek_sync_rwlock *lock)
{
	atomic_fetch_add_explicit(&lock->pf.readers_out, READER, memory_order_release);
}

/* The addend of a writer: it is present, and the phase is the other one. */
static unsigned int entry(unsigned int in)
{
	return in & PHASE ? PRESENT - PHASE : PRESENT + PHASE;
}

/* Called by the writer whose ticket is served. */
static void pass_ticket(struct tek_sync_rwlock *lock, unsigned int ticket)
{
	atomic_store_explicit(&lock->pf.writers_out, ticket + 1, memory_order_release);
}

static bool try_write(struct tek_sync_rwlock *lock)
{
	unsigned int ticket = atomic_load_explicit(&lock->pf.writers_out, memory_order_acquire);
	unsigned int in, out;

	if (!atomic_compare_exchange_strong_explicit(&lock->pf.writers_in, &ticket, ticket + 1,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	do {
		/*
		 * In this order. If as many readers have left as had arrived, and none arrives
		 * until the exchange, none is inside. Both loads acquire: the last writer's writes,
		 * and the completion of the readers' reads.
		 */
		in = readers_in(lock);
		out = readers_out(lock);
		if ((in & PRESENT) || (in & ~BITS) != out) {
			pass_ticket(lock, ticket);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&lock->pf.readers_in, &in, in + entry(in),
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static void write_queued(struct tek_sync_rwlock *lock)
{
	const unsigned int ticket = atomic_fetch_add_explicit(&lock->pf.writers_in, 1,
							      memory_order_relaxed);
	struct tek_spinning spinning = {0};

	while (read_word(&lock->pf.writers_out) != ticket)
		tek_sync__spin(&spinning);
	(void)atomic_load_explicit(&lock->pf.writers_out, memory_order_acquire);
	/* The previous writer is leaving. */
	unsigned int in;
	while ((in = readers_in(lock)) & PRESENT)
		tek_sync__spin(&spinning);
	/* From here on new readers wait; the earlier ones are to leave. */
	in = atomic_fetch_add_explicit(&lock->pf.readers_in, entry(in), memory_order_acquire);
	while (read_word(&lock->pf.readers_out) != (in & ~BITS))
		tek_sync__spin(&spinning);
	readers_out(lock);
}

static void unlock_write(struct tek_sync_rwlock *lock)
{
	/* Only the writer that is served writes there. */
	pass_ticket(lock, atomic_load_explicit(&lock->pf.writers_out, memory_order_relaxed));
	atomic_fetch_and_explicit(&lock->pf.readers_in, ~PRESENT, memory_order_release);
}

/*
 * Where a writer waits for readers to leave, the number of readers inside is unknown. One is
 * assumed, which may be the child's only thread.
 */
static void adopt(struct tek_sync_rwlock *lock, bool written)
{
	const unsigned int in = readers_in(lock);
	const unsigned int readers = in & PRESENT ? READER : (in & ~BITS) - readers_out(lock);

	lock->pf.readers_in = written ? PRESENT : readers;
	lock->pf.readers_out = 0;
	lock->pf.writers_in = written;
	lock->pf.writers_out = 0;
}

static int try_until(struct tek_sync_rwlock *lock, bool (*try)(struct tek_sync_rwlock *),
		     struct tek_until until)
{
	struct tek_spinning spinning = {0};
	int error = 0;

	while (!error && !try(lock))
		error = tek_sync__spin_until(&spinning, until);
	return error;
}

static int read_until(struct tek_sync_rwlock *lock, struct tek_until until)
{
	if (until.at)
		return try_until(lock, try_read, until);
	read_queued(lock);
	return 0;
}

static int write_until(struct tek_sync_rwlock *lock, struct tek_until until)
{
	if (until.at)
		return try_until(lock, try_write, until);
	write_queued(lock);
	return 0;
}

const struct tek_rwlock_kind tek_sync__rwlock_pf = {
	.name = "pf",
	.try_read = try_read,
	.try_write = try_write,
	.read_until = read_until,
	.write_until = write_until,
	.adopt = adopt,
	.unlock_read = unlock_read,
	.unlock_write = unlock_write,
};
