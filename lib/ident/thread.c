/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/thread.h"

#include "ident/clock.h"
#include "ident/process.h"
#include "ident/sanitizer.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "mediate/report.h"
#include "mediate/rt.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BUCKETS = 1024 };

/* Parallel to the table's chunks; anonymous memory of our own, so it never moves or shrinks. */
static struct tek_thread *chunks[TEK_MAX_CHUNKS];
static struct tek_thread *buckets[BUCKETS];
static struct tek_thread *free_list;
static unsigned int used;    /* structures ever used: indices below it are valid */
static unsigned int living;  /* structures in use */
static unsigned int tracked; /* those of them whose end will be noticed */
static unsigned int lost;    /* threads that found no slot */

/* The calling thread's own structure. `past_end`: its destructor has run. */
static __thread struct tek_thread *self __attribute__((tls_model("initial-exec")));
static __thread bool past_end __attribute__((tls_model("initial-exec")));

/* In fork(): the nice value of the forking thread, for its child. */
enum { NICE_UNKNOWN = 100 };
static __thread int fork_nice __attribute__((tls_model("initial-exec"))) = NICE_UNKNOWN;

static pthread_key_t end_key;
static int last_round;

static size_t default_stack_bytes;

static struct tek_thread **bucket_of(pthread_t handle)
{
	/* pthread_t is an address of a page-aligned block plus a constant. */
	uintptr_t value = (uintptr_t)handle;
	return &buckets[(value >> 12 ^ value >> 22) % BUCKETS];
}

static struct tek_thread *at(unsigned int index)
{
	return &chunks[index / TEK_CHUNK_SLOTS][index % TEK_CHUNK_SLOTS];
}

static struct tek_thread *lookup(pthread_t handle)
{
	struct tek_thread *thread = *bucket_of(handle);
	while (thread && thread->handle != handle)
		thread = thread->next;
	return thread;
}

static void hash_insert(struct tek_thread *thread)
{
	struct tek_thread **bucket = bucket_of(thread->handle);
	thread->next = *bucket;
	*bucket = thread;
}

static void hash_remove(struct tek_thread *thread)
{
	struct tek_thread **link = bucket_of(thread->handle);
	while (*link && *link != thread)
		link = &(*link)->next;
	if (*link)
		*link = thread->next;
}

static void count(void)
{
	struct tek_table_header *header = tek__table_header();
	if (!header)
		return;
	tek__table_count(&header->slots, used);
	tek__table_count(&header->threads, living);
	tek__table_count(&header->lost, lost);
}

static struct tek_thread *take_fresh(void)
{
	unsigned int chunk = used / TEK_CHUNK_SLOTS;
	struct tek_slot slot;

	if (!tek__table_slot(used, &slot))
		return NULL;
	if (!chunks[chunk]) {
		void *memory = mmap(NULL, TEK_CHUNK_SLOTS * sizeof(struct tek_thread),
				    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return NULL;
		chunks[chunk] = memory;
	}
	struct tek_thread *thread = at(used);
	thread->index = used++;
	thread->slot = slot;
	return thread;
}

static void reap(struct tek_thread *thread, void *unused)
{
	(void)unused;
	if (thread->tid && !tek__thread_exists(thread))
		tek__thread_free(thread);
}

struct tek_thread *tek__thread_new(void)
{
	struct tek_thread *thread;

	if (!free_list && used == TEK_MAX_SLOTS)
		tek__thread_each(reap, NULL);
	thread = free_list;
	if (thread)
		free_list = thread->next;
	else
		thread = take_fresh();
	if (!thread) {
		lost++;
		count();
		return NULL;
	}

	const struct tek_thread blank = {
		.state = TEK_SLOT_CREATING,
		.index = thread->index,
		.slot = thread->slot,
		.generation = thread->generation + 1,
		.stack_bytes = default_stack_bytes,
	};
	*thread = blank;
	living++;
	count();
	return thread;
}

/*
 * Its creator took another thread's pthread_t for this one's, because two threads
 * use one variable for pthread_create().  It will say itself who it is.
 */
static void forget_handle(struct tek_thread *thread)
{
	tek__region_remove(thread);
	hash_remove(thread);
	thread->state = TEK_SLOT_CREATING;
	thread->tid = 0;
}

static void make_live(struct tek_thread *thread, pthread_t handle)
{
	struct tek_thread *other = lookup(handle);
	if (other && other->birth.routine && !other->tracked)
		forget_handle(other);
	else if (other)
		tek__thread_free(other); /* it left by no door */
	thread->state = TEK_SLOT_LIVE;
	thread->handle = handle;
	thread->start_ns = tek__now(CLOCK_BOOTTIME);
	hash_insert(thread);
}

/*
 * The tid that belongs to a pthread_t; 0 if the thread has ended.  The C library
 * has no call for it but puts it into the clock id.  A pthread_t that was joined
 * is the address of freed memory: ask the kernel before the C library looks.
 */
static pid_t tid_of(pthread_t handle)
{
	clockid_t clock;
	unsigned char resident;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)((uintptr_t)handle & ~(page - 1));

	if (mincore(start, page, &resident) || pthread_getcpuclockid(handle, &clock))
		return 0;
	pid_t tid = tek__tid_of_cpu_clock(clock);
	return tid > 0 && syscall(SYS_tgkill, tek__pid(), tid, 0) == 0 ? tid : 0;
}

void tek__thread_born(struct tek_thread *thread, pthread_t handle)
{
	const struct tek_thread *other = lookup(handle);
	if (other && tek__thread_exists(other))
		return; /* not its handle: make_live() has more of this */
	make_live(thread, handle);
	thread->tid = tid_of(handle);
}

/* In the thread itself: its end shall not go unnoticed. */
static void track(struct tek_thread *thread)
{
	pthread_setspecific(end_key, thread);
	tracked += !thread->tracked;
	thread->tracked = true;
}

void tek__thread_begin(struct tek_thread *thread)
{
	self = thread;
	if (thread->state == TEK_SLOT_LIVE && !pthread_equal(thread->handle, pthread_self()))
		forget_handle(thread);
	if (thread->state == TEK_SLOT_CREATING)
		make_live(thread, pthread_self());
	thread->tid = (pid_t)syscall(SYS_gettid);
	track(thread);
	tek__thread_publish(thread);
}

static struct tek_thread *adopt(pthread_t handle, pid_t tid)
{
	struct tek_thread *thread = tek__thread_new();
	if (!thread)
		return NULL;
	make_live(thread, handle);
	thread->adopted = true;
	thread->tid = tid;
	tek__thread_publish(thread);
	return thread;
}

struct tek_thread *tek__thread_self(void)
{
	pid_t tid;

	if (self || past_end)
		return self;
	tid = (pid_t)syscall(SYS_gettid);
	self = lookup(pthread_self());
	if (self && self->tid != tid) {
		tek__thread_free(self);
		self = NULL;
	}
	if (!self)
		self = adopt(pthread_self(), tid);
	if (self)
		track(self);
	return self;
}

struct tek_thread *tek__thread_known_self(void)
{
	return self;
}

struct tek_thread *tek__thread_find(pthread_t handle)
{
	if (pthread_equal(handle, pthread_self()))
		return tek__thread_self();

	struct tek_thread *thread = lookup(handle);
	if (thread && thread->tid && !tek__thread_exists(thread)) {
		tek__thread_free(thread);
		thread = NULL;
	}
	if (!thread) {
		pid_t tid = tid_of(handle);
		thread = tid ? adopt(handle, tid) : NULL;
	}
	return thread;
}

struct tek_thread *tek__thread_find_tid(pid_t tid)
{
	if (tid == 0)
		return tek__thread_self();
	for (unsigned int i = 0; i < used; i++) {
		struct tek_thread *thread = at(i);
		if (thread->state != TEK_SLOT_LIVE || thread->tid != tid)
			continue;
		if (tek__thread_exists(thread))
			return thread;
		tek__thread_free(thread);
	}
	/* One that nobody has met: only the thread itself knows its pthread_t. */
	return tid == (pid_t)syscall(SYS_gettid) ? tek__thread_self() : NULL;
}

bool tek__threads_left(void)
{
	return tracked > 0;
}

bool tek__thread_exists(const struct tek_thread *thread)
{
	/* A sandbox may refuse the call; then it is not known to be gone. */
	return syscall(SYS_tgkill, tek__pid(), thread->tid, 0) == 0 || errno != ESRCH;
}

void tek__thread_free(struct tek_thread *thread)
{
	if (thread->state == TEK_SLOT_FREE)
		return;
	tek__region_remove(thread);
	if (thread->state == TEK_SLOT_LIVE)
		hash_remove(thread);
	tek__table_clear(thread->slot);
	tracked -= thread->tracked;
	thread->state = TEK_SLOT_FREE;
	thread->generation++;
	thread->next = free_list;
	free_list = thread;
	living--;
	count();
}

void tek__thread_each(void (*visit)(struct tek_thread *, void *), void *context)
{
	for (unsigned int i = 0; i < used; i++)
		if (at(i)->state == TEK_SLOT_LIVE)
			visit(at(i), context);
}

void tek__thread_inherit(struct tek_thread *thread)
{
	if (!thread->inherits || !thread->tid)
		return;
	thread->inherits = false;
	tek__rt_inherit(thread->tid, &thread->birth.base, thread->birth.nice);
}

void tek__thread_publish(struct tek_thread *thread)
{
	if (!thread->tid)
		return; /* it will do so itself when it begins */
	const struct tek_member *member = &thread->member;
	struct tek_record record = {
		.tid = (tek_u32)thread->tid,
		.start_ns = thread->start_ns,
		.start_routine = (tek_u64)(uintptr_t)thread->birth.routine,
		.stack_pages = (tek_u32)(thread->stack_bytes / (size_t)sysconf(_SC_PAGESIZE)),
		.place = (tek_u8)(member->group << TEK_PLACE_GROUP_SHIFT |
				  (member->fast ? TEK_REGION_FAST : TEK_REGION_NONE)
					  << TEK_PLACE_REGION_SHIFT),
		.role_bytes = (tek_u16)strlen(thread->role),
		.flags = (tek_u8)((member->marked ? TEK_FLAG_MARKED : 0) |
				  (thread->named ? TEK_FLAG_NAMED : 0) |
				  (thread->tid == tek__pid() ? TEK_FLAG_MAIN : 0) |
				  (thread->adopted ? TEK_FLAG_ADOPTED : 0) |
				  (member->overruns ? TEK_FLAG_OVERRAN : 0)),
	};
	struct tek_side side = {
		.fast_ns = member->fast_ns,
		.fast_since_ns = member->fast ? member->fast_since_ns : 0,
		.stays = member->stays,
		.overruns = member->overruns,
		.reasons = member->reasons,
		.rule = member->rule,
	};
	if (member->fast) {
		record.policy = TEK_SCHED_POLICY;
		record.priority = member->nice;
		side.base_policy = member->base.policy;
		side.base_priority = member->base.priority;
		side.base_flags = TEK_BASE_SAVED |
				  (member->base.reset_on_fork ? TEK_BASE_RESET_ON_FORK : 0);
		side.rt_priority = member->rt_priority;
	}
	memcpy(side.name, thread->name, sizeof(side.name));
	memcpy(side.role, thread->role, sizeof(side.role));
	tek__table_write(thread->slot, &record, &side);
}

void tek__thread_set_name(struct tek_thread *thread, const char *name)
{
	strncpy(thread->name, name, sizeof(thread->name) - 1);
	thread->name[sizeof(thread->name) - 1] = '\0';
	thread->named = true;
	tek__thread_publish(thread);
}

void tek__thread_set_role(struct tek_thread *thread, const char *role)
{
	strncpy(thread->own_role, role, sizeof(thread->own_role) - 1);
	memcpy(thread->role, thread->own_role, sizeof(thread->role));
	tek__thread_publish(thread);
}

/*
 * The C library runs the destructors of all keys in up to
 * PTHREAD_DESTRUCTOR_ITERATIONS rounds, as long as some key has a value.  Ours
 * gives itself a value again until the last round.
 */
static void at_end(void *value)
{
	struct tek_thread *thread = value;
	bool guard_ends = false;
	pthread_t guard;

	if (!tek__lock())
		return;
	/* After a fork in a destructor the structure is no longer ours. */
	if (self == thread) {
		if (++thread->end_rounds < last_round) {
			pthread_setspecific(end_key, thread);
		} else {
			tek__report_summary(thread);
			tek__thread_free(thread);
			self = NULL;
			past_end = true;
			guard_ends = !tek__threads_left() && tek__guard_let_go(&guard);
		}
	}
	tek__unlock();
	/* The last thread to go runs the program's atexit() functions: this one, not the guard. */
	if (guard_ends) {
		int cancellation;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
		pthread_join(guard, NULL);
		pthread_setcancelstate(cancellation, NULL);
	}
}

bool tek__threads_start(void)
{
	pthread_attr_t attr;

	if (pthread_key_create(&end_key, at_end))
		return false; /* a thread's end would go unnoticed */
	last_round = PTHREAD_DESTRUCTOR_ITERATIONS - tek__sanitizer_of_threads();
	if (pthread_getattr_default_np(&attr) == 0) {
		pthread_attr_getstacksize(&attr, &default_stack_bytes);
		pthread_attr_destroy(&attr);
	}
	return true;
}

void tek__thread_before_fork(void)
{
	if (self && self->member.fast)
		fork_nice = tek__rt_nice(0);
}

void tek__thread_after_fork(void)
{
	fork_nice = NICE_UNKNOWN;
}

void tek__threads_forget(void)
{
	/* The child of a Fast thread begins with what its parent had before. */
	if (self && self->member.fast)
		tek__rt_inherit(0, &self->member.base,
				fork_nice == NICE_UNKNOWN ? tek__rt_nice(0) : fork_nice);
	fork_nice = NICE_UNKNOWN;
	self = NULL;
	pthread_setspecific(end_key, NULL);
	for (unsigned int i = 0; i < TEK_MAX_CHUNKS && chunks[i]; i++) {
		munmap(chunks[i], TEK_CHUNK_SLOTS * sizeof(struct tek_thread));
		chunks[i] = NULL;
	}
	memset(buckets, 0, sizeof(buckets));
	free_list = NULL;
	used = living = tracked = lost = 0;
}
