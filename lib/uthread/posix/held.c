/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/held.h"

#include "base/next.h"
#include "uthread/engine.h"
#include "uthread/interrupted.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/signal.h"
#include "uthread/tick.h"
#include "uthread/tls_glibc.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library's description of a field for libthread_db: _thread_db_*. */
struct description {
	uint32_t bits, count, offset;
};

static enum tek_held_by by;

static size_t note_lies_at;
static unsigned int note; /* its bit; 0: not known */

static uintptr_t call_at; /* the instruction */

static unsigned int *note_of(uintptr_t pointer)
{
	return (unsigned int *)(void *)(tek_ut__tls_structure(pointer) + note_lies_at);
}

static unsigned int read_note(uintptr_t pointer)
{
	return __atomic_load_n(note_of(pointer), __ATOMIC_RELAXED);
}

static void find_note(void)
{
	const struct description *field = dlsym(RTLD_NEXT, "_thread_db_pthread_cancelhandling");
	const uintptr_t self = tek_ut__tls_pointer();
	int old;

	if (!field || field->bits != 32 || !self)
		return;
	note_lies_at = field->offset;
	/* The same as for a program that requests to be cancelled anywhere. */
	const unsigned int before = read_note(self);
	if (TEK_REAL(pthread_setcanceltype)(PTHREAD_CANCEL_ASYNCHRONOUS, &old) != 0)
		return;
	const unsigned int during = read_note(self);
	TEK_REAL(pthread_setcanceltype)(old, NULL);
	const unsigned int changed = before ^ during;
	if (changed && !(changed & (changed - 1)) && (during & changed) &&
	    read_note(self) == before)
		note = changed;
}

/* The state that a tick finds when it interrupts a call of the C library. */
static struct {
	uintptr_t pointer;          /* of the thread that makes the call */
	tek_tick_handler *previous; /* for ticks of other kernel threads */
	bool sent;                  /* false: the kernel refused the tick, RLIMIT_SIGPENDING */
	volatile bool interrupted, noted;
	volatile uintptr_t at; /* see tek_ut__interrupted_call(); 0: not in a system call */
} trial;

static void on_trial(siginfo_t *info, void *context)
{
	if (tek_ut__tls_pointer() != trial.pointer) {
		trial.previous(info, context);
		return;
	}
	trial.interrupted = true;
	trial.noted = note && (read_note(trial.pointer) & note);
	trial.at = tek_ut__interrupted_call(context);
}

/* Makes a call that ends at once, by a tick that is pending already. */
static bool be_interrupted(int (*call)(const sigset_t *mask))
{
	const uint64_t tick = TEK_TICK_BIT;
	sigset_t mask;

	trial.interrupted = false;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &tick, NULL, sizeof(tick));
	sigemptyset(&mask);
	/* Not by sigdelset(3), which refuses a signal of the C library's. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(tick));
	tek_ut__signals_to(&mask, tek_ut__signals_of(&mask) & ~tick);
	trial.sent = tek_ut__tick_send((pid_t)syscall(SYS_gettid));
	if (trial.sent)
		call(&mask);
	tek_ut__tick_unblock();
	return trial.interrupted;
}

static int call_sigsuspend(const sigset_t *mask)
{
	return TEK_REAL(sigsuspend)(mask);
}

static int call_ppoll(const sigset_t *mask)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	return TEK_REAL(ppoll)(NULL, 0, &moment, mask);
}

static enum tek_held_by try_calls(void)
{
	if (!be_interrupted(call_sigsuspend))
		return TEK_HELD_BY_NOTHING;
	const bool noted = trial.noted;
	call_at = trial.at;
	if (!be_interrupted(call_ppoll))
		return TEK_HELD_BY_NOTHING;
	if (noted && trial.noted)
		return TEK_HELD_BY_NOTE;
	return call_at && trial.at == call_at ? TEK_HELD_BY_ADDRESS : TEK_HELD_BY_NOTHING;
}

void tek_ut__held_start(void)
{
	const int error = errno;

	find_note();
	trial.pointer = tek_ut__tls_pointer();
	/* Known before on_trial() is: other kernel threads may get a tick at once. */
	trial.previous = tek_ut__tick_handler();
	if (trial.previous) {
		tek_ut__tick_set_handler(on_trial);
		by = try_calls();
		tek_ut__tick_set_handler(trial.previous);
	}
	errno = error;
	/* The kernel refused the tick, which preempt.c reports: only the note is known. */
	if (by == TEK_HELD_BY_NOTHING && trial.previous && !trial.sent)
		by = note ? TEK_HELD_BY_NOTE : TEK_HELD_BY_NOTHING;
	else if (by == TEK_HELD_BY_NOTHING)
		tek_ut__engine_complain(
			"", 0,
			"this C library does not show where threads wait in it: they "
			"cannot be cancelled there");
}

enum tek_held_by tek_ut__held_by(void)
{
	return by;
}

bool tek_ut__held_may_end(const struct tek_uthread *thread)
{
	return by == TEK_HELD_BY_ADDRESS ||
	       (by == TEK_HELD_BY_NOTE && thread->tls && (read_note(thread->tls) & note));
}

/*
 * Whether the C library allows cancelling the thread now, where a signal has interrupted it.
 */
static bool can_end(const struct tek_uthread *thread, const ucontext_t *context)
{
	return tek_ut__held_may_end(thread) &&
	       (by != TEK_HELD_BY_ADDRESS || tek_ut__interrupted_call(context) == call_at);
}

void tek_ut__held(struct tek_uthread *thread, ucontext_t *context)
{
	struct tek_posix *self = thread->posix;

	if (!self || !(tek_ut__posix_flags(self) & (TEK_POSIX_SIGNALLED | TEK_POSIX_CANCELLED)))
		return;
	/* If so it returns to its wait without its worker, which it has while handlers run. */
	const bool aside = self->aside && !tek_ut__here_entry();
	if (tek_ut__cancel_is_due() && can_end(thread, context)) {
		/* It is not in that call any more; nor is the next thread with this storage. */
		if (by == TEK_HELD_BY_NOTE)
			__atomic_fetch_and(note_of(thread->tls), ~note, __ATOMIC_RELAXED);
		self->aside = false;
		tek_ut__tick_unblock();
		tek_ut__posix_exit(PTHREAD_CANCELED);
	}
	/* It may hold locks there until the handlers have run: they do not yield. */
	const unsigned long failing = self->failing;
	tek_ut__here_defer();
	self->level++;
	tek_ut__tick_unblock(); /* a handler may wait, or never return */
	tek_ut__posix_resume(thread, false);
	self->level--;
	tek_ut__here_undefer();
	if (aside) {
		tek_ut__aside_begin();
		if (self->failing != failing)
			tek_ut__interrupted_fail(context);
	}
}
