/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/signal_stack.h"

#include "ident/process.h"
#include "ident/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

enum {
	HANDLER_BYTES = 8192, /* what a handler has, besides the kernel's frame: SIGSTKSZ of old */
	SLAB_PLACES = 64,
	BUCKETS = 1024,
	LOOKS = 2, /* at threads that may be gone, for each new one */
	/* A guard that is a mapping of its own costs two of vm.max_map_count, by default 65,530. */
	MOST_MAPPED_GUARDS = 8192,
};

/* One signal stack. */
struct place {
	struct place *next;            /* in its bucket, or among the free ones */
	struct place *earlier, *later; /* among those that were left */
	pthread_t handle;              /* of the latest thread that had it */
	pid_t tid;
	char *low; /* the guard is below */
};

/* One mapping: this, then guard and stack for each place. Never unmapped. */
struct slab {
	struct slab *next;
	unsigned int used; /* places that have a guard: those before it */
	struct place places[SLAB_PLACES];
};

static struct slab *slabs;
static struct place *free_places;      /* nobody has them */
static struct place *buckets[BUCKETS]; /* left, by the pthread_t of their thread */
static struct place *oldest, *latest;  /* the same, in the order in which they were left */
static size_t stack_bytes, slab_head_bytes;
static size_t count, mapped_guards;
static bool guards_are_mapped; /* the kernel has no lighter ones */

static size_t round_up(size_t bytes)
{
	return (bytes + tek__page_bytes - 1) & ~(tek__page_bytes - 1);
}

static struct place **bucket_of(pthread_t handle)
{
	uintptr_t value = (uintptr_t)handle;
	return &buckets[(value >> 12 ^ value >> 22) % BUCKETS];
}

static void leave(struct place *place)
{
	struct place **bucket = bucket_of(place->handle);

	place->next = *bucket;
	*bucket = place;
	place->earlier = latest;
	place->later = NULL;
	*(latest ? &latest->later : &oldest) = place;
	latest = place;
}

static void unleave(struct place *place)
{
	struct place **link = bucket_of(place->handle);

	while (*link != place)
		link = &(*link)->next;
	*link = place->next;
	*(place->earlier ? &place->earlier->later : &oldest) = place->later;
	*(place->later ? &place->later->earlier : &latest) = place->earlier;
}

static struct place *left_by(pthread_t handle)
{
	struct place *place = *bucket_of(handle);

	while (place && !pthread_equal(place->handle, handle))
		place = place->next;
	if (place)
		unleave(place);
	return place;
}

/* Of a thread that left long ago and is gone. */
static struct place *left_by_the_dead(void)
{
	for (int i = 0; i < LOOKS && oldest; i++) {
		struct place *place = oldest;
		unleave(place);
		if (syscall(SYS_tgkill, tek__pid(), place->tid, 0) && errno == ESRCH)
			return place;
		leave(place); /* behind the others */
	}
	return NULL;
}

__attribute__((cold)) static bool add_slab(void)
{
	if (!stack_bytes) {
		unsigned long frame = getauxval(AT_MINSIGSTKSZ);
		stack_bytes = round_up((frame ? frame : MINSIGSTKSZ) + HANDLER_BYTES);
		slab_head_bytes = round_up(sizeof(struct slab));
	}
	size_t bytes = slab_head_bytes + SLAB_PLACES * (tek__page_bytes + stack_bytes);
	struct slab *slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (slab == MAP_FAILED)
		return false;
	madvise(slab, bytes, MADV_NOHUGEPAGE);
	slab->next = slabs;
	slabs = slab;
	return true;
}

static bool guard(char *page)
{
	if (!guards_are_mapped && madvise(page, tek__page_bytes, MADV_GUARD_INSTALL) == 0)
		return true;
	guards_are_mapped = true;
	if (mapped_guards >= MOST_MAPPED_GUARDS || mprotect(page, tek__page_bytes, PROT_NONE))
		return false;
	mapped_guards++;
	return true;
}

static struct place *new_place(void)
{
	if ((!slabs || slabs->used == SLAB_PLACES) && !add_slab())
		return NULL;
	size_t at = slabs->used * (tek__page_bytes + stack_bytes);
	char *page = (char *)slabs + slab_head_bytes + at;
	if (!guard(page))
		return NULL;
	struct place *place = &slabs->places[slabs->used++];
	place->low = page + tek__page_bytes;
	count++;
	return place;
}

static struct place *find(pthread_t handle)
{
	struct place *place = left_by(handle);

	if (place)
		return place;
	place = free_places;
	if (place) {
		free_places = place->next;
		return place;
	}
	place = left_by_the_dead();
	return place ? place : new_place();
}

void tek__signal_stack_take(struct tek_thread *thread)
{
	struct place *place = find(thread->handle);

	thread->stack.signal_stack = place;
	if (!place)
		return;
	place->handle = thread->handle;
	place->tid = thread->tid;
}

void tek__signal_stack_give(const struct tek_thread *thread)
{
	const struct place *place = thread->stack.signal_stack;
	int saved = errno;

	if (!place)
		return;
	stack_t ours = {.ss_sp = place->low, .ss_size = stack_bytes}, before;
	/* Who began the thread before us may have given it one. */
	if (sigaltstack(&ours, &before) == 0 && !(before.ss_flags & SS_DISABLE))
		sigaltstack(&before, NULL);
	errno = saved;
}

void tek__signal_stack_release(struct tek_thread *thread)
{
	struct place *place = thread->stack.signal_stack;

	thread->stack.signal_stack = NULL;
	if (place)
		leave(place);
}

size_t tek__signal_stack_count(void)
{
	return count;
}

size_t tek__signal_stack_bytes(void)
{
	return stack_bytes;
}

/* Only the calling thread is left; it still has its own. */
void tek__signal_stack_forget(void)
{
	stack_t own = {0};

	if (!slabs)
		return;
	int saved = errno;
	sigaltstack(NULL, &own);
	errno = saved;
	for (size_t i = 0; i < BUCKETS; i++)
		buckets[i] = NULL;
	oldest = latest = free_places = NULL;
	for (struct slab *slab = slabs; slab; slab = slab->next) {
		for (unsigned int i = 0; i < slab->used; i++) {
			struct place *place = &slab->places[i];
			if (place->low == own.ss_sp) {
				place->handle = pthread_self();
				place->tid = tek__gettid();
				leave(place);
			} else {
				place->next = free_places;
				free_places = place;
			}
		}
	}
}
