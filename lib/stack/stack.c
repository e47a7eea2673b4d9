/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/stack.h"

#include "base/page.h"
#include "base/sanitizer.h"
#include "stack/block.h"
#include "stack/config.h"
#include "stack/fit.h"
#include "stack/grow.h"
#include "stack/huge_pages.h"
#include "stack/kind.h"
#include "stack/mask.h"
#include "stack/measure.h"
#include "stack/overflow.h"
#include "stack/signal_stack.h"
#include "stack/size.h"
#include "stack/watch.h"
#include "tek_abi.h"
#include "threads/area.h"
#include "threads/process.h"
#include "threads/record.h"
#include "threads/report.h"
#include "threads/thread.h"

#include <string.h>

/* Bytes that an earlier thread may have left on a stack that was not checked beforehand. */
enum { LEFTOVER_BYTES = 64 * 1024 };

void tek__stack_start(void)
{
	tek__stack_config_read();
	/* Its runtime makes stacks larger, and has its own ways with them. */
	if (tek__sanitizer_is_loaded())
		tek__stack_config.mode = TEK_STACK_MODE_OFF;
	tek__area_start();
	if (!tek__stack_is_on())
		return;
	tek__size_start();
	tek__huge_pages_start();
	tek__mask_start();
	tek__kinds_start();
}

void tek__stack_forget(void)
{
	tek__measure_forget();
	tek__kinds_forget();
	tek__signal_stack_forget();
	tek__watch_forget();
}

const pthread_attr_t *tek__stack_choose(struct tek_thread *thread, const pthread_attr_t *attr,
					pthread_attr_t *own)
{
	struct tek_stack *stack = &thread->stack;

	if (!tek__stack_is_on())
		return attr;
	stack->site = tek__site_of(thread);
	/* Where pages come unused, an unprepared thread cannot be measured. */
	stack->measured = tek__measure_pages_come_unused() || tek__site_wants_measure(stack->site);
	if (attr && tek__area_is_given(attr))
		stack->flags |= TEK_STACK_OWN;
	stack->hides_segv = tek__mask_is_hidden();
	tek__watch_start();
	return tek__size_choose(thread, attr, own);
}

void tek__stack_refused(struct tek_thread *thread)
{
	thread->stack.flags &= (unsigned char)~TEK_STACK_TUNED;
	thread->stack.reserve_bytes = thread->stack.room_bytes = 0;
}

/* Room is a part of the guard; of that a page stays. */
static size_t room_in(size_t guard_bytes, size_t wanted)
{
	size_t most = guard_bytes > tek__page_bytes ? guard_bytes - tek__page_bytes : 0;

	most &= ~(tek__page_bytes - 1);
	return wanted < most ? wanted : most;
}

static void set_room(struct tek_stack *stack, const struct tek_area *area)
{
	stack->room_bytes = room_in(area->guard_bytes, stack->room_bytes);
	stack->own_low = stack->room_bytes ? area->low : 0;
}

static void set_area(struct tek_thread *thread, const struct tek_area *area)
{
	struct tek_stack *stack = &thread->stack;

	stack->bytes = area->low ? area->end - area->low : 0;
	stack->end = area->end;
	stack->first = area->first;
	if (stack->room_bytes)
		set_room(stack, area);
	if (!area->first && !stack->begin)
		stack->begin = (uintptr_t)thread->handle; /* that is on it */
	if (area->first && !stack->begin) {
		/* Fresh from the kernel, which never hands on what a stack held. */
		stack->begin = stack->painted_from = area->end;
		stack->clean_end = area->end;
	}
	/* The C library makes no guard where the program gave the memory, nor says that it did. */
	if (!area->guard_bytes && !area->first && !thread->birth.routine)
		stack->flags |= TEK_STACK_OWN;
}

/* It runs already, and was not created through TEK. */
static void begin_late(struct tek_stack *stack)
{
	if (!tek__stack_is_on() || stack->measured)
		return;
	stack->measured = true;
	if (!stack->first)
		tek__measure_begin_late(stack);
}

void tek__stack_locate(struct tek_thread *thread)
{
	struct tek_stack *stack = &thread->stack;
	struct tek_block block;
	struct tek_area area;

	if (stack->flags & TEK_STACK_TUNED)
		tek__signal_stack_take(thread);
	if (!tek__area_of_self(&area))
		return;
	set_area(thread, &area);
	if (!thread->birth.routine)
		begin_late(stack);
	else if (tek__stack_is_on() && tek__block_take(thread->handle, &block)) {
		stack->painted_from = block.painted_from;
		stack->noted_to = block.painted_to;
	}
}

/* It was made for another kind. */
static void fit_to_label(struct tek_thread *thread)
{
	if (!thread->stack.room_bytes && !thread->stack.reserve_bytes)
		return;
	const struct tek_known known = tek__kind_known(thread);
	const size_t bytes = tek__size_for(&known);
	/* How much a thread that overflowed needs is not known. */
	tek__grow_to(thread, bytes && !known.overflow_bytes ? bytes : SIZE_MAX);
}

void tek__stack_report(const struct tek_thread *thread, pthread_attr_t *attr)
{
	const struct tek_stack *stack = &thread->stack;
	size_t bytes, guard, more;
	void *low;

	if ((!stack->own_low && !stack->room_bytes) || pthread_attr_getstack(attr, &low, &bytes) ||
	    pthread_attr_getguardsize(attr, &guard))
		return;
	if ((uintptr_t)low == stack->own_low)
		more = stack->own_low - (stack->end - stack->bytes) + stack->room_bytes;
	else if (!stack->end)
		more = room_in(guard, stack->room_bytes); /* it has not begun */
	else
		return;
	pthread_attr_setstack(attr, (char *)low - more, bytes + more);
	pthread_attr_setguardsize(attr, guard > more ? guard - more : 0);
}

void tek__stack_begins(struct tek_thread *thread)
{
	if (!tek__stack_is_on() || !tek__kind_is_changed(thread))
		return;
	fit_to_label(thread);
	if (tek__kind_labelled(thread, true))
		thread->stack.measured = true;
}

/* The use before that label is recorded for the thread's earlier kind. */
static void note_use_before(struct tek_thread *thread, bool is_own)
{
	struct tek_stack_use use;

	if (!thread->stack.measured || !thread->stack.end ||
	    !(is_own ? tek__measure_self(&thread->stack, &use)
		     : tek__measure_other(&thread->stack, &use)) ||
	    use.unprepared)
		return;
	tek__kind_used_before(thread, &use);
}

void tek__stack_ends_as(struct tek_thread *thread, const char name[16],
			const struct tek_stack_use *use)
{
	const struct tek_thread *creator = tek__thread_known_tid(thread->birth.creator);

	/*
	 * Where names are not polled, the other threads are only known not to have the creator's
	 * name.
	 */
	if (strcmp(thread->kernel_name, name) == 0 || (!thread->kernel_name[0] && !thread->named))
		return;
	if (!thread->named && creator && strcmp(creator->kernel_name, name) == 0)
		return;
	tek__kind_used_before(thread, use);
	tek__thread_set_name(thread, name);
}

void tek__stack_labelled(struct tek_thread *thread)
{
	const bool is_own = thread->tid == tek__gettid();

	/* One that has not begun will see to itself. */
	if (!tek__stack_is_on() || !thread->tid || !tek__kind_is_changed(thread))
		return;
	note_use_before(thread, is_own);
	fit_to_label(thread);
	if (tek__kind_labelled(thread, is_own && thread->stack.end)) {
		thread->stack.measured = true;
		tek__measure_begin_late(&thread->stack);
	}
	tek__thread_publish(thread);
}

__attribute__((cold, noinline)) void tek__stack_locate_slowly(void)
{
	const struct tek_thread *known = tek__process_is_known() ? tek__thread_known_self() : NULL;
	struct tek_area area;

	if ((known && known->stack.end) || !tek__area_ask(&area) || !tek__lock())
		return;
	struct tek_thread *thread = tek__thread_self();
	if (thread && !thread->stack.end) {
		set_area(thread, &area);
		if (!thread->birth.routine)
			begin_late(&thread->stack);
		fit_to_label(thread);
		tek__thread_publish(thread);
	}
	tek__unlock();
}

void tek__stack_prepare(struct tek_thread *thread)
{
	struct tek_stack *stack = &thread->stack;

	if (!tek__stack_is_on())
		return;
	if (!stack->end)
		tek__stack_locate_slowly();
	if (stack->flags & TEK_STACK_TUNED) {
		tek__signal_stack_give(thread);
		tek__overflow_watch();
		if (stack->reserve_bytes || stack->room_bytes)
			tek__grow_begin(thread);
	}
	if (stack->flags & TEK_STACK_TUNED || stack->hides_segv)
		tek__mask_begin(stack->hides_segv);
	if (stack->measured && stack->end)
		tek__measure_prepare(stack);
}

bool tek__stack_measure_at_end(struct tek_thread *thread, struct tek_stack_use *use)
{
	struct tek_stack *stack = &thread->stack;
	bool measured = stack->measured && stack->end && tek__measure_last(stack, use);

	if (stack->reserve_bytes || stack->own_low)
		tek__grow_end(thread);
	return measured;
}

void tek__stack_give_back(struct tek_thread *thread)
{
	if (thread->stack.reserve_bytes)
		tek__grow_end(thread);
}

/* It may have been unmapped since, or be another thread's, at the same pthread_t. */
static bool is_still_there(const struct tek_thread *thread)
{
	struct tek_area area;

	return thread->handle && tek__area_of(thread->handle, &area) &&
	       area.end == thread->stack.end && !tek__thread_tid_of(thread->handle);
}

void tek__stack_gone(struct tek_thread *thread)
{
	struct tek_stack_use use;

	/* The measurement is the thread's own if the thread still exists afterwards. */
	if (tek__stack_is_on() && thread->stack.measured && thread->stack.end &&
	    tek__measure_other(&thread->stack, &use) && is_still_there(thread))
		tek__stack_measured(thread, &use);
}

/*
 * True if the measured use can be distinguished from an earlier thread's, or from mlockall(2)'s
 * pages.
 */
static bool is_news(const struct tek_stack *stack, const struct tek_stack_use *use)
{
	if (use->unprepared && (stack->measured || tek__measure_pages_come_unused() ||
				use->bound_bytes <= LEFTOVER_BYTES))
		return false;
	return use->peak_bytes > stack->use.peak_bytes ||
	       use->bound_bytes != stack->use.bound_bytes;
}

bool tek__stack_check(struct tek_thread *thread)
{
	const struct tek_stack_use before = thread->stack.use;
	struct tek_stack_use use;

	if (!tek__thread_exists(thread)) {
		tek__stack_gone(thread);
		tek__thread_free(thread);
		return false;
	}
	if (!tek__stack_locate_other(thread) || !tek__measure_other(&thread->stack, &use) ||
	    !is_news(&thread->stack, &use))
		return false;
	tek__stack_measured(thread, &use);
	if (before.peak_bytes == thread->stack.use.peak_bytes &&
	    before.bound_bytes == thread->stack.use.bound_bytes)
		return false;
	tek__thread_publish(thread);
	return true;
}

static void check_once_more(struct tek_thread *thread, void *unused)
{
	(void)unused;
	if (thread->tid)
		tek__stack_check(thread);
}

void tek__stack_finish(void)
{
	if (!tek__stack_is_on())
		return;
	tek__thread_each(check_once_more, NULL);
	tek__kinds_finish();
}

void tek__stack_release(struct tek_thread *thread)
{
	const struct tek_stack *stack = &thread->stack;

	if (stack->reserve_bytes)
		tek__grow_inherit(thread);
	if (stack->signal_stack)
		tek__signal_stack_release(thread);
	if (stack->left_to)
		tek__block_leave(thread->handle,
				 &(struct tek_block){stack->left_from, stack->left_to});
}

bool tek__stack_locate_other(struct tek_thread *thread)
{
	struct tek_area area;

	/* The first thread's limit may have been changed. */
	if (thread->stack.end && !thread->stack.first)
		return true;
	if (!thread->handle || !tek__area_of(thread->handle, &area))
		return thread->stack.end;
	set_area(thread, &area);
	return true;
}

unsigned char tek__stack_zone(const struct tek_stack *stack, const struct tek_stack_use *use)
{
	uint64_t used = (uint64_t)use->peak_bytes * 100;

	if (!stack->bytes || !used)
		return TEK_ZONE_NONE;
	if (used < (uint64_t)stack->bytes * tek__stack_config.low_percent)
		return TEK_ZONE_LOW;
	if (used <= (uint64_t)stack->bytes * tek__stack_config.high_percent)
		return TEK_ZONE_NORMAL;
	/* A stack that fits is nearly full: what matters is that it was not expected to be. */
	bool expected = stack->flags & TEK_STACK_TUNED &&
			use->peak_bytes <= tek__site_learnt_bytes(stack->site);
	return expected ? TEK_ZONE_NORMAL : TEK_ZONE_HIGH;
}

/* A use stays known, also where the program has dropped the pages since. */
static struct tek_stack_use joined(const struct tek_stack_use *before,
				   const struct tek_stack_use *now)
{
	struct tek_stack_use use = *now;

	if (use.peak_bytes >= before->peak_bytes)
		return use;
	use.peak_bytes = before->peak_bytes;
	if (use.bound_bytes < before->bound_bytes)
		use.bound_bytes = before->bound_bytes;
	if (use.bound_bytes == use.peak_bytes)
		use.flags = before->flags;
	else
		use.flags &= (unsigned char)~TEK_STACK_EXACT;
	return use;
}

void tek__stack_measured(struct tek_thread *thread, const struct tek_stack_use *use)
{
	struct tek_stack *stack = &thread->stack;

	stack->use = joined(&stack->use, use);
	stack->zone = tek__stack_zone(stack, &stack->use);
	if (tek__kind_note(thread, &stack->use))
		tek__report_stack_high(thread);
}
