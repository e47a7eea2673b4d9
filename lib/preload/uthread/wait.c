/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols that wait for a child; see file.c. */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocking.h"
#include "uthread/worker.h"

#include <sys/resource.h>
#include <sys/wait.h>

TEK_EXPORT pid_t wait4(pid_t child, int *status, int options, struct rusage *usage)
{
	return tek_ut__is_uthread() ? tek_ut__wait4(child, status, options, usage)
				    : TEK_REAL(wait4)(child, status, options, usage);
}

TEK_EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

TEK_EXPORT pid_t waitpid(pid_t child, int *status, int options)
{
	return wait4(child, status, options, NULL);
}

pid_t __waitpid(pid_t child, int *status, int options);
TEK_EXPORT pid_t __waitpid(pid_t child, int *status, int options)
{
	return wait4(child, status, options, NULL);
}

TEK_EXPORT pid_t wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

pid_t __wait(int *status);
TEK_EXPORT pid_t __wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

TEK_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	return tek_ut__is_uthread() ? tek_ut__waitid(type, id, info, options)
				    : TEK_REAL(waitid)(type, id, info, options);
}
