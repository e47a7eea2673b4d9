/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of signals: actions, masks, sending, and waiting for them; and jumps out of handlers.
 */
#include "uthread/posix/signal.h"
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/action.h"
#include "uthread/posix/record.h"
#include "uthread/reserved.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

static int fail(int error)
{
	errno = error;
	return -1;
}

TEK_EXPORT int sigaction(int number, const struct sigaction *restrict action,
			 struct sigaction *restrict old)
{
	return tek_ut__action_set(number, action, old);
}

static sighandler_t set(int number, sighandler_t handler, int flags, bool masks)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&action.sa_mask);
	if (masks && number > 0 && number <= TEK_SIGNALS)
		sigaddset(&action.sa_mask, number);
	return tek_ut__action_set(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

TEK_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	return set(number, handler, tek_ut__action_interrupts(number) ? 0 : SA_RESTART, true);
}

/* Other names for it, and what it was in other systems. */
sighandler_t bsd_signal(int number, sighandler_t handler);
sighandler_t __sysv_signal(int number, sighandler_t handler);

TEK_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler)
{
	return signal(number, handler);
}

TEK_EXPORT sighandler_t ssignal(int number, sighandler_t handler)
{
	return signal(number, handler);
}

/* The signal() of programs that are compiled for a standard only. */
TEK_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler)
{
	return set(number, handler, (int)SA_RESETHAND | SA_NODEFER, false);
}

TEK_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler)
{
	return __sysv_signal(number, handler);
}

TEK_EXPORT sighandler_t sigset(int number, sighandler_t handler)
{
	sigset_t one, before;

	if (handler == SIG_ERR || number < 1 || number > TEK_SIGNALS) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&one);
	sigaddset(&one, number);
	struct sigaction old;
	if (handler == SIG_HOLD) {
		if (tek_ut__action_set(number, NULL, &old) != 0)
			return SIG_ERR;
		sigprocmask(SIG_BLOCK, &one, &before);
		return sigismember(&before, number) ? SIG_HOLD : old.sa_handler;
	}
	sighandler_t was = set(number, handler, 0, false);
	if (was == SIG_ERR)
		return was;
	sigprocmask(SIG_UNBLOCK, &one, &before);
	return sigismember(&before, number) ? SIG_HOLD : was;
}

static int hold(int how, int number)
{
	sigset_t one;

	sigemptyset(&one);
	return sigaddset(&one, number) == 0 ? sigprocmask(how, &one, NULL) : -1;
}

TEK_EXPORT int sighold(int number)
{
	return hold(SIG_BLOCK, number);
}

TEK_EXPORT int sigrelse(int number)
{
	return hold(SIG_UNBLOCK, number);
}

TEK_EXPORT int siginterrupt(int number, int interrupts)
{
	struct sigaction action;

	if (tek_ut__action_set(number, NULL, &action) != 0)
		return -1;
	tek_ut__action_interrupt(number, interrupts);
	action.sa_flags = interrupts ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
	return tek_ut__action_set(number, &action, NULL);
}

TEK_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(pthread_sigmask)(how, set, old);
	return tek_ut__signal_mask(how, set, old);
}

TEK_EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(sigprocmask)(how, set, old);
	int error = tek_ut__signal_mask(how, set, old);
	return error ? fail(error) : 0;
}

/* As in 4.3BSD, with the first signals in an int; dash(1) and other programs still use that. */
static int change_old_mask(int how, int mask)
{
	sigset_t set, before;

	tek_ut__signals_to(&set, (unsigned int)mask);
	return sigprocmask(how, &set, &before) == 0 ? (int)tek_ut__signals_of(&before) : -1;
}

TEK_EXPORT int sigblock(int mask)
{
	return change_old_mask(SIG_BLOCK, mask);
}

TEK_EXPORT int sigsetmask(int mask)
{
	return change_old_mask(SIG_SETMASK, mask);
}

TEK_EXPORT int siggetmask(void)
{
	return change_old_mask(SIG_BLOCK, 0);
}

/* A number that can be sent: the tick's and the C library's own cannot. */
static bool can_send(int number)
{
	return number >= 0 && number <= TEK_SIGNALS &&
	       (number == 0 || !(tek_ut__signal_bit(number) & tek_ut__own_signals()));
}

static int send(struct tek_posix *posix, int number, const union sigval *value)
{
	if (!can_send(number))
		return EINVAL;
	if (number == 0 || (tek_ut__posix_flags(posix) & TEK_POSIX_ENDED))
		return 0;
	const siginfo_t info = tek_ut__signal_info(number, value);
	/* These are always for the process as a whole, and no thread could take them. */
	if (number == SIGKILL || number == SIGSTOP)
		return kill(info.si_pid, number) ? errno : 0;
	int error = tek_ut__signal_send(posix, &info);
	return error == ESRCH ? 0 : error;
}

TEK_EXPORT int pthread_kill(pthread_t handle, int number)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return send(posix, number, NULL);
	case TEK_POSIX_GONE:
		return can_send(number) ? ESRCH : EINVAL;
	default:
		return TEK_REAL(pthread_kill)(handle, number);
	}
}

TEK_EXPORT int pthread_sigqueue(pthread_t handle, int number, const union sigval value)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return send(posix, number, &value);
	case TEK_POSIX_GONE:
		return can_send(number) ? ESRCH : EINVAL;
	default:
		return TEK_REAL(pthread_sigqueue)(handle, number, value);
	}
}

TEK_EXPORT int raise(int number)
{
	struct tek_posix *self = tek_ut__posix_self();

	if (!self)
		return TEK_REAL(raise)(number);
	int error = send(self, number, NULL);
	return error ? fail(error) : 0;
}

TEK_EXPORT int sigpending(sigset_t *set)
{
	int result = TEK_REAL(sigpending)(set);

	if (result == 0 && tek_ut__posix_self())
		tek_ut__signals_to(set, (tek_ut__signals_of(set) & ~tek_ut__own_signals()) |
						tek_ut__signals_pending());
	return result;
}

TEK_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
			    const struct timespec *restrict timeout)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(sigtimedwait)(set, info, timeout);
	return tek_ut__signal_wait(set, info, timeout);
}

TEK_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	return sigtimedwait(set, info, NULL);
}

TEK_EXPORT int sigwait(const sigset_t *restrict set, int *restrict number)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(sigwait)(set, number);
	int got;
	/* It does not fail because a handler has run: it goes on waiting. */
	while ((got = tek_ut__signal_wait(set, NULL, NULL)) < 0) {
		if (errno != EINTR)
			return errno;
	}
	*number = got;
	return 0;
}

TEK_EXPORT void longjmp(struct __jmp_buf_tag env[1], int value)
{
	tek_ut__action_leave(env);
	TEK_REAL(longjmp)(env, value);
	__builtin_unreachable();
}

TEK_EXPORT void _longjmp(struct __jmp_buf_tag env[1], int value)
{
	tek_ut__action_leave(env);
	TEK_REAL(_longjmp)(env, value);
	__builtin_unreachable();
}

TEK_EXPORT void siglongjmp(sigjmp_buf env, int value)
{
	tek_ut__action_leave(env);
	TEK_REAL(siglongjmp)(env, value);
	__builtin_unreachable();
}

/* Their names where _FORTIFY_SOURCE is set. */
_Noreturn void __longjmp_chk(struct __jmp_buf_tag env[1], int value);
TEK_EXPORT void __longjmp_chk(struct __jmp_buf_tag env[1], int value)
{
	tek_ut__action_leave(env);
	TEK_REAL(__longjmp_chk)(env, value);
	__builtin_unreachable();
}
