/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/sandbox.h"

#include "base/export.h"
#include "base/filter.h"
#include "base/real.h"
#include "base/self.h"
#include "base/user_memory.h"
#include "life/confine.h"
#include "life/start.h"
#include "mediate/guard.h"
#include "place/config.h"
#include "threads/process.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Libraries of ours, where they are: from now on they make no calls that the C library does not
 * make in their place.
 */
#pragma weak tek_alloc_is_confined
#pragma weak tek_sync_is_confined
void tek_alloc_is_confined(void);
void tek_sync_is_confined(void);

#define CALL(call, ...) \
	{ \
		.name = #call, .number = SYS_##call, .arguments = { __VA_ARGS__ } \
	}
/* Of another thread. */
#define TID 3

/*
 * The work of TEK's library in the middle of a program: stacks are measured, policies are set,
 * files of /proc read.
 */
static const char *killed_call(const struct sock_fprog *filter)
{
	const uint64_t here = (uint64_t)(int64_t)AT_FDCWD, pid = (uint64_t)tek__pid();
	const struct tek_filtered_call calls[] = {
		CALL(openat, here, 0, O_RDONLY | O_CLOEXEC),
		CALL(openat, here, 0, O_WRONLY | O_APPEND | O_CLOEXEC),
		CALL(openat, here, 0, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644),
		CALL(read, TID),
		CALL(pread64, TID),
		CALL(preadv, TID),
		CALL(write, TID),
		CALL(close, TID),
		CALL(mincore, 0),
		CALL(process_vm_readv, pid),
		CALL(madvise, 0),
#ifdef SYS_mmap2
		CALL(mmap2, 0),
#else
		CALL(mmap, 0),
#endif
		CALL(mprotect, 0),
		CALL(munmap, 0),
		CALL(futex, 0),
		CALL(getpid, 0),
		CALL(tgkill, pid, TID, 0),
		CALL(prctl, PR_GET_NAME),
		CALL(prctl, PR_SET_NAME),
		CALL(rt_sigprocmask, 0),
		CALL(rt_sigpending, 0),
		CALL(rt_sigtimedwait, 0),
		CALL(rt_sigaction, SIGSEGV),
		CALL(sigaltstack, 0),
		CALL(ppoll, 0),
		CALL(clock_gettime, CLOCK_THREAD_CPUTIME_ID),
		CALL(sched_getattr, 0),
		CALL(sched_getattr, TID),
		CALL(sched_setattr, 0),
		CALL(sched_setattr, TID),
		CALL(sched_setscheduler, 0, SCHED_RR),
		CALL(sched_setscheduler, TID, SCHED_RR),
		CALL(sched_getaffinity, 0),
		CALL(sched_setaffinity, TID),
		CALL(getpriority, 0),
		CALL(setpriority, 0),
		CALL(socket, 1),
		CALL(connect, TID),
		CALL(sendmsg, TID),
		CALL(recvmsg, TID),
	};
	const struct tek_filtered_call *killed = tek__filter_kills(
		filter, calls, sizeof(calls) / sizeof(calls[0]));

	return killed ? killed->name : NULL;
}

/* Of the timers that a process with one thread has in the place of the guard. */
static const char *killed_timer_call(const struct sock_fprog *filter)
{
	const struct tek_filtered_call calls[] = {
		CALL(timer_settime, TID),
		CALL(timer_delete, TID),
	};
	const struct tek_filtered_call *killed = tek__filter_kills(
		filter, calls, sizeof(calls) / sizeof(calls[0]));

	return killed ? killed->name : NULL;
}

static bool refuses_to_place(const struct sock_fprog *filter)
{
	const struct tek_filtered_call calls[] = {
		CALL(sched_setaffinity, 0),
		CALL(sched_setaffinity, TID),
	};
	return tek__filter_refuses(filter, calls, sizeof(calls) / sizeof(calls[0]));
}

/* The kernel refuses it for what it is or where it lies: there is nothing to run. */
static bool is_refused(const struct sock_fprog *filter)
{
	struct sock_fprog copy;

	return !tek__user_copy(&copy, filter, sizeof(copy)) || !copy.filter || !copy.len ||
	       copy.len > BPF_MAXINSNS ||
	       !tek__user_can_read(copy.filter, copy.len * sizeof(*copy.filter));
}

void tek__sandbox_comes(const struct sock_fprog *filter)
{
	/* In a child of vfork(2) what stands down would be its parent's. */
	if (tek__is_confined() || tek__self_is_borrower())
		return;
	if (filter && is_refused(filter))
		return;
	const char *call = filter ? killed_call(filter) : "openat";
	if (!call && tek__guard_is_lone())
		call = killed_timer_call(filter);
	if (!call && tek__place_is_on() && refuses_to_place(filter))
		tek__confine_places();
	if (!call)
		return;
	if (tek_alloc_is_confined)
		tek_alloc_is_confined();
	if (tek_sync_is_confined)
		tek_sync_is_confined();
	tek__confine(call);
}

#ifdef syscall /* our own calls have another name: lib/base/meson.build */

__attribute__((cold, noinline)) static void begin_or_confine(long number, long operation,
							     const struct sock_fprog *filter)
{
	if (!tek__start() || number != SYS_seccomp)
		return;
	if (operation == SECCOMP_SET_MODE_STRICT)
		tek__sandbox_comes(NULL);
	else if (operation == SECCOMP_SET_MODE_FILTER && filter)
		tek__sandbox_comes(filter);
}

/*
 * syscall(2).  With optimisation the last call is a jump, so a child that has its parent's stack,
 * as that of syscall(SYS_vfork), returns to the program and not into a frame that is there no more.
 */
TEK_EXPORT long tek__syscall(long number, long a, long b, long c, long d, long e,
			     long f) __asm__("syscall");

TEK_EXPORT long tek__syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (__builtin_expect(number == SYS_seccomp || !tek__real.syscall, 0))
		begin_or_confine(number, a, (const struct sock_fprog *)c);
	return tek__real.syscall(number, a, b, c, d, e, f);
}

#endif
