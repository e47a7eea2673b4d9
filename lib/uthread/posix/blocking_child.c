/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wait(2) and its kin.  What has not come yet is waited for in the kernel, while the worker goes to another kernel
 * thread (aside.h).  A descriptor of the child (pidfd_open(2)) would only say when it has ended, and one that is
 * traced is waited for when it stops, too, whatever the options say (ptrace(2)): it may have begun that by itself.
 */
#include "uthread/posix/blocking.h"

#include "preload/uthread/real.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

pid_t tek__wait4(pid_t child, int *status, int options, struct rusage *usage)
{
	tek__cancel_point();
	pid_t found = TEK_REAL(wait4)(child, status, options | WNOHANG, usage);
	if (found != 0 || options & WNOHANG)
		return found;
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		found = TEK_ASIDE(TEK_REAL(wait4)(child, status, options, usage));
		if (found >= 0 || !tek__failed_by_engine(&handlers))
			return found;
	}
}

int tek__waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own;

	tek__cancel_point();
	if (options & WNOHANG)
		return TEK_REAL(waitid)(type, id, info, options);
	if (!info) /* "there is nothing" is said in it alone */
		info = &own;
	info->si_pid = 0;
	int result = TEK_REAL(waitid)(type, id, info, options | WNOHANG);
	if (result != 0 || info->si_pid != 0)
		return result;
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		result = TEK_ASIDE(TEK_REAL(waitid)(type, id, info, options));
		if (result == 0 || !tek__failed_by_engine(&handlers))
			return result;
	}
}
