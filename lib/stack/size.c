/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/size.h"

#include "base/page.h"
#include "stack/config.h"
#include "stack/fit.h"
#include "stack/grow.h"
#include "stack/memory.h"
#include "tek_abi.h"
#include "threads/thread.h"

#include <string.h>

enum {
	ODD_BYTES = 1 << 29,           /* a size that no program sets */
	LARGE_GUARD_BYTES = 64 * 1024, /* a page is jumped over by an array of some KiB */
	CHECK_EVERY = 64,              /* at what memory costs; once for so many stacks */
};

static bool explicit_shows; /* size_in() works */

/* The attributes of a thread without any, unless the program changes them: queried once. */
static pthread_attr_t default_attr;
static size_t default_bytes; /* 0: not known */
static bool default_changed;

/*
 * The size in attributes, 0 if they have none: pthread_attr_getstacksize() tells the default, then.
 */
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
	shows = size_in(&attr, &before) == 0 && pthread_attr_setstacksize(&attr, ODD_BYTES) == 0 &&
		size_in(&attr, &after) == ODD_BYTES;
	pthread_attr_destroy(&attr);
	return shows && !before && !after;
}

void tek__size_start(void)
{
	tek__fit_start();
	explicit_shows = find_out_whether_explicit_shows();
	if (pthread_getattr_default_np(&default_attr) == 0)
		pthread_attr_getstacksize(&default_attr, &default_bytes);
}

void tek__size_default_changed(void)
{
	__atomic_store_n(&default_changed, true, __ATOMIC_RELAXED);
}

/* The size that a thread would get without TEK; 0: its stack is not to be changed. */
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
	/* Only the C library knows the other default attributes that the program set. */
	if (changed && (!attr || pthread_attr_getstacksize(attr, &set)))
		return 0;
	return changed ? set : default_bytes;
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

	if (calls++ % CHECK_EVERY == 0)
		is_free = sizeof(void *) > 4 && tek__memory_addresses() == SIZE_MAX &&
			  !tek__memory_is_filled();
	if (is_free && tek__stack_config.mode == TEK_STACK_MODE_AUTO)
		return LARGE_GUARD_BYTES;
#endif
	return tek__page_bytes;
}

/*
 * *own becomes what *attr, or nothing, stands for, but of this size and with a guard that has room.
 */
static bool with_size(pthread_attr_t *own, const pthread_attr_t *attr, size_t bytes, size_t room)
{
	const size_t least = guard_bytes();
	size_t guard;

	memcpy(own, attr ? attr : &default_attr, sizeof(*own));
	if (pthread_attr_setstacksize(own, bytes))
		return false;
	if (pthread_attr_getguardsize(own, &guard) || guard < least)
		guard = least;
	pthread_attr_setguardsize(own, guard + room);
	return true;
}

/* The stack of the largest kind of the thread's site. */
static size_t largest_of_site(const struct tek_stack *stack, size_t programs)
{
	const struct tek_known largest = tek__site_known(stack->site);
	const size_t bytes = tek__fit(&largest, programs);

	return bytes ? bytes : programs;
}

const pthread_attr_t *tek__size_choose(struct tek_thread *thread, const pthread_attr_t *attr,
				       pthread_attr_t *own)
{
	struct tek_stack *stack = &thread->stack;
	/* In C libraries before 2.27 the guard, where room is, is a part of the stack. */
	const struct tek_known known = __GLIBC_PREREQ(2, 27) ? tek__kind_known(thread)
							     : tek__site_known(stack->site);
	const size_t programs = programs_own(stack, attr);
	size_t bytes = programs ? tek__fit(&known, programs) : 0, reserve = 0, room = 0;

	if (!bytes)
		return attr;
	const size_t whole = __GLIBC_PREREQ(2, 27) ? largest_of_site(stack, programs) : bytes;
	/*
	 * Addresses in the room cannot be passed to system calls, until the thread has its label.
	 */
	if (bytes < whole && bytes < tek__fit_floor())
		bytes = whole < tek__fit_floor() ? whole : tek__fit_floor();
	if (tek__stack_config.grow)
		reserve = tek__grow_reserve(bytes);
	else if (bytes < whole)
		room = (whole - bytes) & ~(tek__page_bytes - 1);
	/* With its reserve it is to take no more addresses than without TEK, if that can be. */
	if (bytes < programs && reserve > programs - bytes)
		reserve = (programs - bytes) & ~(tek__page_bytes - 1);
	if (!with_size(own, attr, bytes + reserve, room))
		return attr;
	stack->flags |= TEK_STACK_TUNED;
	stack->bytes = bytes + reserve;
	stack->reserve_bytes = reserve;
	stack->room_bytes = room;
	return own;
}
