/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread's last measure, and what it leaves for the next one on its stack. */
#include "base/page.h"
#include "stack/examine.h"
#include "stack/measure.h"
#include "stack/paint.h"
#include "stack/words.h"
#include "tek_abi.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
	/* Below our last frame: what we and the C library still use until the thread is gone, and
	   the next one until it is prepared. */
	LAST_BYTES = 2048,
	BELOW_FRAME_BYTES = 12 * 1024, /* less than what the C library keeps below its last frame */
	UNTOUCHED_BYTES = 1024, /* of the lowest paint, if a thread never came near to its end */
};

static atomic_bool memory_is_locked; /* some of it, or was once */

/*
 * Whether the calling thread has met no page that was not there.  It may have used pages below
 * the paint all the same where locked memory brought them, or if it never wrote to the lowest
 * of the paint (examine_paint() looks).  A quarter of the price of asking which pages are present.
 */
static bool had_no_page_fault(void)
{
	struct rusage usage;
	int saved = errno;
	bool none = !tek__measure_pages_come_unused() && getrusage(RUSAGE_THREAD, &usage) == 0 &&
		    !usage.ru_minflt && !usage.ru_majflt;

	errno = saved;
	return none;
}

/* The calling thread's, where what was painted is all that can have been used. */
static bool examine_paint(const struct tek_stack *stack, struct tek_found *found)
{
	const uintptr_t from = stack->painted_from, end = stack->clean_end;
	const size_t words = UNTOUCHED_BYTES / sizeof(uintptr_t);

	if (!stack->noted_to || from >= end || end - from < UNTOUCHED_BYTES ||
	    !had_no_page_fault() ||
	    tek__words_same((const uintptr_t *)from, words, TEK_PAINT) < words)
		return false;
	*found = (struct tek_found){.lowest = from};
	tek__examine_range(stack, tek__words_own, from, end, found);
	return true;
}

/*
 * Paint what was used, up to `to`, for the thread that gets this stack next; below, it holds paint
 * already, or nothing. Pages that the C library is about to drop are dropped now, so its own call
 * costs nothing more; it cannot drop locked pages.
 */
static bool paint_for_next(struct tek_stack *stack, const struct tek_found *found, uintptr_t to)
{
	const uintptr_t page = ~((uintptr_t)tek__page_bytes - 1);
	uintptr_t from = tek__lower(found->bound, found->certain),
		  keep = (to & page) - BELOW_FRAME_BYTES;
	bool fresh = found->lowest < stack->painted_from, holes = false;

	stack->left_from = stack->painted_from;

	if (from & (sizeof(uintptr_t) - 1))
		from &= ~(sizeof(uintptr_t) - 1);
	if (from >= to)
		return found->lowest < to;
	if (from < keep - tek__page_bytes &&
	    madvise((void *)(found->lowest & page), keep - (found->lowest & page), MADV_DONTNEED) ==
		    0) {
		memset((void *)keep, TEK_PAINT_BYTE, to - keep);
		stack->left_from = keep;
		return true;
	}
	if (!fresh)
		return tek__paint(from, to);
	return tek__paint_present(found->lowest, to, &stack->left_from, &holes) && !holes &&
	       stack->left_from < to;
}

__attribute__((noinline)) bool tek__measure_last(struct tek_stack *stack, struct tek_stack_use *use)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t to = (frame - LAST_BYTES) & ~(uintptr_t)15;
	struct tek_found found;

	if (!examine_paint(stack, &found) && !tek__examine(stack, tek__words_own, &found))
		return false;
	tek__examine_sum_up(stack, &found, use);
	if (stack->flags & TEK_STACK_OWN || stack->first || stack->fill != TEK_PAINT ||
	    frame >= stack->end || to <= stack->end - stack->bytes)
		return true;
	/* No reader may take the new paint for data of this thread. */
	__atomic_exchange_n(&stack->clean_end, 0, __ATOMIC_SEQ_CST);
	if (paint_for_next(stack, &found, to))
		stack->left_to = to;
	return true;
}

void tek__measure_memory_is_locked(void)
{
	atomic_store_explicit(&memory_is_locked, true, memory_order_relaxed);
}

bool tek__measure_pages_come_unused(void)
{
	return atomic_load_explicit(&memory_is_locked, memory_order_relaxed);
}
