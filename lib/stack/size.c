/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/size.h"

#include "ident/process.h"
#include "stack/config.h"
#include "stack/grow.h"
#include "stack/memory.h"
#include "tek_abi.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 /* Linux 5.14 for x86; elsewhere earlier */
#endif

enum {
	AUTO_MARGIN_PERCENT = 150,
	TIGHT_MARGIN_PERCENT = 108,
	AUTO_FLOOR_BYTES = 64 * 1024, /* and what a thread needs that does nothing */
	MOST_BYTES = 1 << 30,
	MOST_TIMES = 4, /* the program's own: what an endless recursion gets at most */
	LARGE_GUARD_BYTES = 64 * 1024, /* a page is jumped over by an array of some KiB */
	LOOK_EVERY = 64,               /* at what memory costs; once for so many stacks */
	REST_BYTES = 2048,       /* that glibc wants beside the static TLS: MINIMAL_REST_STACK */
	OLD_SIGNAL_BYTES = 2048, /* a frame of a signal, where the kernel does not say */
};

static size_t floor_bytes;   /* of auto */
static size_t minimum_bytes; /* with less the C library creates no thread */
static bool explicit_shows;  /* size_in() works */

/* What a thread without attributes gets, unless the program changes it: asked for once. */
static pthread_attr_t default_attr;
static size_t default_bytes; /* 0: not known */
static bool default_changed;

/*
 * The thread control block and all static TLS, the C library's spare room in it included.  A
 * function of the dynamic linker's for the C library and sanitizers; where it is gone (or
 * where, in 32-bit programs before glibc 2.27, it has its arguments in registers) a size that
 * is too small is refused by pthread_create, and the program's own counts.
 */
static size_t static_tls_bytes(void)
{
#if __GLIBC_PREREQ(2, 27)
	void (*ask)(size_t *, size_t *) = NULL;
	size_t size = 0, alignment = 0;

	*(void **)&ask = dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
	if (ask)
		ask(&size, &alignment);
	return size + alignment;
#else
	return 0;
#endif
}

/* The size in attributes, 0 if they have none: pthread_attr_getstacksize() tells the default, then. */
static size_t size_in(const pthread_attr_t *attr, bool *own_memory)
{
	void *low;
	size_t bytes;

	if (pthread_attr_getstack(attr, &low, &bytes))
		return 0;
	/* The end of the stack is NULL where it is not set. */
	*own_memory = (uintptr_t)low + bytes != 0;
	return bytes;
}

/* Whether this C library's pthread_attr_getstack() is like that. */
static bool find_out_whether_explicit_shows(void)
{
	pthread_attr_t attr;
	bool before = true, after = true, shows;

	if (pthread_attr_init(&attr))
		return false;
	shows = size_in(&attr, &before) == 0 &&
		pthread_attr_setstacksize(&attr, MOST_BYTES / 2) == 0 &&
		size_in(&attr, &after) == MOST_BYTES / 2;
	pthread_attr_destroy(&attr);
	return shows && !before && !after;
}

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t in_pages(uint64_t bytes)
{
	return (size_t)((bytes + tek__page_bytes - 1) & ~((uint64_t)tek__page_bytes - 1));
}

void tek__size_start(void)
{
	const size_t tls = static_tls_bytes(), signal = getauxval(AT_MINSIGSTKSZ);
	const long least = sysconf(_SC_THREAD_STACK_MIN);

	floor_bytes = AUTO_FLOOR_BYTES + tls + 2 * most(signal, OLD_SIGNAL_BYTES);
	minimum_bytes = in_pages(most(least > 0 ? (size_t)least : 0, tls + REST_BYTES));
	explicit_shows = find_out_whether_explicit_shows();
	if (pthread_getattr_default_np(&default_attr) == 0)
		pthread_attr_getstacksize(&default_attr, &default_bytes);
}

void tek__size_default_changed(void)
{
	__atomic_store_n(&default_changed, true, __ATOMIC_RELAXED);
}

size_t tek__size_for(const struct tek_known *known)
{
	const struct tek_stack_config *config = &tek__stack_config;
	const bool tight = config->mode == TEK_STACK_MODE_TIGHT;

	if (config->mode < TEK_STACK_MODE_AUTO || (!known->bound_bytes && !known->overflow_bytes))
		return 0;
	uint64_t margin = config->margin_percent ? config->margin_percent
			  : tight                ? TIGHT_MARGIN_PERCENT
						 : AUTO_MARGIN_PERCENT;
	uint64_t bytes = ((uint64_t)known->bound_bytes * margin + 99) / 100;
	uint64_t least = config->floor_bytes ? config->floor_bytes : tight ? 0 : floor_bytes;
	if (least < minimum_bytes)
		least = minimum_bytes;
	if (least < (uint64_t)known->overflow_bytes * 2)
		least = (uint64_t)known->overflow_bytes * 2;
	if (bytes < least)
		bytes = least;
	return bytes < MOST_BYTES ? in_pages(bytes) : MOST_BYTES;
}

/* What a thread would get without TEK; 0: its stack is not to be changed. */
static size_t programs_own(struct tek_stack *stack, const pthread_attr_t *attr)
{
	bool changed = __atomic_load_n(&default_changed, __ATOMIC_RELAXED), own_memory = false;
	size_t set = 0;

	if (attr && explicit_shows)
		set = size_in(attr, &own_memory);
	if (set || own_memory || changed || (attr && !explicit_shows))
		stack->flags |= TEK_STACK_EXPLICIT;
	if (own_memory || (attr && !explicit_shows))
		return 0;
	if (stack->flags & TEK_STACK_EXPLICIT && !tek__stack_config.override)
		return 0;
	if (set)
		return set;
	/* What else the program put into its default attributes, only the C library knows. */
	if (changed && (!attr || pthread_attr_getstacksize(attr, &set)))
		return 0;
	return changed ? set : default_bytes;
}

/* Whether threads of it may have a larger stack than their program gives them. */
static bool needs_more(const struct tek_known *known, size_t programs)
{
	return known->overflow_bytes || (uint64_t)known->peak_bytes * 100 >
						(uint64_t)programs * tek__stack_config.high_percent;
}

/*
 * Of the guard, where it costs addresses alone: not where the program locks its memory either, as
 * what cannot be accessed counts against that limit.  In C libraries before 2.27 it is a part of
 * the stack.
 */
static size_t guard_bytes(void)
{
#if __GLIBC_PREREQ(2, 27)
	static unsigned int calls;
	static bool is_free;

	if (calls++ % LOOK_EVERY == 0)
		is_free = sizeof(void *) > 4 && tek__memory_addresses() == SIZE_MAX &&
			  !tek__memory_is_filled();
	if (is_free && tek__stack_config.mode == TEK_STACK_MODE_AUTO)
		return LARGE_GUARD_BYTES;
#endif
	return tek__page_bytes;
}

/* *own becomes what *attr, or nothing, stands for, but of this size and with a guard. */
static bool with_size(pthread_attr_t *own, const pthread_attr_t *attr, size_t bytes)
{
	const size_t least = guard_bytes();
	size_t guard;

	memcpy(own, attr ? attr : &default_attr, sizeof(*own));
	if (pthread_attr_setstacksize(own, bytes))
		return false;
	if (pthread_attr_getguardsize(own, &guard) || guard < least)
		pthread_attr_setguardsize(own, least);
	return true;
}

const pthread_attr_t *tek__size_choose(struct tek_stack *stack, const pthread_attr_t *attr,
				       pthread_attr_t *own)
{
	const struct tek_known known = tek__site_known(stack->site);
	const size_t programs = programs_own(stack, attr);
	size_t bytes = tek__size_for(&known), reserve = 0;

	if (!programs || !bytes || (bytes >= programs && !needs_more(&known, programs)))
		return attr;
	/* How deep it would have gone nobody knows: what its program meant it to have may do. */
	if (known.overflow_bytes)
		bytes = bytes / MOST_TIMES > programs ? programs * MOST_TIMES
						      : most(bytes, programs);
	if (tek__stack_config.grow)
		reserve = tek__grow_reserve(bytes);
	/* With its reserve it is to take no more addresses than without TEK, if that can be. */
	if (bytes < programs && reserve > programs - bytes)
		reserve = (programs - bytes) & ~(tek__page_bytes - 1);
	if (!with_size(own, attr, bytes + reserve))
		return attr;
	stack->flags |= TEK_STACK_TUNED;
	stack->bytes = bytes + reserve;
	stack->reserve_bytes = reserve;
	return own;
}
