/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/overflow.h"

#include "base/backtrace.h"
#include "base/beyond.h"
#include "base/real.h"
#include "stack/action.h"
#include "stack/grow.h"
#include "stack/kind.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/auxv.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum {
	SIGNAL_BYTES = 4096,    /* the kernel's frame, where that does not say */
	REPORT_BYTES = 3072,    /* of stack: what a report takes */
	BACKTRACE_BYTES = 4096, /* and a backtrace, where calls are bound lazily */
};

/* Where to go on if our own report faults; NULL: it is not at work. */
static __thread sigjmp_buf *volatile on_fault __attribute__((tls_model("initial-exec")));

void tek__overflow_watch(void)
{
	tek__action_watch();
}

/*
 * Whether the fault was on the thread's alternate stack, or just below: a handler of the
 * program's ran out of that, not the thread out of its stack.
 */
static bool is_of_signal_stack(const struct tek_stack *stack, const ucontext_t *context,
			       uintptr_t address)
{
	const uintptr_t low = (uintptr_t)context->uc_stack.ss_sp;
	const uintptr_t bytes = context->uc_stack.ss_size;
	const uintptr_t pointer = tek__stack_pointer(context);

	if (context->uc_stack.ss_flags & SS_DISABLE)
		return false;
	if (pointer - low < bytes)
		return true;
	/* One that the program made in the thread's stack has the thread's guard below it. */
	if (low - (stack->end - stack->bytes) < stack->bytes)
		return false;
	return low - pointer <= TEK_STACK_GUARD_BYTES || low - address <= TEK_STACK_GUARD_BYTES;
}

/* The bytes of a stack that a signal takes before its handler begins. */
static size_t signal_bytes(void)
{
	unsigned long bytes = getauxval(AT_MINSIGSTKSZ);
	return (bytes > SIGNAL_BYTES ? bytes : SIGNAL_BYTES) + TEK_STACK_RED_ZONE_BYTES;
}

static bool is_full(const struct tek_stack *stack, uintptr_t pointer)
{
	const uintptr_t low = stack->end - stack->bytes;
	return pointer < low ? low - pointer < TEK_STACK_FRAME_BYTES
			     : pointer - low < signal_bytes();
}

/* How much of the stack that this runs on is left; it is the thread's own if it has no other. */
static size_t room(const struct tek_stack *stack, const ucontext_t *context)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t low = (uintptr_t)context->uc_stack.ss_sp;

	if (!(context->uc_stack.ss_flags & SS_DISABLE) && here - low < context->uc_stack.ss_size)
		return here - low;
	low = stack->end - stack->bytes;
	return here - low < stack->bytes ? here - low : 0;
}

/* Apart, so that its frame is gone when the program's handler runs on the same small stack. */
__attribute__((noinline)) static void backtrace(struct tek_backtrace *trace, ucontext_t *context)
{
	sigjmp_buf here;
	sigset_t all_but_segv, before;
	const uintptr_t counter = tek__program_counter(context);

	/* An unreadable word is a second fault, which must come to this handler and not kill. */
	sigfillset(&all_but_segv);
	sigdelset(&all_but_segv, SIGSEGV);
	tek__c_library.pthread_sigmask(SIG_SETMASK, &all_but_segv, &before);
	if (sigsetjmp(here, 0) == 0) {
		on_fault = &here;
		tek__backtrace(trace, context);
	}
	on_fault = NULL;
	tek__set_program_counter(context, counter);
	tek__c_library.pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((noinline)) static void report(struct tek_thread *thread, uintptr_t address,
					     ucontext_t *context)
{
	struct tek_backtrace trace = {0};

	if (room(&thread->stack, context) >= REPORT_BYTES + BACKTRACE_BYTES)
		backtrace(&trace, context);
	if (trace.count == 0)
		tek__backtrace_add(&trace, tek__program_counter(context));
	tek__report_overflow(thread, address, &trace);
}

bool tek__overflow_at(const siginfo_t *info, ucontext_t *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;

	if (on_fault && info->si_code > 0)
		siglongjmp(*on_fault, 1);
	const bool refused = tek__is_frame_refused(info, context);
	if (info->si_code != SEGV_MAPERR && info->si_code != SEGV_ACCERR && !refused)
		return false;

	/* An overflow of a borrower of the thread's variables is not the thread's own. */
	struct tek_thread *thread = tek__process_is_known() ? tek__thread_known_self() : NULL;
	const uintptr_t pointer = tek__stack_pointer(context);
	if (refused)
		address = pointer;
	if (refused ? tek__grow_for_signal(thread, pointer, signal_bytes())
		    : tek__grow_at(thread, address))
		return true;
	if (!thread || thread->stack.flags & TEK_STACK_OVERFLOWED || !thread->stack.end ||
	    !thread->stack.bytes || is_of_signal_stack(&thread->stack, context, address))
		return false;
	if (refused ? !is_full(&thread->stack, pointer)
		    : !tek__is_beyond_stack(thread->stack.end - thread->stack.bytes, address,
					    pointer))
		return false;

	int saved = errno;
	thread->stack.flags |= TEK_STACK_OVERFLOWED;
	if (thread->slot.side)
		__atomic_fetch_or(&thread->slot.side->stack_flags, TEK_STACK_OVERFLOWED,
				  __ATOMIC_RELAXED);
	tek__kind_overflowed(thread);
	if (room(&thread->stack, context) >= REPORT_BYTES)
		report(thread, address, context);
	errno = saved;
	return false;
}
