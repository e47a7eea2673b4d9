/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wait(2) and its kin.  For one child there is a descriptor that says when it has ended (pidfd_open(2)).  For any
 * child, and for one that stops or goes on, there is none: then the call itself waits, and its worker goes to
 * another kernel thread (aside.h).
 */
#include "uthread/posix/blocking.h"

#include "preload/uthread/real.h"
#include "uthread/events.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* the same everywhere, since Linux 5.3 */
#endif

/* waitid(2) for a descriptor, since Linux 5.4. */
#define BY_DESCRIPTOR 3

/*
 * Until that child has ended, or a handler has run.  0: look again; EINTR; or TEK_CALL_ITSELF.  The descriptor
 * of ours is closed before cancellation acts.
 */
static int wait_for_descriptor(int descriptor, bool ours)
{
	const struct tek_handlers handlers = tek__handlers_from_here(true);
	int result = tek__events_wait(descriptor, POLLIN, NULL);

	if (ours) {
		tek__events_closing(descriptor);
		TEK_REAL(close)(descriptor);
	}
	if (result == -EINTR)
		return tek__blocked_interrupted(&handlers);
	return result == 0 ? 0 : TEK_CALL_ITSELF;
}

static int wait_for_child(pid_t child)
{
	int descriptor = (int)syscall(SYS_pidfd_open, child, 0);
	return descriptor < 0 ? TEK_CALL_ITSELF : wait_for_descriptor(descriptor, true);
}

/* Of threads other than the caller's it may be a child, too: that is the kernel's affair. */
static bool is_plain(int options, int known)
{
	return (options & ~known) == 0;
}

pid_t tek__wait4(pid_t child, int *status, int options, struct rusage *usage)
{
	bool one = child > 0 && is_plain(options, 0);

	tek__cancel_point();
	while (one) {
		pid_t found = TEK_REAL(wait4)(child, status, WNOHANG, usage);
		if (found != 0)
			return found;
		int error = wait_for_child(child);
		if (error == TEK_CALL_ITSELF)
			break;
		if (error != 0)
			return tek__fail(error);
	}
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		if (!(options & WNOHANG))
			tek__aside_begin();
		pid_t found = TEK_REAL(wait4)(child, status, options, usage);
		if (!(options & WNOHANG))
			tek__aside_end();
		if (found >= 0 || !tek__failed_by_engine(&handlers))
			return found;
	}
}

int tek__waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	bool one = (type == P_PID || (int)type == BY_DESCRIPTOR) && options & WEXITED &&
		   is_plain(options, WEXITED | WNOWAIT);
	siginfo_t own;

	tek__cancel_point();
	if (!info) /* "there is nothing" is said in it alone */
		info = &own;
	while (one) {
		info->si_pid = 0;
		int result = TEK_REAL(waitid)(type, id, info, options | WNOHANG);
		if (result != 0 || info->si_pid != 0)
			return result;
		int error = type == P_PID ? wait_for_child((pid_t)id)
					  : wait_for_descriptor((int)id, false);
		if (error == TEK_CALL_ITSELF)
			break;
		if (error != 0)
			return tek__fail(error);
	}
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		if (!(options & WNOHANG))
			tek__aside_begin();
		int result = TEK_REAL(waitid)(type, id, info, options);
		if (!(options & WNOHANG))
			tek__aside_end();
		if (result == 0 || !tek__failed_by_engine(&handlers))
			return result;
	}
}
