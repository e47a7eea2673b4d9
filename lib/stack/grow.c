/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/grow.h"

#include "base/page.h"
#include "threads/thread.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#define MADV_GUARD_REMOVE 103
#endif

enum {
	WHOLE_BYTES = 8 << 20,       /* what a stack may become */
	LEAST_STEP_BYTES = 64 << 10, /* a fault costs more than such a piece of memory */
};

/* The calling thread's; not in its structure, because the child of a fork has none at first. */
static __thread struct {
	uintptr_t low, closed_end; /* closed from low up to, not with, closed_end */
	uintptr_t end;             /* of the stack */
	bool is_room;              /* that part is of the guard */
} own __attribute__((tls_model("initial-exec")));

static uintptr_t low_of(const struct tek_stack *stack)
{
	return stack->end - stack->bytes;
}

static bool open_up(bool is_room, uintptr_t from, uintptr_t to)
{
	int saved = errno;
	/*
	 * From glibc 2.42 on a guard may be markers in accessible memory: mprotect() leaves them.
	 */
	if (is_room)
		madvise((void *)from, to - from, MADV_GUARD_REMOVE);
	bool opened = mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) == 0;
	errno = saved;
	return opened;
}

size_t tek__grow_reserve(size_t bytes)
{
	return bytes < WHOLE_BYTES ? WHOLE_BYTES - bytes : 0;
}

void tek__grow_begin(struct tek_thread *thread)
{
	struct tek_stack *stack = &thread->stack;
	int saved = errno;

	if (stack->room_bytes) {
		own.low = low_of(stack) - stack->room_bytes;
		own.closed_end = low_of(stack);
		own.end = stack->end;
		own.is_room = true;
		return;
	}
	/* The stack may have come out smaller, or larger: out of the C library's cache. */
	stack->reserve_bytes &= ~(tek__page_bytes - 1);
	if (!stack->end || stack->bytes < stack->reserve_bytes + LEAST_STEP_BYTES / 4) {
		stack->reserve_bytes = 0;
		return;
	}
	void *low = (void *)low_of(stack);
	/* An earlier thread's pages, or mlockall()'s. */
	if (madvise(low, stack->reserve_bytes, MADV_DONTNEED) &&
	    munlock(low, stack->reserve_bytes) == 0)
		madvise(low, stack->reserve_bytes, MADV_DONTNEED);
	own.low = low_of(stack);
	own.end = stack->end;
	own.closed_end = own.low + stack->reserve_bytes;
	if (mprotect(low, stack->reserve_bytes, PROT_NONE)) {
		own.closed_end = own.low;
		stack->reserve_bytes = 0;
	}
	errno = saved;
}

/* From there on it is accessible. */
static uintptr_t opened_from(const struct tek_stack *stack)
{
	return low_of(stack) + stack->reserve_bytes;
}

/*
 * From there on it is the thread's stack.  Its handler and a thread that labels it may both have
 * opened some: the larger part counts.
 */
static void note_opened(struct tek_stack *stack, uintptr_t from)
{
	if (from >= opened_from(stack))
		return;
	if (stack->own_low) {
		stack->room_bytes -= low_of(stack) - from;
		stack->bytes = stack->end - from;
	} else {
		stack->reserve_bytes = from - low_of(stack);
	}
}

void tek__grow_to(struct tek_thread *thread, size_t bytes)
{
	struct tek_stack *stack = &thread->stack;
	const size_t closed = stack->reserve_bytes + stack->room_bytes;
	const size_t have = stack->bytes - stack->reserve_bytes;

	if (!stack->end || !closed || bytes <= have)
		return;
	size_t more = bytes - have;
	more = more < closed ? (more + tek__page_bytes - 1) & ~(tek__page_bytes - 1) : closed;
	uintptr_t from = stack->end - have - more;
	if (open_up(stack->own_low, from, stack->end - have))
		note_opened(stack, from);
}

/* Whether its guard is markers: to populate the page that stays guard fails with EFAULT then. */
static bool has_markers(const struct tek_stack *stack)
{
	const uintptr_t page = low_of(stack) - stack->room_bytes - tek__page_bytes;

	return madvise((void *)page, tek__page_bytes, MADV_POPULATE_READ) && errno == EFAULT;
}

/*
 * The C library takes the room for a part of the guard, and may give the stack to another thread.
 * The data that is reserved for that thread lies above.
 */
static void close_room(struct tek_stack *stack)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = low_of(stack);
	const size_t bytes = stack->own_low - low;
	int saved = errno;

	if (here - stack->own_low >= stack->end - stack->own_low)
		return; /* another stack, or so deep: the next thread has no guard there */
	if (madvise((void *)low, bytes, MADV_DONTNEED) && munlock((void *)low, bytes) == 0)
		madvise((void *)low, bytes, MADV_DONTNEED);
	/* Of the same kind as before: the C library removes that kind only. */
	if ((has_markers(stack) ? madvise((void *)low, bytes, MADV_GUARD_INSTALL)
				: mprotect((void *)low, bytes, PROT_NONE)) == 0 &&
	    stack->left_from < stack->own_low)
		stack->left_from = stack->own_low;
	errno = saved;
}

void tek__grow_end(struct tek_thread *thread)
{
	struct tek_stack *stack = &thread->stack;

	if (stack->own_low && low_of(stack) < stack->own_low)
		close_room(stack);
	if (stack->reserve_bytes)
		open_up(false, low_of(stack), low_of(stack) + stack->reserve_bytes);
	stack->reserve_bytes = 0;
	own.closed_end = own.low;
}

void tek__grow_inherit(struct tek_thread *gone)
{
	if (gone->stack.end && gone->tracked && pthread_equal(gone->handle, pthread_self()))
		tek__grow_end(gone);
}

bool tek__grow_at(struct tek_thread *thread, uintptr_t address)
{
	if (thread && thread->stack.end == own.end && opened_from(&thread->stack) < own.closed_end)
		own.closed_end = opened_from(&thread->stack); /* tek__grow_to() has opened it */
	if (address < own.low || address >= own.closed_end)
		return false;
	/* Twice what there is, so that a deep recursion faults seldom. */
	size_t step = own.end - own.closed_end;
	if (step < LEAST_STEP_BYTES)
		step = LEAST_STEP_BYTES;
	uintptr_t from = step < own.closed_end - own.low ? own.closed_end - step : own.low;
	if (from > address)
		from = address;
	from &= ~(uintptr_t)(tek__page_bytes - 1);
	if (!open_up(own.is_room, from, own.closed_end))
		return false;
	own.closed_end = from;
	if (!thread)
		return true;
	note_opened(&thread->stack, from);
	thread->stack.flags |= TEK_STACK_GROWN;
	if (thread->slot.side)
		__atomic_fetch_or(&thread->slot.side->stack_flags, TEK_STACK_GROWN,
				  __ATOMIC_RELAXED);
	return true;
}

bool tek__grow_for_signal(struct tek_thread *thread, uintptr_t pointer, size_t bytes)
{
	if (pointer < own.low || pointer >= own.end)
		return false;
	uintptr_t low = pointer - own.low > bytes ? pointer - bytes : own.low;
	return tek__grow_at(thread, low);
}
