/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/overflow.h"

#include "base/backtrace.h"
#include "base/beyond.h"
#include "base/channel.h"
#include "base/overflow_text.h"
#include "uthread/here.h"
#include "uthread/thread.h"
#include "uthread/tick.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum {
	SIGNAL_STACK_BYTES = 32 << 10, /* mlockall(2) takes all of it */
	SIGNAL_BYTES = 4096,           /* the kernel's frame, where the kernel does not report it */
	REPORT_BYTES = 3072,           /* of stack: for a report */
	BACKTRACE_BYTES = 4096,        /* and a backtrace */
};

/* The C library's siglongjmp(3): the symbol may be the engine's. */
static void (*jump)(sigjmp_buf, int);

/* The target if the report itself faults; NULL: no report is in progress. */
static __thread sigjmp_buf *volatile on_fault __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t reported; /* the thread of the last report */

void tek_ut__overflow_start(void)
{
	void *found = dlsym(RTLD_NEXT, "siglongjmp");

	memcpy(&jump, &found, sizeof(jump));
	tek__channel_start();
}

static void *map_stack(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *low = mmap(NULL, page + SIGNAL_STACK_BYTES, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (low == MAP_FAILED)
		return NULL;
	if (mprotect(low + page, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE) == 0)
		return low + page;
	munmap(low, page + SIGNAL_STACK_BYTES);
	return NULL;
}

void *tek_ut__overflow_give_stack(void *stack)
{
	stack_t before;

	if (syscall(SYS_sigaltstack, NULL, &before) || !(before.ss_flags & SS_DISABLE))
		return stack;
	if (!stack)
		stack = map_stack();
	const stack_t ours = {.ss_sp = stack, .ss_size = SIGNAL_STACK_BYTES};
	if (stack)
		syscall(SYS_sigaltstack, &ours, NULL);
	return stack;
}

void tek_ut__overflow_keep_stack(const struct tek_carrier *began, ucontext_t *context)
{
	const uint64_t tick = TEK_TICK_BIT;

	/* From here on no tick takes the thread elsewhere; sigreturn(2) lets them in again. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &tick, NULL, sizeof(tick));
	if (tek_ut__here_carrier() != began)
		syscall(SYS_sigaltstack, NULL, &context->uc_stack);
}

/* The size of a signal's frame on the stack, before its handler begins. */
static size_t signal_bytes(void)
{
	unsigned long bytes = getauxval(AT_MINSIGSTKSZ);
	return (bytes > SIGNAL_BYTES ? bytes : SIGNAL_BYTES) + TEK_STACK_RED_ZONE_BYTES;
}

static bool is_within(const stack_t *alternate, uintptr_t address)
{
	return !(alternate->ss_flags & SS_DISABLE) &&
	       address - (uintptr_t)alternate->ss_sp < alternate->ss_size;
}

/* The remaining bytes of the alternate stack that this runs on. */
static size_t room(const ucontext_t *context)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	return is_within(&context->uc_stack, here) ? here - (uintptr_t)context->uc_stack.ss_sp : 0;
}

/* Not inlined, so that its frame is gone when the program's handler runs on the same stack. */
__attribute__((noinline)) static void backtrace(struct tek_backtrace *trace, ucontext_t *context)
{
	const uint64_t all_but_segv = ~(1ull << (SIGSEGV - 1));
	const uintptr_t counter = tek__program_counter(context);
	sigjmp_buf here;
	uint64_t before;

	/*
	 * Unreadable memory is a second fault, which must reach our handler and not kill the
	 * process.
	 */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all_but_segv, &before, sizeof(before));
	if (sigsetjmp(here, 0) == 0) {
		on_fault = &here;
		tek__backtrace(trace, context);
	}
	on_fault = NULL;
	tek__set_program_counter(context, counter);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

__attribute__((noinline)) static void report(const struct tek_uthread *self,
					     const struct tek_overflow_stack *stack,
					     uintptr_t address, ucontext_t *context)
{
	struct tek_event event = tek__channel_event(TEK_EVENT_OVERFLOW);
	struct tek_backtrace trace = {0};

	if (room(context) >= REPORT_BYTES + BACKTRACE_BYTES)
		backtrace(&trace, context);
	if (trace.count == 0)
		tek__backtrace_add(&trace, tek__program_counter(context));
	event.tid = (tek_u32)self->id;
	event.value[0] = stack->bytes;
	event.value[1] = address;
	if (self->name[0])
		memcpy(event.thread, self->name, sizeof(event.thread));
	else /* as kernel threads inherit the program's */
		syscall(SYS_prctl, PR_GET_NAME, event.thread);
	tek__overflow_report(&event, stack->function, &trace);
}

bool tek_ut__overflow_at(const siginfo_t *info, ucontext_t *context,
			 const struct tek_overflow_stack *stack)
{
	if (on_fault && info->si_code > 0)
		jump(*on_fault, 1);
	const struct tek_uthread *self = tek_ut__here_self();
	const bool refused = tek__is_frame_refused(info, context);
	const uintptr_t low = (uintptr_t)stack->low, pointer = tek__stack_pointer(context);
	const uintptr_t address = refused ? pointer : (uintptr_t)info->si_addr;

	if (!self || !low || is_within(&context->uc_stack, pointer) ||
	    (info->si_code != SEGV_MAPERR && info->si_code != SEGV_ACCERR && !refused))
		return false;
	if (refused ? pointer - low >= signal_bytes() && low - pointer >= TEK_STACK_FRAME_BYTES
		    : !tek__is_beyond_stack(low, address, pointer))
		return false;
	const int error = errno;
	if (atomic_exchange(&reported, self->id) != self->id && room(context) >= REPORT_BYTES)
		report(self, stack, address, context);
	errno = error;
	return true;
}

static struct sigaction before; /* of the program */

static void on_fault_of_program(int number, siginfo_t *info, void *context)
{
	const struct tek_uthread *self = tek_ut__here_self();

	if (self) {
		const struct tek_overflow_stack stack = {
			.low = self->stack_low,
			.bytes = self->stack_bytes,
			.function = (uintptr_t)self->routine,
		};
		tek_ut__overflow_at(info, context, &stack);
	}
	/* The same signal again as soon as this returns, with the registers of before. */
	sigaction(number, &before, NULL);
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info) &&
	    info->si_code <= 0)
		raise(number);
}

void tek_ut__overflow_watch(void)
{
	const uint64_t tick = TEK_TICK_BIT;
	struct sigaction ours = {.sa_sigaction = on_fault_of_program,
				 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	if (sigaction(SIGSEGV, NULL, &before) || before.sa_handler != SIG_DFL)
		return;
	memcpy(&ours.sa_mask, &tick, sizeof(tick));
	sigaction(SIGSEGV, &ours, NULL);
}
