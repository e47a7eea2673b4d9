/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What AddressSanitizer and ThreadSanitizer must be told of threads that switch by themselves; nothing at all where
 * neither is built in.
 *
 *   tek__fiber_new()      a thread has a stack, and has not run yet
 *   tek__fiber_adopt()    by a context that runs already, on the stack that its kernel thread has
 *   tek__fiber_switch()   right before a switch; `ends`: `from` never runs again
 *   tek__fiber_arrived()  by the one that comes, first thing after the switch; a new one at its very beginning
 *   tek__fiber_end()      by anybody else, when it never runs again
 *
 * A function that begins a thread, and returns after its last switch (arch/context.h), is TEK_FIBER_UNWATCHED.
 *
 * All of them are inlined: ThreadSanitizer keeps a stack of calls for each thread, and a function that begins in one
 * and ends in another would mix them up.
 *
 * ThreadSanitizer takes a switch for an order between what was before it and what comes after it.  That is so: both are
 * on the same worker, whose own data is handed over like that.
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
	void *fake_stack; /* where variables are that may be used after their function's end */
	const void *low;  /* of the stack; NULL: not known yet */
	size_t bytes;
	bool ours;              /* the stack: a root for the search for leaks */
	struct tek_fiber *left; /* who was switched away from for this one */
};

/* Out of memory there is nothing useful to be done about a tool. */
TEK_FIBER_INLINE struct tek_fiber *tek__fiber_memory(void)
{
	struct tek_fiber *fiber = calloc(1, sizeof(*fiber));
	if (!fiber)
		abort();
	return fiber;
}

TEK_FIBER_INLINE void tek__fiber_new(struct tek_uthread *thread, void *stack, size_t bytes)
{
	struct tek_fiber *fiber = tek__fiber_memory();
	fiber->low = stack;
	fiber->bytes = bytes;
	fiber->ours = true;
	/* The frames of the one that was there before were never left. */
	__asan_unpoison_memory_region(stack, bytes);
	__lsan_register_root_region(stack, bytes);
	thread->fiber = fiber;
}

TEK_FIBER_INLINE void tek__fiber_adopt(struct tek_uthread *thread)
{
	/* Whoever comes after its first switch is told where its stack is. */
	thread->fiber = tek__fiber_memory();
}

TEK_FIBER_INLINE void tek__fiber_switch(struct tek_uthread *from, struct tek_uthread *to, bool ends)
{
	struct tek_fiber *leaves = from->fiber, *comes = to->fiber;
	comes->left = leaves;
	__sanitizer_start_switch_fiber(ends ? NULL : &leaves->fake_stack, comes->low, comes->bytes);
}

TEK_FIBER_INLINE void tek__fiber_arrived(struct tek_uthread *self)
{
	struct tek_fiber *fiber = self->fiber;
	const void *low;
	size_t bytes;
	__sanitizer_finish_switch_fiber(fiber->fake_stack, &low, &bytes);
	/* The one that left is still there: what is to be done about it comes after this. */
	if (!fiber->left->low) {
		fiber->left->low = low;
		fiber->left->bytes = bytes;
	}
}

TEK_FIBER_INLINE void tek__fiber_end(struct tek_uthread *thread)
{
	struct tek_fiber *fiber = thread->fiber;
	if (fiber && fiber->ours)
		__lsan_unregister_root_region(fiber->low, fiber->bytes);
	free(fiber);
	thread->fiber = NULL;
}

#elif defined(TEK_FIBERS_TSAN)

#include <sanitizer/tsan_interface.h>

TEK_FIBER_INLINE void tek__fiber_new(struct tek_uthread *thread, void *stack, size_t bytes)
{
	(void)stack;
	(void)bytes;
	thread->fiber = __tsan_create_fiber(0);
}

/* The lowest bit says that it is the kernel thread's, which ends it. */
TEK_FIBER_INLINE void tek__fiber_adopt(struct tek_uthread *thread)
{
	thread->fiber = (char *)__tsan_get_current_fiber() + 1;
}

TEK_FIBER_INLINE void tek__fiber_switch(struct tek_uthread *from, struct tek_uthread *to, bool ends)
{
	(void)from;
	(void)ends;
	__tsan_switch_to_fiber((void *)((uintptr_t)to->fiber & ~(uintptr_t)1), 0);
}

TEK_FIBER_INLINE void tek__fiber_arrived(struct tek_uthread *self)
{
	(void)self;
}

TEK_FIBER_INLINE void tek__fiber_end(struct tek_uthread *thread)
{
	if (thread->fiber && !((uintptr_t)thread->fiber & 1))
		__tsan_destroy_fiber(thread->fiber);
	thread->fiber = NULL;
}

#else

TEK_FIBER_INLINE void tek__fiber_new(struct tek_uthread *thread, void *stack, size_t bytes)
{
	(void)thread;
	(void)stack;
	(void)bytes;
}

TEK_FIBER_INLINE void tek__fiber_adopt(struct tek_uthread *thread)
{
	(void)thread;
}

TEK_FIBER_INLINE void tek__fiber_switch(struct tek_uthread *from, struct tek_uthread *to, bool ends)
{
	(void)from;
	(void)to;
	(void)ends;
}

TEK_FIBER_INLINE void tek__fiber_arrived(struct tek_uthread *self)
{
	(void)self;
}

TEK_FIBER_INLINE void tek__fiber_end(struct tek_uthread *thread)
{
	(void)thread;
}

#endif
#endif
