/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RtFIFO: fixed priorities, 0 to 99, a greater one goes first.  Threads are dealt to the workers in turn when they are
 * created, and stay there; nobody balances.  On its worker a thread runs until it waits, yields, or one of a greater
 * priority is ready: quanta do not count.  rtos-linux-scalability-2018, 3.1.3.
 *
 * As POSIX has it for SCHED_FIFO, who is preempted comes back first of its priority, who becomes ready last, and a
 * yield lets those of its own priority run, and greater ones.
 *
 * Each worker has a queue for each priority, and a bit for each queue that has somebody: whoever is next is found in
 * a fixed number of instructions, however many threads there are.  Nothing is allocated.
 *
 * Locks, as in the paper (3.1.5): one for all (giant), one for each worker (worker), one for each queue (object).
 *   - Each change of a queue, of its bit, and of the priority of a thread in it is made under the queue's lock.
 *   - A thread that is not in a queue changes its priority under the lock of the queue that it would have come to.
 *     So who has a lock and finds that the thread still has that queue's priority can rely on it.
 *   - `given` is the priority that the worker was last given.  Whoever makes a greater one ready has to see that, or
 *     the worker has to see the greater one.  Where one lock has all of the worker's queues that is so by itself.
 *     Else both write first, the one the bit and the other `given`, and then read what the other has written,
 *     with a full barrier in between: here in take_by_queue(), there in tek__ready() (worker.c).
 */
#include "uthread/deque.h"
#include "uthread/engine.h"
#include "uthread/sched.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <limits.h>
#include <string.h>

#define FIRST_THREAD 1 /* struct tek_uthread.id */
#define PRIORITIES 100
#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)
#define WORDS ((PRIORITIES + WORD_BITS - 1) / WORD_BITS)

/* Aligned, so that locks of their own do not share a cache line. */
struct queue {
	struct tek_spin lock;
	struct tek_deque threads;
} __attribute__((aligned(64)));

struct own {
	struct tek_spin lock;
	atomic_ulong used[WORDS]; /* bit n: the queue of priority n has somebody */
	atomic_int given;         /* the priority of the thread that the worker was last given */
	struct queue queues[PRIORITIES];
} __attribute__((aligned(64)));

static struct {
	struct tek_spin giant;
	unsigned int workers;
	atomic_uint dealt; /* threads, so far */
	int granularity;   /* TEK_LOCK_* */
} fifo __attribute__((aligned(64)));

static struct own owns[TEK_WORKERS_MAX];

static struct tek_spin *lock_of(struct own *own, int priority)
{
	switch (fifo.granularity) {
	case TEK_LOCK_GIANT:
		return &fifo.giant;
	case TEK_LOCK_WORKER:
		return &own->lock;
	default:
		return &own->queues[priority].lock;
	}
}

/* Whether a worker's bits have more than one lock. */
static bool shares_bits(void)
{
	return tek__parallel && fifo.granularity == TEK_LOCK_OBJECT;
}

static int priority_of(const struct tek_uthread *thread)
{
	int priority = __atomic_load_n(&thread->sched.priority, __ATOMIC_RELAXED);

	return priority < 0 ? 0 : priority < PRIORITIES ? priority : PRIORITIES - 1;
}

/* Both: by the holder of the queue's lock. */
static void set_used(struct own *own, int priority)
{
	atomic_ulong *word = &own->used[(unsigned int)priority / WORD_BITS];
	unsigned long bit = 1ul << (unsigned int)priority % WORD_BITS;

	if (shares_bits())
		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
	else
		atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) | bit,
				      memory_order_relaxed);
}

static void clear_used(struct own *own, int priority)
{
	atomic_ulong *word = &own->used[(unsigned int)priority / WORD_BITS];
	unsigned long bit = 1ul << (unsigned int)priority % WORD_BITS;

	if (shares_bits())
		atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
	else
		atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) & ~bit,
				      memory_order_relaxed);
}

/* The greatest priority that has somebody; -1: none. */
static int greatest(struct own *own)
{
	for (int i = WORDS - 1; i >= 0; i--) {
		unsigned long word = atomic_load_explicit(&own->used[i], memory_order_relaxed);
		if (word)
			return (int)((unsigned int)i * WORD_BITS + WORD_BITS - 1) -
			       __builtin_clzl(word);
	}
	return -1;
}

static int start(unsigned int workers)
{
	/* In the child of fork() there were more. */
	unsigned int used = fifo.workers > workers ? fifo.workers : workers;

	memset(owns, 0, used * sizeof(owns[0]));
	memset(&fifo, 0, sizeof(fifo));
	fifo.workers = workers;
	fifo.granularity = tek__engine.lock;
	/* The first thread of the program is the first that was dealt, to worker 0, where it runs. */
	fifo.dealt = 1;
	for (unsigned int i = 0; i < used; i++)
		owns[i].given = -1;
	return 0;
}

static struct tek_worker *deal(struct tek_uthread *thread)
{
	unsigned int number = 0;

	if (thread->id != FIRST_THREAD)
		number = atomic_fetch_add_explicit(&fifo.dealt, 1, memory_order_relaxed);
	struct tek_worker *home = &tek__workers[number % fifo.workers];
	__atomic_store_n(&thread->sched.home, home, __ATOMIC_RELAXED);
	return home;
}

static struct own *own_of(const struct tek_uthread *thread)
{
	return &owns[thread->sched.home->number];
}

/* To its queue, which somebody may just be changing. */
static void add(struct tek_uthread *thread, bool first)
{
	struct own *own = own_of(thread);

	for (bool added = false; !added;) {
		int priority = priority_of(thread);
		struct tek_spin *lock = lock_of(own, priority);
		struct tek_deque *threads = &own->queues[priority].threads;

		tek__spin_lock(lock);
		added = priority_of(thread) == priority;
		if (added) {
			if (first)
				tek__deque_add_first(threads, thread);
			else
				tek__deque_add_last(threads, thread);
			set_used(own, priority);
		}
		tek__spin_unlock(lock);
	}
}

static struct tek_worker *ready(struct tek_worker *from, struct tek_uthread *thread,
				enum tek_ready why)
{
	struct tek_worker *home = thread->sched.home;

	(void)from;
	if (why == TEK_READY_CREATED || !home || home->number >= fifo.workers)
		home = deal(thread);
	add(thread, why == TEK_READY_PREEMPTED);
	return home;
}

static bool any(struct tek_worker *worker)
{
	return greatest(&owns[worker->number]) >= 0;
}

/* By the holder of the lock. */
static void take_out(struct own *own, int priority, struct tek_uthread *thread)
{
	struct tek_deque *threads = &own->queues[priority].threads;

	tek__deque_remove(threads, thread);
	if (!threads->first)
		clear_used(own, priority);
}

/* The first of the greatest priority that is not less than `least`. One lock has all queues of the worker. */
static struct tek_uthread *take(struct own *own, int least)
{
	struct tek_spin *lock = lock_of(own, 0);
	struct tek_uthread *thread = NULL;

	tek__spin_lock(lock);
	int priority = greatest(own);
	if (priority >= least) {
		thread = own->queues[priority].threads.first;
		take_out(own, priority, thread);
		atomic_store_explicit(&own->given, priority, memory_order_relaxed);
	}
	tek__spin_unlock(lock);
	return thread;
}

/* The same with a lock for each queue. Only the worker itself takes, but priorities change meanwhile. */
static struct tek_uthread *take_by_queue(struct own *own, int least)
{
	int before = atomic_load_explicit(&own->given, memory_order_relaxed);

	for (;;) {
		int priority = greatest(own);
		if (priority < least) {
			atomic_store_explicit(&own->given, before, memory_order_relaxed);
			return NULL;
		}
		atomic_store_explicit(&own->given, priority, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
		if (greatest(own) > priority)
			continue;
		tek__spin_lock(&own->queues[priority].lock);
		struct tek_uthread *thread = own->queues[priority].threads.first;
		if (thread)
			take_out(own, priority, thread);
		tek__spin_unlock(&own->queues[priority].lock);
		if (thread)
			return thread;
	}
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	struct own *own = &owns[worker->number];
	int least = 0;

	if (running) /* to its equals by a yield, if it is preempted only to greater ones */
		least = priority_of(running) + (why == TEK_READY_PREEMPTED);
	if (greatest(own) < least)
		return NULL;
	return shares_bits() ? take_by_queue(own, least) : take(own, least);
}

/* Whether somebody on this worker has to go before it. */
static bool goes_after(const struct tek_uthread *running, const struct tek_worker *worker)
{
	return greatest(&owns[worker->number]) > priority_of(running);
}

/* Quanta do not count. */
static bool tick(struct tek_worker *worker, struct tek_uthread *running)
{
	running->sched.quanta++;
	return goes_after(running, worker);
}

/*
 * `running` may be one that is just leaving, for one that next() has already taken out: `given` says whom.  Its
 * priority may have changed since; then the worker looks in vain.  `ready` may have run, ended, and be another
 * thread by now that was not dealt yet.
 */
static bool goes_before(const struct tek_uthread *ready, const struct tek_uthread *running)
{
	const struct tek_worker *home = __atomic_load_n(&ready->sched.home, __ATOMIC_RELAXED);
	int priority = priority_of(ready);

	if (priority > priority_of(running))
		return true;
	return home &&
	       priority > atomic_load_explicit(&owns[home->number].given, memory_order_relaxed);
}

/* Under the lock of its queue: takes it out, if it is in it. Returns whether it was. */
static bool change_priority(struct tek_uthread *thread, signed char priority)
{
	for (;;) {
		int old = priority_of(thread);
		if (!thread->sched.home) { /* it was never ready, so nobody else knows it */
			__atomic_store_n(&thread->sched.priority, priority, __ATOMIC_RELAXED);
			return false;
		}
		struct own *own = own_of(thread);
		struct tek_spin *lock = lock_of(own, old);
		tek__spin_lock(lock);
		bool same = priority_of(thread) == old;
		bool queued = same && tek__in_deque(thread);
		if (queued)
			take_out(own, old, thread);
		if (same)
			__atomic_store_n(&thread->sched.priority, priority, __ATOMIC_RELAXED);
		tek__spin_unlock(lock);
		if (same)
			return queued;
	}
}

static struct tek_worker *reprioritise(struct tek_uthread *thread, signed char priority)
{
	int before = priority_of(thread);
	bool queued = change_priority(thread, priority);

	/* POSIX: last of its new priority, or first if that is less. */
	if (queued)
		add(thread, priority_of(thread) < before);
	/* It was in no queue for a moment, so the worker may have found none. Or it runs, and others come first now. */
	struct tek_worker *home = thread->sched.home;
	return home && (queued || goes_after(thread, home)) ? home : NULL;
}

const struct tek_sched tek__sched_fifo = {
	.name = "fifo",
	.about = "RtFIFO: fixed priorities 0 to 99, threads dealt to the workers in turn",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
	.goes_before = goes_before,
	.reprioritise = reprioritise,
};
