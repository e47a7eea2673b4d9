/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/signal_stack.h"

#include "base/page.h"
#include "base/real.h"
#include "stack/memory.h"
#include "threads/process.h"
#include "threads/thread.h"

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
	/*
	 * The bytes for a handler, besides the kernel's frame. A program's handler with SA_ONSTACK
	 * would have had the thread's whole stack, without TEK; so it gets much where that costs
	 * nothing but addresses, and elsewhere the SIGSTKSZ of old.
	 */
	HANDLER_BYTES = 64 << 10,
	LEAST_HANDLER_BYTES = 8192,
	LARGE_SHARE = 64, /* large ones take no more than this part of the process's addresses */
	SLAB_PLACES = 64,
	BUCKETS = 1024,
	CHECKS = 2, /* at threads that may be gone, for each new one */
	/* A guard that is a mapping of its own costs two of vm.max_map_count, by default 65,530. */
	MOST_MAPPED_GUARDS = 8192,
	MOST_LOCKED = 8192, /* the same holds for a part that is locked */
};

/* One signal stack. */
struct place {
	struct place *next;            /* in its bucket, or among the free ones */
	struct place *earlier, *later; /* among those that were left */
	pthread_t handle;              /* of the latest thread that had it */
	pid_t tid;
	char *low; /* the guard is below */
	size_t bytes;
};

/* One mapping: this, then guard and stack for each place. Never unmapped. */
struct slab {
	struct slab *next;
	size_t stack_bytes;
	bool locked;       /* the program locks its memory: of each stack the upper part is, too */
	unsigned int used; /* places that have a guard: those before it */
	struct place places[SLAB_PLACES];
};

static struct slab *slabs;
static struct place *free_places;      /* unused */
static struct place *buckets[BUCKETS]; /* left, by the pthread_t of their thread */
static struct place *oldest, *latest;  /* the same, in the order in which they were left */
static size_t large_bytes;             /* of the slabs of large ones */
static size_t count, mapped_guards, locked_parts;
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
	for (int i = 0; i < CHECKS && oldest; i++) {
		struct place *place = oldest;
		unleave(place);
		if (syscall(SYS_tgkill, tek__pid(), place->tid, 0) && errno == ESRCH)
			return place;
		leave(place); /* at the end of the list */
	}
	return NULL;
}

static size_t stack_for(size_t handler_bytes)
{
	unsigned long frame = getauxval(AT_MINSIGSTKSZ);
	return round_up((frame ? frame : MINSIGSTKSZ) + handler_bytes);
}

static size_t slab_head_bytes(void)
{
	return round_up(sizeof(struct slab));
}

static size_t slab_for(size_t stack_bytes)
{
	return slab_head_bytes() + SLAB_PLACES * (tek__page_bytes + stack_bytes);
}

/* 32-bit programs and those with RLIMIT_AS want their addresses for threads. */
static bool has_addresses(size_t bytes)
{
	return large_bytes + bytes <= tek__memory_addresses() / LARGE_SHARE;
}

static bool map_slab(size_t stack_bytes)
{
	const size_t bytes = slab_for(stack_bytes);
	const bool locked = tek__memory_is_filled();
	/* Inaccessible memory is not filled: megabytes would take a millisecond. */
	struct slab *slab = mmap(NULL, bytes, locked ? PROT_NONE : PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (slab == MAP_FAILED)
		return false;
	if (locked && (munlock(slab, bytes) || mprotect(slab, bytes, PROT_READ | PROT_WRITE))) {
		munmap(slab, bytes);
		return false;
	}
	madvise(slab, bytes, MADV_NOHUGEPAGE);
	if (locked)
		tek__c_library.mlock(slab, slab_head_bytes());
	slab->next = slabs;
	slab->stack_bytes = stack_bytes;
	slab->locked = locked;
	/* A fork in another thread finds it whole, here and below. */
	__atomic_store_n(&slabs, slab, __ATOMIC_RELEASE);
	return true;
}

__attribute__((cold)) static bool add_slab(void)
{
	const size_t large = stack_for(HANDLER_BYTES);

	if (has_addresses(slab_for(large)) && map_slab(large)) {
		large_bytes += slab_for(large);
		return true;
	}
	return map_slab(stack_for(LEAST_HANDLER_BYTES));
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

/* Where the program locks its memory, what most handlers need does not fault. */
static void lock_upper_part(const struct place *place)
{
	const size_t bytes = stack_for(LEAST_HANDLER_BYTES);

	if (locked_parts < MOST_LOCKED &&
	    tek__c_library.mlock(place->low + place->bytes - bytes, bytes) == 0)
		locked_parts++;
}

static struct place *new_place(void)
{
	if ((!slabs || slabs->used == SLAB_PLACES) && !add_slab())
		return NULL;
	size_t at = slabs->used * (tek__page_bytes + slabs->stack_bytes);
	char *page = (char *)slabs + slab_head_bytes() + at;
	if (!guard(page))
		return NULL;
	struct place *place = &slabs->places[slabs->used];
	place->low = page + tek__page_bytes;
	place->bytes = slabs->stack_bytes;
	__atomic_store_n(&slabs->used, slabs->used + 1, __ATOMIC_RELEASE);
	if (slabs->locked)
		lock_upper_part(place);
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
	stack_t ours = {.ss_sp = place->low, .ss_size = place->bytes}, before;
	/* The C library, or another wrapper, may have given it one before. */
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
