/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/action.h"

#include "base/next.h"
#include "uthread/carrier.h"
#include "uthread/interrupted.h"
#include "uthread/overflow.h"
#include "uthread/parallel.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/router.h"
#include "uthread/posix/signal.h"
#include "uthread/posix/start.h"
#include "uthread/reserved.h"
#include "uthread/sections.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void handler_function(int, siginfo_t *, void *);

static void on_signal(int number, siginfo_t *info, void *argument);

/* The program's settings. handler: SIG_DFL, SIG_IGN or a function. */
static struct {
	_Atomic uintptr_t handler;
	atomic_int flags;
	_Atomic uint64_t mask;  /* the kernel's while the handler runs */
	atomic_bool interrupts; /* siginterrupt(3) */
} actions[TEK_SIGNALS + 1];

/* A handler that runs, on the stack of its thread. */
struct tek_handler_frame {
	struct tek_handler_frame *previous;
	bool deferred; /* preemption is deferred for it */
};

/* Whether an instruction raised it, not a process: it would occur again at once. */
static bool is_error(int number, const siginfo_t *info)
{
	const uint64_t errors = tek_ut__signal_bit(SIGSEGV) | tek_ut__signal_bit(SIGBUS) |
				tek_ut__signal_bit(SIGFPE) | tek_ut__signal_bit(SIGILL) |
				tek_ut__signal_bit(SIGTRAP) | tek_ut__signal_bit(SIGSYS);
	return info->si_code > 0 && (errors & tek_ut__signal_bit(number));
}

static uint64_t mask_of(const ucontext_t *context)
{
	uint64_t mask;
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	return mask;
}

/* The engine handles SA_RESETHAND, since a deferred signal reaches the kernel twice. */
static handler_function *handler_for(int number)
{
	uintptr_t handler = atomic_load(&actions[number].handler);

	if (!(atomic_load(&actions[number].flags) & SA_RESETHAND))
		return (handler_function *)handler;
	handler = atomic_exchange(&actions[number].handler, (uintptr_t)SIG_DFL);
	struct sigaction reset = {.sa_handler = SIG_DFL};
	TEK_REAL(sigaction)(number, &reset, NULL);
	return (handler_function *)handler;
}

static bool is_handler(uintptr_t handler)
{
	return handler != (uintptr_t)SIG_DFL && handler != (uintptr_t)SIG_IGN;
}

static void call(handler_function *handler, int number, siginfo_t *info, void *context)
{
	/* Without a handler: the program removed it at this very moment. */
	if (is_handler((uintptr_t)handler))
		handler(number, info, context);
}

/*
 * The same signal again, once the handler has returned, with the registers of before; and to that
 * action.
 */
static void deliver_again(const struct sigaction *action, int number, siginfo_t *info)
{
	const int error = errno;

	TEK_REAL(sigaction)(number, action, NULL);
	/* An error that cannot be sent occurs again by itself. */
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info) &&
	    info->si_code <= 0)
		syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), number);
	errno = error;
}

static struct tek_overflow_stack stack_of(const struct tek_uthread *thread)
{
	const struct tek_posix *posix = thread ? thread->posix : NULL;

	/*
	 * The first thread's stack is the program's, and so are stacks that the program provides.
	 */
	if (!posix || !thread->stack_low ||
	    (size_t)(posix->stack - thread->stack_low) >= thread->stack_bytes)
		return (struct tek_overflow_stack){.low = NULL};
	return (struct tek_overflow_stack){
		.low = posix->extra_guard ? posix->stack : thread->stack_low,
		.bytes = posix->stack_bytes,
		.function = (uintptr_t)posix->routine,
	};
}

/*
 * The kernel runs our handler of SIGSEGV on the alternate stack, whatever the program has set.
 * Returns whether the program's handler cannot be called here; then the kernel handles the signal.
 */
static bool is_segv_settled(siginfo_t *info, ucontext_t *context)
{
	const struct tek_overflow_stack stack = stack_of(tek_ut__here_self());
	const bool overflow = tek_ut__overflow_at(info, context, &stack);
	const uintptr_t handler = atomic_load(&actions[SIGSEGV].handler);
	const int flags = atomic_load(&actions[SIGSEGV].flags);
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const bool alternate = !(context->uc_stack.ss_flags & SS_DISABLE) &&
			       here - (uintptr_t)context->uc_stack.ss_sp <
				       context->uc_stack.ss_size;
	struct sigaction action = {.sa_handler = SIG_DFL};

	if (is_handler(handler) && (flags & SA_ONSTACK || !alternate))
		return false;
	/* On the thread's own stack from now on, unless there is no room for that. */
	if (is_handler(handler) && !overflow) {
		action.sa_sigaction = on_signal;
		action.sa_flags = (flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
		tek_ut__signals_to(&action.sa_mask,
				   atomic_load(&actions[SIGSEGV].mask) | TEK_TICK_BIT);
	}
	deliver_again(&action, SIGSEGV, info);
	return true;
}

/*
 * Where a thread runs the program's code. The tick is blocked, so it stays on its worker until the
 * handler waits.
 */
static void run(struct tek_posix *self, bool taken, int number, siginfo_t *info,
		ucontext_t *context)
{
	const int flags = atomic_load(&actions[number].flags);
	const uint64_t during = mask_of(context) | atomic_load(&actions[number].mask);
	struct tek_handler_frame frame = {
		.previous = self->frames,
		.deferred = !taken && !self->level &&
			    !tek_ut__sections_allow(tek_ut__interrupted_at(context)),
	};

	if (taken)
		self->taking = false;
	tek_ut__here_defer();
	tek_ut__signal_mask_is(during);
	tek_ut__here_undefer();
	if (taken)
		tek_ut__here_undefer();
	if (frame.deferred) {
		tek_ut__here_defer();
		self->level++;
	}
	self->frames = &frame;
	self->handlers++;
	if (!(flags & SA_RESTART))
		self->failing++;

	call(handler_for(number), number, info, context);

	if (self->frames ==
	    &frame) { /* else a jump has left it, and the target of the jump has returned here */
		self->frames = frame.previous;
		if (frame.deferred) {
			self->level--;
			tek_ut__here_undefer();
		}
	}
	tek_ut__here_defer();
	/*
	 * A wait that begins just now must not miss it; the kernel sets the mask as soon as this
	 * returns.
	 */
	tek_ut__interrupt(tek_ut__here_self());
	/*
	 * If it has interrupted the tick's handler the kernel blocks that signal there, the thread
	 * does not.
	 */
	tek_ut__signal_mask_is(mask_of(context) & ~(self->frames ? 0 : tek_ut__own_signals()));
	if (taken)
		self->taking = true;
	else
		tek_ut__here_undefer();
}

/* It stays blocked and pending on this kernel thread: there was no room for it elsewhere. */
static void leave_to_kernel(int number, siginfo_t *info, ucontext_t *context)
{
	const uint64_t mask = mask_of(context) | tek_ut__signal_bit(number);
	struct tek_worker *worker = tek_ut__here_worker();

	memcpy(&context->uc_sigmask, &mask, sizeof(mask));
	if (worker)
		worker->kernel_mask |= tek_ut__signal_bit(number);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info);
}

static void on_signal(int number, siginfo_t *info, void *argument)
{
	ucontext_t *context = argument;
	struct tek_uthread *thread = tek_ut__here_self();
	struct tek_posix *self = thread ? thread->posix : NULL;
	const struct tek_carrier *carrier = tek_ut__here_carrier();
	const unsigned int depth = tek_ut__here_find()->defer;
	const bool is_fault = is_error(number, info);
	const int error = errno;

	tek_ut__restart_sequence(context);
	if (number == SIGSEGV && is_segv_settled(info, context))
		return;
	if ((!self && !tek_ut__here_carrier()) || (is_fault && depth)) {
		call(handler_for(number), number, info, argument);
	} else if (self && depth == self->level && !is_fault && tek_ut__router_passes(info) &&
		   tek_ut__router_put(info)) {
		errno = error;
	} else if (self && depth <= self->level + self->taking) {
		const bool aside = self->aside && !tek_ut__here_entry();
		run(self, depth > self->level, number, info, context);
		/* The thread returns to its wait in the kernel. */
		if (aside && tek_ut__here_entry())
			tek_ut__aside_begin();
		tek_ut__overflow_keep_stack(carrier, context);
	} else {
		if (!tek_ut__router_put(info))
			leave_to_kernel(number, info, context);
		errno = error;
	}
}

/*
 * Whether the kernel gets our handler. Alternate stacks belong to kernel threads: only for errors.
 */
static bool has_ours(int number, const struct sigaction *action)
{
	return is_handler((uintptr_t)action->sa_handler) ||
	       (number == SIGSEGV && action->sa_handler == SIG_DFL);
}

static struct sigaction for_kernel(int number, const struct sigaction *action)
{
	struct sigaction ours = *action;

	sigdelset(&ours.sa_mask, SIGKILL);
	if (!has_ours(number, action))
		return ours;
	ours.sa_sigaction = on_signal;
	ours.sa_flags = (ours.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
	if (number == SIGSEGV)
		ours.sa_flags |= SA_ONSTACK;
	else if (number != SIGBUS)
		ours.sa_flags &= ~SA_ONSTACK;
	tek_ut__signals_to(&ours.sa_mask, tek_ut__signals_of(&ours.sa_mask) | TEK_TICK_BIT);
	return ours;
}

/* The program reads its own settings. */
static void as_asked(struct sigaction *old, uintptr_t handler, int flags)
{
	if (old->sa_sigaction != on_signal || !(old->sa_flags & SA_SIGINFO))
		return;
	memcpy(&old->sa_handler, &handler, sizeof(handler));
	old->sa_flags = flags;
	tek_ut__signals_to(&old->sa_mask, tek_ut__signals_of(&old->sa_mask) & ~TEK_TICK_BIT);
}

int tek_ut__action_set(int number, const struct sigaction *action, struct sigaction *old)
{
	int (*real)(int, const struct sigaction *, struct sigaction *) = TEK_REAL(sigaction);

	if (number < 1 || number > TEK_SIGNALS || tek_ut__start_is_borrowed())
		return real(number, action, old);
	const struct tek_posix *self = tek_ut__posix_self();
	/* A deferred signal is still for this handler, and must not meet the default action. */
	if (action && !is_handler((uintptr_t)action->sa_handler) && self && !self->frames &&
	    is_handler(atomic_load(&actions[number].handler)))
		tek_ut__signals_take_last();
	const uintptr_t old_handler = atomic_load(&actions[number].handler);
	const int old_flags = atomic_load(&actions[number].flags);
	struct sigaction ours, before;
	if (action) {
		ours = for_kernel(number, action);
		/*
		 * First here: a signal in between finds the new action, which is about to be in
		 * force.
		 */
		if (has_ours(number, action)) {
			uint64_t mask = tek_ut__signals_of(&ours.sa_mask);
			if (!(action->sa_flags & SA_NODEFER))
				mask |= tek_ut__signal_bit(number);
			atomic_store(&actions[number].mask, mask);
			atomic_store(&actions[number].flags, action->sa_flags);
			atomic_store(&actions[number].handler, (uintptr_t)action->sa_handler);
		}
	}
	if (real(number, action ? &ours : NULL, &before) != 0) {
		atomic_store(&actions[number].handler, old_handler);
		return -1;
	}
	if (action && !has_ours(number, action))
		atomic_store(&actions[number].handler, (uintptr_t)action->sa_handler);
	as_asked(&before, old_handler, old_flags);
	if (old)
		*old = before;
	return 0;
}

void tek_ut__action_start(void)
{
	struct sigaction now;

	/* Any other action was set through here, or belongs to a library that was there before. */
	if (TEK_REAL(sigaction)(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		tek_ut__action_set(SIGSEGV, &now, NULL);
}

void tek_ut__action_interrupt(int number, bool interrupts)
{
	if (number >= 1 && number <= TEK_SIGNALS)
		atomic_store(&actions[number].interrupts, interrupts);
}

bool tek_ut__action_interrupts(int number)
{
	return number >= 1 && number <= TEK_SIGNALS && atomic_load(&actions[number].interrupts);
}

bool tek_ut__action_ignores(int number)
{
	struct sigaction now;

	if (TEK_REAL(sigaction)(number, NULL, &now) != 0)
		return false;
	return now.sa_handler == SIG_IGN ||
	       (now.sa_handler == SIG_DFL &&
		(number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT));
}

void tek_ut__action_leave(const struct __jmp_buf_tag *env)
{
	struct tek_posix *self = tek_ut__posix_self();
	const bool in_handler = self && self->frames;

	if (!self || (!in_handler && !env->__mask_was_saved))
		return;
	/*
	 * A buffer deeper in the stack than the handler's frame is of a function that the handler
	 * has called.
	 */
	const char low = 0;
	bool leaves = false;
	while (self->frames &&
	       !((uintptr_t)env > (uintptr_t)&low && (uintptr_t)env < (uintptr_t)self->frames)) {
		if (self->frames->deferred) {
			self->level--;
			tek_ut__here_undefer();
		}
		self->frames = self->frames->previous;
		leaves = true;
	}
	uint64_t mask = env->__mask_was_saved ? tek_ut__signals_of(&env->__saved_mask)
					      : tek_ut__here_self()->mask;
	if (!leaves && mask == tek_ut__here_self()->mask)
		return;
	tek_ut__signal_mask_jump(mask, !self->frames);
}
