/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel says of a thread: its id, and whether it is still there. */
#include "threads/thread.h"

#include "base/clock.h"
#include "base/page.h"
#include "base/procfs.h"
#include "threads/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The C library has no call for it but puts it into the clock id.  A pthread_t that was joined
 * is the address of freed memory: ask the kernel before the C library looks.
 */
pid_t tek__thread_tid_of(pthread_t handle)
{
	clockid_t clock;
	void *start = (void *)((uintptr_t)handle & ~((uintptr_t)tek__page_bytes - 1));

	/* With MS_ASYNC it does no more than to look whether something is mapped there. */
	if (msync(start, tek__page_bytes, MS_ASYNC) || pthread_getcpuclockid(handle, &clock))
		return 0;
	pid_t tid = tek__tid_of_cpu_clock(clock);
	return tid > 0 && syscall(SYS_tgkill, tek__pid(), tid, 0) == 0 ? tid : 0;
}

bool tek__thread_exists(const struct tek_thread *thread)
{
	/* A sandbox may refuse the call; then it is not known to be gone. */
	return syscall(SYS_tgkill, tek__pid(), thread->tid, 0) == 0 || errno != ESRCH;
}

bool tek__thread_is_ending(pid_t tid)
{
	bool ending;

	if (tek__procfs_is_ending(tid, &ending))
		return ending;
	return syscall(SYS_tgkill, tek__pid(), tid, 0) != 0 && errno == ESRCH;
}
