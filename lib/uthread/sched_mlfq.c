/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Multi-level feedback queue: four levels for all workers.  A thread begins at level 0, and may run for L + 1 quanta at
 * level L.  If it uses up all of that it goes one level down; if it waits for something before, it stays where it is.
 * A lower level runs only while the ones above it have nobody.  uthreads, 3.2.
 *
 * To the top, by time: who has been at the lowest level for `promote_quanta` quanta, and who at one between has not
 * used up its allotment for as long, because it does not any more, or because it never comes to run.  So nobody
 * waits for ever.  It is seen when it becomes ready, or when it is the first one of its queue, which
 * is looked at once for each tick of the worker: no scan, and nobody is ready for longer than that time without.
 *
 * Two things that the paper leaves open:
 *   - Those who were promoted have a queue of their own at level 0, which takes turns with the other, and go on later if
 *     somebody wakes up at level 0.  Else whoever waits for input beside n threads that compute would, after
 *     each promotion, come after n quanta.
 *   - Who yields says that it waits for others, and nobody knows for whom.  It keeps its level, but takes turns
 *     with all others, of whatever level; else two threads that wait for a third one by sched_yield(3) would
 *     keep it off the processor until it is promoted.
 */
#include "uthread/clock.h"
#include "uthread/engine.h"
#include "uthread/ready_count.h"
#include "uthread/sched.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <string.h>

#define LEVELS 4u
#define LOWEST (LEVELS - 1)

/*
 * The queues.  The levels' own have their numbers.  Who was promoted has PROMOTED as its level, which counts as level 0,
 * until it has run or waited.
 */
enum { PROMOTED = LEVELS, YIELDED, QUEUES };

/* So many at most go to the top in one next(), which takes one out: nobody waits for long, none is forgotten. */
#define PROMOTED_AT_ONCE 32u

static struct {
	struct tek_spin lock;
	struct tek_ready_count count;
	struct tek_fifo queues[QUEUES];
	uint64_t now;          /* in quanta, as of the last tick that was seen */
	bool promoted_is_next; /* turns: of PROMOTED with level 0 */
	bool yielded_is_next;  /* turns: of YIELDED with all others */
	bool behind;           /* more could be promoted */
	uint64_t seen_ticks[TEK_WORKERS_MAX];
} mlfq __attribute__((aligned(64)));

/* Whoever makes a thread ready may read this while it runs: goes_before(). */
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
	return tek__now() / tek__engine.quantum_ns;
}

static int start(unsigned int workers)
{
	memset(&mlfq, 0, sizeof(mlfq));
	for (unsigned int i = 0; i < workers; i++)
		mlfq.seen_ticks[i] = tek__workers[i].ticks;
	mlfq.now = now_in_quanta();
	return 0;
}

static bool is_due(const struct tek_uthread *thread)
{
	/* The time of its demotion may be later than the last tick that was seen. */
	return mlfq.now >= thread->sched.level_since &&
	       mlfq.now - thread->sched.level_since >= tek__engine.promote_quanta;
}

/* To which queue it goes. */
static unsigned int place(struct tek_uthread *thread, enum tek_ready why)
{
	unsigned int level = level_of(thread);

	if (level > 0 && level <= LOWEST && is_due(thread))
		set_level(thread, PROMOTED, mlfq.now);
	/* Who has not run all the time until now goes with its equals. */
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
	tek__spin_lock(&mlfq.lock);
	tek__fifo_add(&mlfq.queues[place(thread, why)], thread);
	tek__ready_count_add(&mlfq.count, 1);
	tek__spin_unlock(&mlfq.lock);
	return NULL;
}

static bool any(struct tek_worker *worker)
{
	(void)worker;
	return tek__ready_count(&mlfq.count) != 0;
}

/* Those whose time has come, at most so many of this queue, go to the top. Returns how many more may. */
static unsigned int promote_from(unsigned int queue, unsigned int most)
{
	struct tek_fifo *from = &mlfq.queues[queue];

	while (most > 0 && from->first && is_due(from->first)) {
		struct tek_uthread *thread = tek__fifo_take(from);
		set_level(thread, PROMOTED, mlfq.now);
		tek__fifo_add(&mlfq.queues[PROMOTED], thread);
		most--;
	}
	return most;
}

/* When time has passed, or there was more to do at the last time. */
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

/* One of two queues: they take turns while both have somebody. */
static unsigned int in_turn(unsigned int one, unsigned int other, bool *other_is_next)
{
	bool has_one = mlfq.queues[one].first, has_other = mlfq.queues[other].first;
	bool is_other = has_other && (*other_is_next || !has_one);

	*other_is_next = has_other && !is_other;
	return is_other ? other : one;
}

/* The queue whose turn it is, of no level below `lowest`; it is empty if all of them are. */
static unsigned int choose(unsigned int lowest)
{
	unsigned int level = 0;

	while (level < lowest && !mlfq.queues[level].first)
		level++;
	if (level == 0 || mlfq.queues[PROMOTED].first)
		level = in_turn(0, PROMOTED, &mlfq.promoted_is_next);
	return in_turn(level, YIELDED, &mlfq.yielded_is_next);
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	/* Who is preempted goes on if only lower levels are ready. */
	unsigned int lowest = LOWEST;
	struct tek_uthread *thread;

	if (!any(worker))
		return NULL;
	if (running && why == TEK_READY_PREEMPTED)
		lowest = level_of(running) == PROMOTED ? 0 : level_of(running);
	tek__spin_lock(&mlfq.lock);
	promote(worker);
	thread = tek__fifo_take(&mlfq.queues[choose(lowest)]);
	if (thread)
		tek__ready_count_add(&mlfq.count, -1);
	tek__spin_unlock(&mlfq.lock);
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

const struct tek_sched tek__sched_mlfq = {
	.name = "mlfq",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
	.goes_before = goes_before,
};
