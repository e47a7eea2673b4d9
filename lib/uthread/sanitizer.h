/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that AddressSanitizer and ThreadSanitizer need for threads that switch by themselves; none
 * where neither is built in.
 *
 *   tek_ut__fiber_new()      a thread has a stack, and has not run yet
 *   tek_ut__fiber_adopt()    by a context that runs already, on the stack of its kernel thread
 *   tek_ut__fiber_switch()   right before a switch; `ends`: `from` never runs again
 *   tek_ut__fiber_arrived()  by the context switched to, first after the switch or at its start
 *   tek_ut__fiber_end()      by another thread, when it never runs again
 *
 * A function that begins a thread, and returns after its last switch (arch/context.h), is
 * TEK_FIBER_UNWATCHED.
 *
 * All of them are inlined: ThreadSanitizer keeps a stack of calls for each thread, and a function
 * that begins in one and ends in another would mix them up.
 *
 * ThreadSanitizer takes a switch for an order between the code before it and the code after it.
 * The order is real: both are on the same worker, and the switch hands over the worker's data.
 */
#ifndef TEK_UTHREAD_SANITIZER_H
#define TEK_UTHREAD_SANITIZER_H

#include "uthread/thread.h"

#include <stdbool.h>
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEK_FIBERS_ASAN
#elif __has_feature(thread_sanitizer)
#define TEK_FIBERS_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TEK_FIBERS_ASAN
#elif defined(__SANITIZE_THREAD__)
#define TEK_FIBERS_TSAN
#endif

#if defined(__clang__)
#define TEK_FIBER_UNWATCHED __attribute__((disable_sanitizer_instrumentation))
#else
#define TEK_FIBER_UNWATCHED __attribute__((no_sanitize_address, no_sanitize_thread))
#endif

#define TEK_FIBER_INLINE static inline __attribute__((always_inline))

#if defined(TEK_FIBERS_ASAN)

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#include <stdlib.h>

struct tek_fiber {
	void *fake_stack; /* of variables that may be used after their function's end */
	const void *low;  /* of the stack; NULL: not known yet */
	size_t bytes;
	bool ours;              /* the stack: a root for the search for leaks */
	struct tek_fiber *left; /* the context that was switched away from for this one */
};

/* Out of memory: a tool has nothing useful to do then. */
TEK_FIBER_INLINE struct tek_fiber *tek_ut__fiber_memory(void)
{
	struct tek_fiber *fiber = calloc(1, sizeof(*fiber));
	if (!fiber)
		abort();
	return fiber;
}

TEK_FIBER_INLINE void tek_ut__fiber_new(struct tek_uthread *thread, void *stack, size_t bytes)
{
	struct tek_fiber *fiber = tek_ut__fiber_memory();
	fiber->low = stack;
	fiber->bytes = bytes;
	fiber->ours = true;
	/* The frames of the thread that was there before were never left. */
	__asan_unpoison_memory_region(stack, bytes);
	__lsan_register_root_region(stack, bytes);
	thread->fiber = fiber;
}

TEK_FIBER_INLINE void tek_ut__fiber_adopt(struct tek_uthread *thread)
{
	/*
	 * Its stack is unknown until its first switch: tek_ut__fiber_arrived() of the next context.
	 */
	thread->fiber = tek_ut__fiber_memory();
}

TEK_FIBER_INLINE void tek_ut__fiber_switch(struct tek_uthread *from, struct tek_uthread *to,
					   bool ends)
{
	struct tek_fiber *leaves = from->fiber, *comes = to->fiber;
	comes->left = leaves;
	__sanitizer_start_switch_fiber(ends ? NULL : &leaves->fake_stack, comes->low, comes->bytes);
}

TEK_FIBER_INLINE void tek_ut__fiber_arrived(struct tek_uthread *self)
{
	struct tek_fiber *fiber = self->fiber;
	const void *low;
	size_t bytes;
	__sanitizer_finish_switch_fiber(fiber->fake_stack, &low, &bytes);
	/* The context that left still exists: it is settled after this. */
	if (!fiber->left->low) {
		fiber->left->low = low;
		fiber->left->bytes = bytes;
	}
}

TEK_FIBER_INLINE void tek_ut__fiber_end(struct tek_uthread *thread)
{
	struct tek_fiber *fiber = thread->fiber;
	if (fiber && fiber->ours)
		__lsan_unregister_root_region(fiber->low, fiber->bytes);
	free(fiber);
	thread->fiber = NULL;
}

#elif defined(TEK_FIBERS_TSAN)

#include <sanitizer/tsan_interface.h>

TEK_FIBER_INLINE void tek_ut__fiber_new(struct tek_uthread *thread, void *stack, size_t bytes)
{
	(void)stack;
	(void)bytes;
	thread->fiber = __tsan_create_fiber(0);
}

/* The lowest bit: it is the kernel thread's, which ends it. */
TEK_FIBER_INLINE void tek_ut__fiber_adopt(struct tek_uthread *thread)
{
	thread->fiber = (char *)__tsan_get_current_fiber() + 1;
}

TEK_FIBER_INLINE void tek_ut__fiber_switch(struct tek_uthread *from, struct tek_uthread *to,
					   bool ends)
{
	(void)from;
	(void)ends;
	__tsan_switch_to_fiber((void *)((uintptr_t)to->fiber & ~(uintptr_t)1), 0);
}

TEK_FIBER_INLINE void tek_ut__fiber_arrived(struct tek_uthread *self)
{
	(void)self;
}

TEK_FIBER_INLINE void tek_ut__fiber_end(struct tek_uthread *thread)
{
	if (thread->fiber && !((uintptr_t)thread->fiber & 1))
		__tsan_destroy_fiber(thread->fiber);
	thread->fiber = NULL;
}

#else

TEK_FIBER_INLINE void tek_ut__fiber_new(struct tek_uthread *thread, void *stack, size_t bytes)
{
	(void)thread;
	(void)stack;
	(void)bytes;
}

TEK_FIBER_INLINE void tek_ut__fiber_adopt(struct tek_uthread *thread)
{
	(void)thread;
}

TEK_FIBER_INLINE void tek_ut__fiber_switch(struct tek_uthread *from, struct tek_uthread *to,
					   bool ends)
{
	(void)from;
	(void)to;
	(void)ends;
}

TEK_FIBER_INLINE void tek_ut__fiber_arrived(struct tek_uthread *self)
{
	(void)self;
}

TEK_FIBER_INLINE void tek_ut__fiber_end(struct tek_uthread *thread)
{
	(void)thread;
}

#endif
#endif
