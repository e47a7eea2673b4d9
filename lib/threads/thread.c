/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/thread.h"

#include "base/clock.h"
#include "threads/handles.h"
#include "threads/hooks.h"
#include "threads/index.h"
#include "threads/process.h"
#include "threads/record.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* Allocated at a time: 34 KB, all of which mlockall(2) has the kernel lock. */
	CHUNK_THREADS = 32,
	FIRST_SWEEP = 64, /* threads ever known before those that left unseen are looked for */
};

/* Anonymous memory of our own, so it never moves or shrinks. */
static struct tek_thread *chunks[TEK_MAX_SLOTS / CHUNK_THREADS];
static struct tek_thread *free_list;
static unsigned int used;                   /* structures ever used: indices below it are valid */
static unsigned int living;                 /* structures in use */
static unsigned int without_handle;         /* those of threads without a known handle */
static unsigned int starting;               /* those of starting threads */
static unsigned int tracked;                /* those of threads that will run their destructor */
static unsigned int lost;                   /* threads that found no slot */
static unsigned int serial;                 /* threads known so far */
static unsigned int sweep_at = FIRST_SWEEP; /* when as many structures are used, look again */

__thread struct tek_thread *tek__thread_mine __attribute__((tls_model("initial-exec")));
/* The destructor of the calling thread has run. */
static __thread bool past_end __attribute__((tls_model("initial-exec")));

static size_t default_stack_bytes;

static struct tek_thread *at(unsigned int index)
{
	return &chunks[index / CHUNK_THREADS][index % CHUNK_THREADS];
}

/* Its end may have gone unseen: the kernel is not asked. */
static struct tek_thread *lookup_tid(pid_t tid)
{
	unsigned int slot;
	struct tek_thread *thread = tek__index_find(tid, &slot) ? at(slot) : NULL;

	for (unsigned int i = 0; !thread && tek__index_is_incomplete() && i < used; i++)
		if (at(i)->tid == tid)
			thread = at(i);
	return thread && thread->state == TEK_SLOT_LIVE && thread->tid == tid ? thread : NULL;
}

/* From here on it is not found by its tid, neither in the table. */
static void no_tid(struct tek_thread *thread)
{
	if (!thread->tid)
		return;
	tek__index_remove(thread->tid, thread->index);
	tek__table_clear(thread->slot);
	thread->tid = 0;
}

static void set_tid(struct tek_thread *thread, pid_t tid)
{
	if (thread->tid == tid)
		return;
	no_tid(thread);
	thread->tid = tid;
	if (tid)
		tek__index_insert(tid, thread->index);
}

static void set_state(struct tek_thread *thread, enum tek_state state)
{
	without_handle += state == TEK_SLOT_CREATING;
	without_handle -= thread->state == TEK_SLOT_CREATING;
	thread->state = state;
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

__attribute__((cold)) static struct tek_thread *take_fresh(void)
{
	unsigned int chunk = used / CHUNK_THREADS;
	struct tek_slot slot;

	if (!tek__table_slot(used, &slot))
		return NULL;
	if (!chunks[chunk]) {
		void *memory = mmap(NULL, CHUNK_THREADS * sizeof(struct tek_thread),
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

__attribute__((cold)) static void reap(struct tek_thread *thread, void *unused)
{
	(void)unused;
	if (!thread->tid || tek__thread_exists(thread))
		return;
	tek__hooks.stack_gone(thread);
	tek__thread_free(thread);
}

__attribute__((cold)) static void sweep(void)
{
	tek__thread_each(reap, NULL);
	/* Twice as many, so that all sweeps together cost a system call or two a thread. */
	sweep_at = used < TEK_MAX_SLOTS / 2 ? 2 * used : TEK_MAX_SLOTS;
}

static struct tek_thread *new_thread(void)
{
	if (!free_list && used >= sweep_at)
		sweep();
	struct tek_thread *thread = free_list;
	if (thread)
		free_list = thread->next;
	else
		thread = take_fresh();
	if (!thread) {
		lost++;
		count();
		return NULL;
	}

	const unsigned int index = thread->index, generation = thread->generation;
	const struct tek_slot slot = thread->slot;
	memset(thread, 0, offsetof(struct tek_thread, member.fast_cpu));
	thread->own_role[0] = '\0';
	thread->inversion.since_ns = 0;
	thread->inversion.serial = 0;
	thread->inversion.kind = TEK_WAITS_NO;
	thread->released.lock = 0;
	thread->role = thread->own_role;
	set_state(thread, TEK_SLOT_CREATING);
	thread->index = index;
	thread->slot = slot;
	thread->generation = generation + 1;
	thread->serial = ++serial;
	thread->stack.bytes = default_stack_bytes;
	thread->member.group = *tek__hooks.first_group;
	living++;
	count();
	return thread;
}

struct tek_thread *tek__thread_new(void)
{
	struct tek_thread *thread = new_thread();
	if (thread) {
		thread->starting = true;
		starting++;
	}
	return thread;
}

static void has_come(struct tek_thread *thread)
{
	starting -= thread->starting;
	thread->starting = false;
}

bool tek__thread_at_hand(void)
{
	return free_list && tek__thread_mine && !tek__thread_mine->member.fast;
}

/* A review of the waits may find it once more: it is not lifted again. */
static void leave_region(struct tek_thread *thread)
{
	thread->leaving = true;
	tek__hooks.leave_region(thread);
}

/*
 * Its creator took another thread's pthread_t for this one's, because two threads use one variable
 * for pthread_create(). That thread registers its handle itself.
 */
__attribute__((cold)) static void forget_handle(struct tek_thread *thread)
{
	leave_region(thread);
	tek__handles_remove(thread);
	thread->handle = 0;
	no_tid(thread);
	thread->leaving = false;
	set_state(thread, TEK_SLOT_CREATING);
}

static void set_handle(struct tek_thread *thread, pthread_t handle)
{
	struct tek_thread *other = tek__handles_find(handle);
	if (other && other->birth.routine && !other->tracked)
		forget_handle(other);
	else if (other)
		tek__thread_free(other); /* it exited without its destructor */
	thread->handle = handle;
	tek__handles_insert(thread);
}

/* handle or tid may be 0, not known. */
static void make_live(struct tek_thread *thread, pthread_t handle, pid_t tid)
{
	struct tek_thread *other = tid ? lookup_tid(tid) : NULL;
	if (other)
		tek__thread_free(other); /* it exited without its destructor */
	if (handle)
		set_handle(thread, handle);
	set_tid(thread, tid);
	set_state(thread, TEK_SLOT_LIVE);
	thread->start_ns = tek__now(CLOCK_BOOTTIME);
}

/* Returns the structure by which `thread` was adopted, by its tid, before it began. */
static struct tek_thread *met_before(const struct tek_thread *thread, pid_t tid)
{
	struct tek_thread *met = lookup_tid(tid);
	return met && met->adopted && met->serial > thread->serial ? met : NULL;
}

void tek__thread_born(struct tek_thread *thread, pthread_t handle)
{
	const struct tek_thread *other = tek__handles_find(handle);
	if (other && tek__thread_exists(other))
		return; /* not its handle: set_handle() has more of this */
	pid_t tid = tek__thread_tid_of(handle);
	if (!tid || !met_before(thread, tid))
		make_live(thread, handle, tid);
}

/* In the thread itself: its end shall not go unnoticed. */
static void track(struct tek_thread *thread)
{
	tek__hooks.watch_end(thread);
	tracked += !thread->tracked;
	thread->tracked = true;
}

/* The settings of `met` stay; the creator's data for `thread` is added to it. */
__attribute__((cold)) static struct tek_thread *merge(struct tek_thread *met,
						      struct tek_thread *thread)
{
	met->birth = thread->birth;
	met->settled = thread->settled;
	met->inherits = thread->inherits && !met->member.fast;
	met->born_critical = thread->born_critical;
	met->born_priority = thread->born_priority;
	met->stack = thread->stack;
	met->adopted = false;
	if (!met->group_given)
		tek__hooks.set_group(met, thread->member.group);
	tek__thread_free(thread);
	return met;
}

struct tek_thread *tek__thread_begin(struct tek_thread *thread)
{
	pthread_t handle = pthread_self();
	pid_t tid = tek__gettid();
	struct tek_thread *met = met_before(thread, tid);

	if (thread->state == TEK_SLOT_LIVE && !pthread_equal(thread->handle, handle))
		forget_handle(thread);
	if (met)
		thread = merge(met, thread);
	if (thread->state == TEK_SLOT_CREATING)
		make_live(thread, handle, tid);
	set_tid(thread, tid);
	if (!thread->handle)
		set_handle(thread, handle);
	tek__thread_mine = thread;
	has_come(thread);
	track(thread);
	tek__hooks.locate_stack(thread);
	tek__thread_publish(thread);
	return thread;
}

__attribute__((cold)) static struct tek_thread *adopt(pthread_t handle, pid_t tid)
{
	struct tek_thread *thread;

	if (tek__hooks.is_helper(tid))
		return NULL; /* ours */
	if (tid != tek__gettid() && tek__thread_is_ending(tid))
		return NULL;
	thread = new_thread();
	if (!thread)
		return NULL;
	make_live(thread, handle, tid);
	thread->adopted = true;
	tek__scheduling_query(tid, &thread->seen);
	tek__thread_publish(thread);
	const unsigned int generation = thread->generation;
	tek__hooks.adopted(thread);
	/* It may have ended where the lock was given up to make a helper. */
	return thread->generation == generation ? thread : NULL;
}

static struct tek_thread *find_self(void)
{
	pthread_t handle = pthread_self();
	pid_t tid = tek__gettid();
	struct tek_thread *self = tek__handles_find(handle);

	if (self && self->tid == tid)
		return self;
	if (self)
		tek__thread_free(self);
	self = lookup_tid(tid);
	if (!self)
		return adopt(handle, tid);
	if (!self->handle) {
		set_handle(self, handle);
		return self;
	}
	tek__thread_free(self); /* its tid was another thread's before */
	return adopt(handle, tid);
}

struct tek_thread *tek__thread_self(void)
{
	if (tek__thread_mine || past_end)
		return tek__thread_mine;
	struct tek_thread *self = find_self();
	tek__thread_mine = self;
	if (self) {
		track(self);
		tek__hooks.locate_stack(self);
		tek__thread_publish(self);
	}
	return self;
}

struct tek_thread *tek__thread_known_self(void)
{
	return tek__thread_mine;
}

struct tek_thread *tek__thread_known(pthread_t handle)
{
	return tek__handles_find(handle);
}

struct tek_thread *tek__thread_known_tid(pid_t tid)
{
	return lookup_tid(tid);
}

/*
 * The kernel knows a thread for a while after it was joined. A thread that runs its destructor is
 * forgotten before that.
 */
static bool is_there(const struct tek_thread *thread)
{
	return thread->tracked ? tek__thread_exists(thread) : !tek__thread_is_ending(thread->tid);
}

/* A structure that was found, unless its thread turns out to be gone. */
static struct tek_thread *if_it_exists(struct tek_thread *thread)
{
	if (!thread || !thread->tid || is_there(thread))
		return thread;
	tek__hooks.stack_gone(thread);
	tek__thread_free(thread);
	return NULL;
}

struct tek_thread *tek__thread_find(pthread_t handle)
{
	if (pthread_equal(handle, pthread_self()))
		return tek__thread_self();

	struct tek_thread *thread = if_it_exists(tek__handles_find(handle));
	/*
	 * The kernel may still know a joined thread after the C library has given its handle to a
	 * starting one.
	 */
	pid_t tid = !thread || without_handle ? tek__thread_tid_of(handle) : 0;
	if (!tid || (thread && (!thread->tid || thread->tid == tid)))
		return thread;
	thread = lookup_tid(tid);
	if (thread && !thread->handle)
		set_handle(thread, handle); /* met by its tid before */
	else
		thread = adopt(handle, tid);
	return thread;
}

struct tek_thread *tek__thread_find_tid(pid_t tid)
{
	if (tid == 0 || tid == tek__gettid())
		return tek__thread_self();
	struct tek_thread *thread = if_it_exists(lookup_tid(tid));
	if (!thread && syscall(SYS_tgkill, tek__pid(), tid, 0) == 0)
		thread = adopt(0, tid);
	return thread;
}

bool tek__threads_left(void)
{
	return tracked || starting;
}

unsigned int tek__threads_living(void)
{
	return living;
}

bool tek__threads_are_starting(void)
{
	return starting;
}

unsigned int tek__threads_starting(void)
{
	return starting;
}

void tek__thread_free(struct tek_thread *thread)
{
	if (thread->state == TEK_SLOT_FREE)
		return;
	leave_region(thread);
	tek__hooks.release_stack(thread);
	if (thread->handle)
		tek__handles_remove(thread);
	no_tid(thread);
	has_come(thread);
	tracked -= thread->tracked;
	set_state(thread, TEK_SLOT_FREE);
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

unsigned int tek__thread_count(void)
{
	return used;
}

struct tek_thread *tek__thread_at(unsigned int number)
{
	return number < used && at(number)->state == TEK_SLOT_LIVE ? at(number) : NULL;
}

void tek__thread_end(struct tek_thread *thread)
{
	tek__thread_free(thread);
	tek__thread_mine = NULL;
	past_end = true;
}

void tek__threads_start(void)
{
	pthread_attr_t attr;

	if (pthread_getattr_default_np(&attr) == 0) {
		pthread_attr_getstacksize(&attr, &default_stack_bytes);
		pthread_attr_destroy(&attr);
	}
}

void tek__threads_forget(void)
{
	tek__thread_mine = NULL;
	/* The memory of the structures serves again: see tek__table_make_private(). */
	tek__handles_forget();
	tek__index_forget();
	free_list = NULL;
	used = living = without_handle = starting = tracked = lost = 0;
	sweep_at = FIRST_SWEEP;
}
