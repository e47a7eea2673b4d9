/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Multi-level feedback queue: four levels for all workers. A thread begins at level 0, and may run
 * for L + 1 quanta at level L. If it uses up all of that it goes one level down; if it waits
 * before, it stays where it is. A lower level runs only while the ones above it are empty.
 * uthreads, 3.2.
 *
 * Promotion to the top, by time: a thread that has been at a lower level for `promote_quanta`
 * quanta. At a middle level it has not used up its allotment for as long, because it waits or never
 * runs. So no thread waits for ever. The time is checked when the thread becomes ready, and at each
 * tick of the worker for the first thread of each queue. Neither check scans a queue.
 *
 * Two things that the paper leaves open:
 *   - Promoted threads have a queue of their own at level 0, which alternates with the other. A
 *     thread that wakes up at level 0 preempts them. Else a thread that waits for input beside n
 *     threads that compute would, after each promotion, wait for n quanta.
 *   - A thread that yields waits for other threads, and the scheduler does not know which. It keeps
 *     its level, but alternates with all other threads, of whatever level. Else two threads that
 *     wait for a third one by sched_yield(3) would keep it off the processor until it is promoted.
 */
#include "base/clock.h"
#include "uthread/engine.h"
#include "uthread/ready_count.h"
#include "uthread/sched.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <string.h>

#define LEVELS 4u
#define LOWEST (LEVELS - 1)

/*
 * The queues. The levels' own have their numbers. A promoted thread has PROMOTED as its level,
 * which counts as level 0, until it has run or waited.
 */
enum { PROMOTED = LEVELS, YIELDED, QUEUES };

/* The most promotions in one next(), which takes one out: the bound keeps next() short. */
#define PROMOTED_AT_ONCE 32u

static struct {
	struct tek_spin lock;
	struct tek_ready_count count;
	struct tek_fifo queues[QUEUES];
	uint64_t now;          /* in quanta, as of the last tick that was seen */
	bool promoted_is_next; /* alternates: of PROMOTED with level 0 */
	bool yielded_is_next;  /* alternates: of YIELDED with all other queues */
	bool behind;           /* more could be promoted */
	uint64_t seen_ticks[TEK_WORKERS_MAX];
} mlfq __attribute__((aligned(64)));

/* The thread that makes it ready may read this while it runs: goes_before(). */
static unsigned int level_of(const struct tek_uthread *thread)
{
	return __atomic_load_n(&thread->sched.level, __ATOMIC_RELAXED);
}

static void set_level(struct tek_uthread *thread, unsigned int level, uint64_t now)
{
	__atomic_store_n(&thread->sched.level, level, __ATOMIC_RELAXED);
	thread->sched.level_since = now;
	thread->sched.ticks = 0;
}

static uint64_t now_in_quanta(void)
{
	return tek__now(CLOCK_MONOTONIC) / tek_ut__engine.quantum_ns;
}

static int start(unsigned int workers)
{
	memset(&mlfq, 0, sizeof(mlfq));
	for (unsigned int i = 0; i < workers; i++)
		mlfq.seen_ticks[i] = tek_ut__workers[i].ticks;
	mlfq.now = now_in_quanta();
	return 0;
}

static bool is_due(const struct tek_uthread *thread)
{
	/* The time of its demotion may be later than the last tick that was seen. */
	return mlfq.now >= thread->sched.level_since &&
	       mlfq.now - thread->sched.level_since >= tek_ut__engine.promote_quanta;
}

/* The queue that it goes to. */
static unsigned int place(struct tek_uthread *thread, enum tek_ready why)
{
	unsigned int level = level_of(thread);

	if (level > 0 && level <= LOWEST && is_due(thread))
		set_level(thread, PROMOTED, mlfq.now);
	/* A new thread, and a promoted one that has waited or yielded, goes to level 0. */
	if (why == TEK_READY_CREATED ||
	    (level_of(thread) == PROMOTED && why != TEK_READY_PREEMPTED))
		set_level(thread, 0, mlfq.now);
	if (why != TEK_READY_PREEMPTED)
		thread->sched.ticks = 0;
	return why == TEK_READY_YIELDED ? YIELDED : level_of(thread);
}

static struct tek_worker *ready(struct tek_worker *from, struct tek_uthread *thread,
				enum tek_ready why)
{
	(void)from;
	tek_ut__spin_lock(&mlfq.lock);
	tek_ut__fifo_add(&mlfq.queues[place(thread, why)], thread);
	tek_ut__ready_count_add(&mlfq.count, 1);
	tek_ut__spin_unlock(&mlfq.lock);
	return NULL;
}

static bool any(struct tek_worker *worker)
{
	(void)worker;
	return tek_ut__ready_count(&mlfq.count) != 0;
}

/* Promotes due threads of this queue, at most so many. Returns how many more may be. */
static unsigned int promote_from(unsigned int queue, unsigned int most)
{
	struct tek_fifo *from = &mlfq.queues[queue];

	while (most > 0 && from->first && is_due(from->first)) {
		struct tek_uthread *thread = tek_ut__fifo_take(from);
		set_level(thread, PROMOTED, mlfq.now);
		tek_ut__fifo_add(&mlfq.queues[PROMOTED], thread);
		most--;
	}
	return most;
}

/* When time has passed, or the last call left some. */
static void promote(struct tek_worker *worker)
{
	uint64_t *seen = &mlfq.seen_ticks[worker->number];
	unsigned int more = PROMOTED_AT_ONCE;

	if (*seen != worker->ticks) {
		*seen = worker->ticks;
		mlfq.now = now_in_quanta();
	} else if (!mlfq.behind) {
		return;
	}
	for (unsigned int level = LOWEST; level > 0; level--)
		more = promote_from(level, more);
	mlfq.behind = more == 0;
}

/* One of two queues: they alternate while neither is empty. */
static unsigned int alternate(unsigned int one, unsigned int other, bool *other_is_next)
{
	bool has_one = mlfq.queues[one].first, has_other = mlfq.queues[other].first;
	bool is_other = has_other && (*other_is_next || !has_one);

	*other_is_next = has_other && !is_other;
	return is_other ? other : one;
}

/* The queue that is next, of no level below `lowest`; it is empty if all of them are. */
static unsigned int choose(unsigned int lowest)
{
	unsigned int level = 0;

	while (level < lowest && !mlfq.queues[level].first)
		level++;
	if (level == 0 || mlfq.queues[PROMOTED].first)
		level = alternate(0, PROMOTED, &mlfq.promoted_is_next);
	return alternate(level, YIELDED, &mlfq.yielded_is_next);
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	/* A preempted thread goes on if only lower levels are ready. */
	unsigned int lowest = LOWEST;
	struct tek_uthread *thread;

	if (!any(worker))
		return NULL;
	if (running && why == TEK_READY_PREEMPTED)
		lowest = level_of(running) == PROMOTED ? 0 : level_of(running);
	tek_ut__spin_lock(&mlfq.lock);
	promote(worker);
	thread = tek_ut__fifo_take(&mlfq.queues[choose(lowest)]);
	if (thread)
		tek_ut__ready_count_add(&mlfq.count, -1);
	tek_ut__spin_unlock(&mlfq.lock);
	return thread;
}

static bool tick(struct tek_worker *worker, struct tek_uthread *running)
{
	unsigned int level = level_of(running) == PROMOTED ? 0 : level_of(running);

	(void)worker;
	running->sched.quanta++;
	if (++running->sched.ticks <= level)
		return false;
	if (level == LOWEST)
		running->sched.ticks = 0;
	else
		set_level(running, level + 1, now_in_quanta());
	return true;
}

/* A lesser one goes first. */
static unsigned int rank_of(const struct tek_uthread *thread)
{
	unsigned int level = level_of(thread);

	return level == PROMOTED ? 1 : 2 * level;
}

static bool goes_before(const struct tek_uthread *ready, const struct tek_uthread *running)
{
	return rank_of(ready) < rank_of(running);
}

const struct tek_sched tek_ut__sched_mlfq = {
	.name = "mlfq",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
	.goes_before = goes_before,
};
