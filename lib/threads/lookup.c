/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/lookup.h"

#include "threads/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tek_thread *tek__lookup(struct tek_target target)
{
	return target.by_tid ? tek__thread_find_tid(target.tid) : tek__thread_find(target.handle);
}

struct tek_thread *tek__lookup_known(struct tek_target target)
{
	if (!target.by_tid)
		return tek__thread_known(target.handle);
	return tek__thread_known_tid(target.tid ? target.tid : tek__gettid());
}

int tek__lookup_error(struct tek_target target)
{
	int saved = errno, error = ESRCH;

	if (!target.by_tid)
		return pthread_equal(target.handle, pthread_self()) ? EAGAIN : ESRCH;
	if (target.tid < 0)
		return EINVAL;
	if (target.tid == 0)
		error = EAGAIN;
	else if (syscall(SYS_tgkill, tek__pid(), target.tid, 0) == 0)
		error = tek__thread_is_ending(target.tid) ? ESRCH : EAGAIN;
	else if (kill(target.tid, 0) == 0 || errno == EPERM)
		error = EPERM; /* only tekd could move it */
	errno = saved;
	return error;
}
