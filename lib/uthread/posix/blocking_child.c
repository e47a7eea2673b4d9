/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wait(2) and its kin. The thread waits in the kernel for a child, while its worker goes to another
 * kernel thread (aside.h). A descriptor of the child (pidfd_open(2)) would only report its end. But
 * a traced child is also reported when it stops, whatever the options are (ptrace(2)), and it may
 * have begun that by itself.
 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <fcntl.h>

/* Fails with EAGAIN if wait4() would wait. */
static pid_t try_wait4(pid_t child, int *status, int options, struct rusage *usage)
{
	tek_ut__cancel_point();
	pid_t found = TEK_REAL(wait4)(child, status, options | WNOHANG, usage);
	return found == 0 && !(options & WNOHANG) ? tek_ut__fail(EAGAIN) : found;
}

pid_t tek_ut__wait4(pid_t child, int *status, int options, struct rusage *usage)
{
	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		pid_t found = TEK_ASIDE_IF_IT_WOULD_WAIT(
			try_wait4(child, status, options, usage), tek_ut__errno() == EAGAIN,
			TEK_REAL(wait4)(child, status, options, usage), TEK_FOR_EVER, true);
		if (found >= 0 || !tek_ut__failed_by_engine(&handlers))
			return found;
	}
}

/* For a non-blocking descriptor (pidfd_open(2), PIDFD_NONBLOCK) the kernel returns EAGAIN, too. */
static bool never_waits(idtype_t type, id_t id, int options)
{
	return options & WNOHANG || (type == P_PIDFD && fcntl((int)id, F_GETFL) & O_NONBLOCK);
}

/* The same as try_wait4(). */
static int try_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	tek_ut__cancel_point();
	info->si_pid = 0; /* only this shows "there is nothing" */
	int result = TEK_REAL(waitid)(type, id, info, options | WNOHANG);
	return result == 0 && info->si_pid == 0 ? tek_ut__fail(EAGAIN) : result;
}

int tek_ut__waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own;

	if (never_waits(type, id, options)) {
		tek_ut__cancel_point();
		return TEK_REAL(waitid)(type, id, info, options);
	}
	if (!info)
		info = &own;
	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		int result = TEK_ASIDE_IF_IT_WOULD_WAIT(
			try_waitid(type, id, info, options), tek_ut__errno() == EAGAIN,
			TEK_REAL(waitid)(type, id, info, options), TEK_FOR_EVER, true);
		if (result == 0 || !tek_ut__failed_by_engine(&handlers))
			return result;
	}
}
