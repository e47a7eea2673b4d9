/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Work stealing: each worker has ready threads of its own, and steals from other workers when it
 * has none.
 *
 * The worker that made them ready takes created and woken threads newest first: their data is still
 * in its cache, and a program that divides its work goes into depth, with few threads alive at a
 * time. Yielded and preempted threads, and those made ready outside any worker, go first in first
 * out, after them. A thief takes the oldest ones, half of them: they have the most work behind
 * them.
 *
 * No thread waits for ever: once in each quantum, and once in 64 times, the oldest goes first. It
 * is alternately the oldest of the new ones and the first of the first-in-first-out queue.
 *
 * Locks: one for each worker and all its queues. The worker takes it; thieves take it for a moment,
 * and do not wait for it. No thread holds two. A lock-free deque (Chase-Lev) needs an array that
 * grows, where there may be no memory, and saves one of two atomic operations of a yield. With one
 * worker the lock is free (spin.h); else it stays in the worker's cache until a steal, and costs
 * one exchange. `count` is read without the lock: see ready_count.h.
 */
#include "uthread/deque.h"
#include "uthread/ready_count.h"
#include "uthread/sched.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <string.h>

#define OLDEST_EACH 64u /* times; a power of 2 */
#define STOLEN_AT_ONCE 32u

struct own {
	struct tek_spin lock;
	struct tek_ready_count count; /* of both */
	struct tek_deque fresh;       /* created and woken: the first is the newest */
	struct tek_fifo arrivals;     /* yielded, preempted, and from outside: first in first out */
	bool arrivals_is_next;        /* if the oldest goes first */

	/* Accessed by the worker alone. */
	uint32_t random;
	unsigned int taken;
	uint64_t seen_ticks;
} __attribute__((aligned(128)));

static struct own owns[TEK_WORKERS_MAX];
static unsigned int worker_count;
static atomic_uint from_outside; /* threads made ready outside any worker */

static int start(unsigned int workers)
{
	memset(owns, 0, sizeof(owns));
	for (unsigned int i = 0; i < workers; i++) {
		owns[i].random = i + 1;
		owns[i].seen_ticks = tek_ut__workers[i].ticks;
	}
	worker_count = workers;
	return 0;
}

static struct own *own_of(const struct tek_worker *worker)
{
	return &owns[worker->number];
}

static unsigned int count_of(const struct own *own)
{
	return tek_ut__ready_count(&own->count);
}

/*
 * For a thread made ready outside any worker: of the next two workers the one with fewer threads.
 */
static struct own *place(void)
{
	unsigned int number = atomic_fetch_add_explicit(&from_outside, 1, memory_order_relaxed) %
			      worker_count;
	struct own *one = &owns[number], *other = &owns[(number + 1) % worker_count];

	return count_of(one) <= count_of(other) ? one : other;
}

static struct tek_worker *ready(struct tek_worker *from, struct tek_uthread *thread,
				enum tek_ready why)
{
	struct own *own = from ? own_of(from) : place();

	tek_ut__spin_lock(&own->lock);
	if (from && (why == TEK_READY_CREATED || why == TEK_READY_WOKEN))
		tek_ut__deque_add_first(&own->fresh, thread);
	else
		tek_ut__fifo_add(&own->arrivals, thread);
	tek_ut__ready_count_add(&own->count, 1);
	tek_ut__spin_unlock(&own->lock);
	return NULL;
}

/* All of these by the holder of the lock. */

static struct tek_uthread *take_oldest(struct own *own)
{
	struct tek_uthread *thread = NULL;

	own->arrivals_is_next = !own->arrivals_is_next;
	if (!own->arrivals_is_next)
		thread = tek_ut__fifo_take(&own->arrivals);
	if (!thread)
		thread = tek_ut__deque_take_last(&own->fresh);
	return thread ? thread : tek_ut__fifo_take(&own->arrivals);
}

static struct tek_uthread *take_newest(struct own *own)
{
	struct tek_uthread *thread = tek_ut__deque_take_first(&own->fresh);

	return thread ? thread : tek_ut__fifo_take(&own->arrivals);
}

/* Whether the oldest one is next. */
static bool is_time(struct own *own, const struct tek_worker *worker)
{
	if (++own->taken % OLDEST_EACH != 0 && own->seen_ticks == worker->ticks)
		return false;
	own->seen_ticks = worker->ticks;
	return true;
}

static struct tek_uthread *take_own(struct own *own, const struct tek_worker *worker)
{
	struct tek_uthread *thread;

	if (count_of(own) == 0)
		return NULL;
	tek_ut__spin_lock(&own->lock);
	thread = is_time(own, worker) ? take_oldest(own) : take_newest(own);
	if (thread)
		tek_ut__ready_count_add(&own->count, -1);
	tek_ut__spin_unlock(&own->lock);
	return thread;
}

/* The stolen threads of one steal. */
struct loot {
	struct tek_uthread *first; /* runs next */
	struct tek_deque fresh;
	struct tek_fifo arrivals;
	int count; /* without the first */
};

/* The oldest ones: half of all, at least one. Nothing if another thread has the lock. */
static struct loot rob(struct own *victim)
{
	struct loot loot = {.first = NULL};

	if (!tek_ut__spin_try(&victim->lock))
		return loot;
	unsigned int half = (count_of(victim) + 1) / 2;
	unsigned int most = half < STOLEN_AT_ONCE ? half : STOLEN_AT_ONCE;
	unsigned int stolen = 0;
	while (stolen < most) {
		struct tek_uthread *thread = tek_ut__deque_take_last(&victim->fresh);
		bool fresh = thread != NULL;
		if (!fresh)
			thread = tek_ut__fifo_take(&victim->arrivals);
		if (stolen++ == 0)
			loot.first = thread;
		else if (fresh)
			tek_ut__deque_add_first(&loot.fresh, thread);
		else
			tek_ut__fifo_add(&loot.arrivals, thread);
	}
	tek_ut__ready_count_add(&victim->count, -(int)stolen);
	tek_ut__spin_unlock(&victim->lock);
	loot.count = stolen ? (int)stolen - 1 : 0;
	return loot;
}

/* In their previous order. */
static void keep(struct own *own, struct loot *loot)
{
	struct tek_uthread *thread;

	tek_ut__spin_lock(&own->lock);
	while ((thread = tek_ut__deque_take_last(&loot->fresh)))
		tek_ut__deque_add_first(&own->fresh, thread);
	while ((thread = tek_ut__fifo_take(&loot->arrivals)))
		tek_ut__fifo_add(&own->arrivals, thread);
	tek_ut__ready_count_add(&own->count, loot->count);
	tek_ut__spin_unlock(&own->lock);
}

/* Each number but 0, once in 2^32 - 1 times (Marsaglia's xorshift). */
static uint32_t next_random(struct own *own)
{
	own->random ^= own->random << 13;
	own->random ^= own->random >> 17;
	own->random ^= own->random << 5;
	return own->random;
}

/* From all other workers in turn, starting at any of them. */
static struct tek_uthread *steal(struct own *own)
{
	unsigned int first = next_random(own) % worker_count;

	for (unsigned int i = 0; i < worker_count; i++) {
		struct own *victim = &owns[(first + i) % worker_count];
		if (victim == own || count_of(victim) == 0)
			continue;
		struct loot loot = rob(victim);
		if (loot.count > 0)
			keep(own, &loot);
		if (loot.first)
			return loot.first;
	}
	return NULL;
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	struct own *own = own_of(worker);
	struct tek_uthread *thread = take_own(own, worker);

	(void)running;
	(void)why;
	return thread || worker_count == 1 ? thread : steal(own);
}

static bool any(struct tek_worker *worker)
{
	if (count_of(own_of(worker)) > 0)
		return true;
	for (unsigned int i = 0; i < worker_count; i++) {
		if (count_of(&owns[i]) > 0)
			return true;
	}
	return false;
}

static bool tick(struct tek_worker *worker, struct tek_uthread *running)
{
	(void)worker;
	running->sched.quanta++;
	return true;
}

const struct tek_sched tek_ut__sched_steal = {
	.name = "steal",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
};
