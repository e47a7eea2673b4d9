/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/waits.h"

#include "base/clock.h"
#include "base/signal_block.h"
#include "inherit/cond.h"
#include "inherit/inversion.h"
#include "inherit/mutex.h"
#include "inherit/rwlock.h"
#include "mediate/lift.h"
#include "threads/inversions.h"
#include "threads/process.h"

/* Threads that are to be lifted. */
struct holder {
	struct tek_thread *thread;
	unsigned int generation;
	int nice;
	pid_t waiter; /* which waits for it directly */
};

/* More holders than this are not lifted at the same time. */
enum { MOST_HOLDERS = 64 };

struct holders {
	struct holder list[MOST_HOLDERS];
	unsigned int count;
};

static struct holder *find(struct holders *holders, const struct tek_thread *thread)
{
	for (unsigned int i = 0; i < holders->count; i++)
		if (holders->list[i].thread == thread)
			return &holders->list[i];
	return NULL;
}

static void add(struct holders *holders, struct tek_thread *thread, int nice, pid_t waiter)
{
	struct holder *holder = find(holders, thread);

	if (!holder && holders->count < MOST_HOLDERS)
		holder = &holders->list[holders->count++];
	else if (!holder || holder->nice <= nice)
		return;
	*holder = (struct holder){thread, thread->generation, nice, waiter};
}

/* The threads that a member waits for, directly or through others. */
struct chain {
	struct {
		struct tek_thread *holder;
		const struct tek_thread *waiter;
	} links[TEK_CHAIN_LENGTH];
	unsigned int length;
	bool is_deadlock; /* the last link closes a circle */
	bool is_cut;      /* it has more links */
};

/* A thread of the chain, and the waiters before it, up to the member. */
struct path {
	const struct tek_thread *thread;
	const struct path *before;
};

/* The object that a thread waits for, or will wait for at the end of its wait. */
static uintptr_t object_of(const struct tek_thread *thread)
{
	const uintptr_t object = __atomic_load_n(&thread->waits_for, __ATOMIC_SEQ_CST);
	const pthread_mutex_t *mutex = object ? NULL : tek__cond_mutex_of(thread);

	return mutex ? tek__waits_for(TEK_WAITS_FOR_MUTEX, mutex) : object;
}

static bool has(const struct path *path, const struct tek_thread *thread)
{
	while (path && path->thread != thread)
		path = path->before;
	return path;
}

/*
 * A thread has its lock before it clears its word, and its mutex before it leaves a condition
 * variable. In between it looks like one that waits for itself.
 */
static bool has_got_it(const struct tek_thread *waiter)
{
	const uintptr_t own = __atomic_load_n(&waiter->waits_for_own, __ATOMIC_SEQ_CST);

	return !own || own != __atomic_load_n(&waiter->waits_for, __ATOMIC_SEQ_CST);
}

static void follow(struct chain *chain, const struct path *path);

static void follow_to(struct chain *chain, const struct path *path, struct tek_thread *holder)
{
	if (!holder || chain->is_deadlock)
		return;
	if (holder == path->thread && has_got_it(holder))
		return;
	if (chain->length == TEK_CHAIN_LENGTH) {
		chain->is_cut = true;
		return;
	}
	chain->is_deadlock = has(path, holder);
	for (unsigned int i = 0; i < chain->length && !chain->is_deadlock; i++)
		if (chain->links[i].holder == holder)
			return;
	chain->links[chain->length].holder = holder;
	chain->links[chain->length++].waiter = path->thread;
	if (!chain->is_deadlock)
		follow(chain, &(struct path){holder, path});
}

struct readers {
	struct chain *chain;
	const struct path *path;
	const void *lock;
};

static void follow_to_reader(struct tek_thread *thread, void *context)
{
	const struct readers *readers = context;

	if (tek__rwlock_is_read_by(readers->lock, thread))
		follow_to(readers->chain, readers->path, thread);
}

static void follow_to_owner(struct chain *chain, const struct path *path, pid_t tid)
{
	if (tid)
		follow_to(chain, path, tek__thread_find_tid(tid));
}

static void follow(struct chain *chain, const struct path *path)
{
	const uintptr_t object = object_of(path->thread);
	const void *lock = (const void *)(object & ~(uintptr_t)TEK_WAITS_FOR_KIND);
	const bool is_mine = path->thread == tek__thread_mine;
	struct readers readers = {.chain = chain, .path = path, .lock = lock};

	switch (object & TEK_WAITS_FOR_KIND) {
	case TEK_WAITS_FOR_MUTEX:
		follow_to_owner(chain, path, tek__mutex_owner(lock, is_mine));
		break;
	case TEK_WAITS_FOR_RWLOCK:
		follow_to_owner(chain, path, tek__rwlock_writer(lock, is_mine));
		tek__thread_each(follow_to_reader, &readers);
		break;
	case TEK_WAITS_FOR_END:
		/* One that is past its destructors is not adopted for this. */
		follow_to(chain, path, tek__thread_known_tid((pid_t)(object >> 2)));
		break;
	}
}

/* The one thread that this one waits for; NULL: none, or readers of a lock. */
static const struct tek_thread *next_of(const struct tek_thread *thread)
{
	const uintptr_t object = object_of(thread);
	const void *lock = (const void *)(object & ~(uintptr_t)TEK_WAITS_FOR_KIND);
	const bool is_mine = thread == tek__thread_mine;
	pid_t tid = 0;

	switch (object & TEK_WAITS_FOR_KIND) {
	case TEK_WAITS_FOR_MUTEX:
		tid = tek__mutex_owner(lock, is_mine);
		break;
	case TEK_WAITS_FOR_RWLOCK:
		tid = tek__rwlock_writer(lock, is_mine);
		break;
	case TEK_WAITS_FOR_END:
		tid = (pid_t)(object >> 2);
		break;
	}
	const struct tek_thread *next = tid ? tek__thread_known_tid(tid) : NULL;
	return next == thread && has_got_it(thread) ? NULL : next;
}

/* The longest circle that is surely found has a third of so many threads. */
enum { MOST_STEPS = 4096 };

/* Whether a chain that is longer than TEK_CHAIN_LENGTH ends in a circle: Brent's algorithm. */
static bool ends_in_circle(const struct tek_thread *member)
{
	const struct tek_thread *mark = member, *thread = next_of(member);

	for (unsigned int step = 1, reach = 1; thread && step < MOST_STEPS; step++) {
		if (thread == mark)
			return true;
		if (step == reach) {
			mark = thread;
			reach *= 2;
		}
		thread = next_of(thread);
	}
	return false;
}

/* Objects whose chains have been followed, for waiters of that priority. */
enum { MOST_OBJECTS = 16 };

struct followed {
	uintptr_t object;
	int nice;
	const struct tek_thread *holder; /* NULL: none that is lifted */
};

struct objects {
	struct followed list[MOST_OBJECTS];
	unsigned int count;
};

/* Many threads can wait for one object: its chain is followed once for each priority. */
static const struct followed *find_followed(const struct objects *objects, uintptr_t object,
					    int nice)
{
	for (unsigned int i = 0; i < objects->count; i++)
		if (objects->list[i].object == object && objects->list[i].nice <= nice)
			return &objects->list[i];
	return NULL;
}

/* The deadlocks of a review, for the table. */
struct deadlocks {
	struct tek_held_up waits[TEK_MAX_HELD_UP];
	unsigned int count;
};

static tek_u32 kind_of(uintptr_t object)
{
	static const tek_u32 kinds[] = {
		[TEK_WAITS_FOR_MUTEX] = TEK_WAITS_MUTEX,
		[TEK_WAITS_FOR_RWLOCK] = TEK_WAITS_RWLOCK,
		[TEK_WAITS_FOR_END] = TEK_WAITS_JOIN,
	};
	return kinds[object & TEK_WAITS_FOR_KIND] | TEK_HELD_UP_DEADLOCK;
}

static struct tek_held_up wait_of(const struct tek_thread *waiter, pid_t holder)
{
	const uintptr_t object = object_of(waiter);
	const bool is_join = (object & TEK_WAITS_FOR_KIND) == TEK_WAITS_FOR_END;

	return (struct tek_held_up){
		.tid = (tek_u32)waiter->tid,
		.holder = (tek_u32)holder,
		.kind = kind_of(object),
		.object = is_join ? 0 : object & ~(uintptr_t)TEK_WAITS_FOR_KIND,
		.call = waiter->inversion.since_ns ? waiter->inversion.call : 0,
		.since_ns = tek__now(CLOCK_BOOTTIME),
	};
}

/*
 * The links from the member to the circle and around it, without side branches to readers. Where
 * there is no room for all, those next to the member.
 */
static void add_deadlock(struct deadlocks *deadlocks, const struct chain *chain)
{
	const struct tek_thread *wanted = chain->links[chain->length - 1].holder;
	unsigned int way[TEK_CHAIN_LENGTH], count = 0;

	for (unsigned int i = chain->length; i-- > 0;) {
		if (chain->links[i].holder != wanted)
			continue;
		wanted = chain->links[i].waiter;
		way[count++] = i;
	}
	while (count > 0 && deadlocks->count < TEK_MAX_HELD_UP) {
		const unsigned int i = way[--count];
		deadlocks->waits[deadlocks->count++] = wait_of(chain->links[i].waiter,
							       chain->links[i].holder->tid);
	}
}

/* What a review finds. */
struct found {
	struct holders holders;
	struct objects objects;
	struct deadlocks deadlocks;
};

static struct followed follow_object(struct found *found, uintptr_t object,
				     struct tek_thread *member)
{
	struct chain chain = {.length = 0};
	const int nice = tek__lift_nice(member);

	follow(&chain, &(struct path){.thread = member});
	if (chain.is_deadlock || (chain.is_cut && ends_in_circle(member))) {
		add_deadlock(&found->deadlocks, &chain);
		return (struct followed){object, nice, NULL};
	}
	for (unsigned int i = 0; i < chain.length; i++)
		add(&found->holders, chain.links[i].holder, nice, chain.links[i].waiter->tid);
	return (struct followed){object, nice, chain.length ? chain.links[0].holder : NULL};
}

static void add_chain(struct found *found, struct tek_thread *member)
{
	struct objects *objects = &found->objects;
	const uintptr_t object = object_of(member);

	if (!object)
		return;
	const struct followed *known = find_followed(objects, object, tek__lift_nice(member));
	const struct followed followed = known ? *known : follow_object(found, object, member);
	if (!known && objects->count < MOST_OBJECTS)
		objects->list[objects->count++] = followed;
	if (followed.holder)
		tek__inversion_found(member, followed.holder);
}

/* The first member that is lifted without a reason. */
static struct tek_thread *lifted_in_vain(struct holders *holders)
{
	for (struct tek_thread *thread = tek__region_first(); thread;
	     thread = thread->member.region_next)
		if (thread->member.reasons & TEK_WHY_LIFT && !find(holders, thread))
			return thread;
	return NULL;
}

/* Returns whether it has lifted a thread that was not, or found the first deadlock. */
static bool review_once(void)
{
	struct found found = {.holders.count = 0};
	const struct holder *list = found.holders.list;
	const unsigned int before = tek__lifted_threads();
	const bool had_deadlocks = tek__inversions_have_deadlocks();
	struct tek_thread *thread;

	for (thread = tek__region_first(); thread; thread = thread->member.region_next)
		if (thread->member.reasons & ~TEK_WHY_LIFT)
			add_chain(&found, thread);
	tek__inversions_deadlocks(found.deadlocks.waits, found.deadlocks.count);
	while ((thread = lifted_in_vain(&found.holders)))
		tek__lift_end(thread);
	const unsigned int left = tek__lifted_threads();
	/* A refusal leaves the waiter with what it has without inheritance. */
	for (unsigned int i = 0; i < found.holders.count; i++)
		if (list[i].thread->generation == list[i].generation)
			tek__lift(list[i].thread, list[i].nice, list[i].waiter);
	return tek__lifted_threads() > (left < before ? left : before) ||
	       tek__inversions_have_deadlocks() > had_deadlocks;
}

/*
 * A waiter whose wait ends reads the number of lifted threads after it has cleared its word. It may
 * have read the number before this review wrote it, so the words are read again after that.
 */
static void review(void)
{
	tek__region_receive();
	for (int i = 0; i < 3 && review_once(); i++)
		;
}

static pid_t at_work;            /* the reviewing thread; 0: none */
static bool is_due;              /* another thread wants a review meanwhile */
static unsigned int reviewed_ms; /* the time of the last review, CLOCK_MONOTONIC */

void tek__waits_forget(void)
{
	at_work = 0;
}

static unsigned int now_ms(void)
{
	return (unsigned int)(tek__now(CLOCK_MONOTONIC) / 1000000);
}

/* The lock may be given up while a lift begins. */
void tek__waits_review(void)
{
	const pid_t self = tek__gettid();

	if (at_work != self) /* else a lift of this review begins or ends */
		is_due = true;
	if (at_work)
		return;
	at_work = self;
	__atomic_store_n(&reviewed_ms, now_ms(), __ATOMIC_RELAXED);
	while (is_due) {
		is_due = false;
		review();
	}
	at_work = 0;
}

void tek__waits_changed(void)
{
	const tek_signals before = tek__signals_block();

	if (tek__lock()) {
		tek__waits_review();
		tek__unlock();
	}
	tek__signals_restore(before);
}

void tek__waits_check(void)
{
	if (__atomic_load_n(&reviewed_ms, __ATOMIC_RELAXED) != now_ms())
		tek__waits_changed();
}

bool tek__waits_have_effects(void)
{
	return tek__lifted_threads() || tek__inversions_have_deadlocks();
}

bool tek__join_begins(pthread_t handle, uintptr_t call)
{
	struct tek_thread *self = tek__thread_mine;
	bool waits = false;

	if (!tek__inherit_is_on() || !self)
		return false;
	if (self->member.fast)
		tek__inversion_begin(TEK_WAITS_JOIN, 0, call);
	if (tek__lock()) {
		/* One that has not begun may be unknown. */
		const struct tek_thread *other = self->member.fast ? tek__thread_find(handle)
								   : tek__thread_known(handle);
		waits = other && other != self && other->tid;
		if (waits)
			tek__waits_set(self, tek__waits_for_end(other->tid));
		if (waits && self->member.fast)
			tek__waits_review();
		tek__unlock();
	}
	if (!waits)
		tek__inversion_forget();
	return waits;
}

void tek__join_ends(void)
{
	struct tek_thread *self = tek__thread_mine;

	if (!self)
		return;
	tek__waits_set(self, 0);
	if (self->inversion.kind == TEK_WAITS_JOIN)
		tek__inversion_end();
	else if (tek__inversions_have_deadlocks() || (self->member.fast && tek__lifted_threads()))
		tek__waits_changed(); /* it was lifted meanwhile, and further holders with it */
}
