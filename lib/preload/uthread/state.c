/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of system calls that change or read the state of the calling thread:
 * uthread/posix/state.h.
 */
#include "uthread/posix/state.h"

#include "base/export.h"
#include "base/next.h"
#include "base/user_memory.h"
#include "uthread/bound.h"
#include "uthread/posix/blocked.h"
#include "uthread/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#undef clock_gettime /* uthread/system_call.c */
int clock_gettime(clockid_t clock, struct timespec *time);

/*
 * The C library's function, with arguments that may name call_.argument[], around which the state
 * is seen to.
 */
#define WITH_STATE(function, system_call, a, b, c, arguments) \
	({ \
		struct tek_state_call call_ = { \
			.number = (system_call), \
			.argument = {(unsigned long)(a), (unsigned long)(b), (unsigned long)(c)}}; \
		__typeof__(function arguments) result_ = -1; \
		if (tek_ut__state_begin(&call_)) { \
			result_ = TEK_REAL(function) arguments; \
			tek_ut__state_end(&call_); \
		} \
		result_; \
	})

/* Its own thread id has become 0. */
#define TID(number) ((pid_t)call_.argument[number])

TEK_EXPORT int setfsuid(uid_t id)
{
	return WITH_STATE(setfsuid, SYS_setfsuid, id, 0, 0, (id));
}

TEK_EXPORT int setfsgid(gid_t id)
{
	return WITH_STATE(setfsgid, SYS_setfsgid, id, 0, 0, (id));
}

int capset(void *header, const void *data);
TEK_EXPORT int capset(void *header, const void *data)
{
	return WITH_STATE(capset, SYS_capset, header, data, 0, (header, data));
}

TEK_EXPORT int unshare(int flags)
{
	return WITH_STATE(unshare, SYS_unshare, flags, 0, 0, (flags));
}

TEK_EXPORT int setns(int file, int type)
{
	return WITH_STATE(setns, SYS_setns, file, type, 0, (file, type));
}

TEK_EXPORT int personality(unsigned long persona)
{
	return WITH_STATE(personality, SYS_personality, persona, 0, 0, (persona));
}

TEK_EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
	return WITH_STATE(sigaltstack, SYS_sigaltstack, stack, old, 0, (stack, old));
}

TEK_EXPORT int sched_setscheduler(pid_t tid, int policy, const struct sched_param *param)
{
	return WITH_STATE(sched_setscheduler, SYS_sched_setscheduler, tid, policy, param,
			  (TID(0), policy, param));
}

int __sched_setscheduler(pid_t tid, int policy, const struct sched_param *param);
TEK_EXPORT int __sched_setscheduler(pid_t tid, int policy, const struct sched_param *param)
{
	return sched_setscheduler(tid, policy, param);
}

TEK_EXPORT int sched_setparam(pid_t tid, const struct sched_param *param)
{
	return WITH_STATE(sched_setparam, SYS_sched_setparam, tid, param, 0, (TID(0), param));
}

/* In glibc since 2.41; a program that finds ours before that gets the system call. */
struct sched_attr;
int sched_setattr(pid_t tid, struct sched_attr *attr, unsigned int flags);
TEK_EXPORT int sched_setattr(pid_t tid, struct sched_attr *attr, unsigned int flags)
{
	struct tek_state_call call = {
		.number = SYS_sched_setattr,
		.argument = {(unsigned long)tid, (unsigned long)attr, flags},
	};

	if (!tek_ut__state_begin(&call))
		return -1;
	const int result = (int)syscall(SYS_sched_setattr, (pid_t)call.argument[0], attr, flags);
	tek_ut__state_end(&call);
	return result;
}

TEK_EXPORT int setpriority(__priority_which_t which, id_t who, int value)
{
	return WITH_STATE(setpriority, SYS_setpriority, which, who, value,
			  (which, (id_t)call_.argument[1], value));
}

TEK_EXPORT int nice(int more)
{
	return WITH_STATE(nice, SYS_setpriority, PRIO_PROCESS, 0, more, (more));
}

#if defined(__x86_64__)
int arch_prctl(int option, unsigned long address);
TEK_EXPORT int arch_prctl(int option, unsigned long address)
{
	return WITH_STATE(arch_prctl, SYS_arch_prctl, option, address, 0, (option, address));
}

int ioperm(unsigned long from, unsigned long count, int on);
TEK_EXPORT int ioperm(unsigned long from, unsigned long count, int on)
{
	return WITH_STATE(ioperm, SYS_ioperm, from, count, on, (from, count, on));
}

int iopl(int level);
TEK_EXPORT int iopl(int level)
{
	return WITH_STATE(iopl, SYS_iopl, level, 0, 0, (level));
}
#endif

TEK_EXPORT int pkey_alloc(unsigned int flags, unsigned int rights)
{
	return WITH_STATE(pkey_alloc, SYS_pkey_alloc, flags, rights, 0, (flags, rights));
}

/* No system call: it writes the register that pkey_alloc(2) writes. */
TEK_EXPORT int pkey_set(int key, unsigned int rights)
{
	return WITH_STATE(pkey_set, SYS_pkey_alloc, 0, rights, 0, (key, rights));
}

/*
 * Requests that read words have another form in the C library, which looks at the same four words.
 */
TEK_EXPORT long ptrace(enum __ptrace_request request, ...)
{
	va_list list;

	va_start(list, request);
	const pid_t pid = va_arg(list, pid_t);
	void *address = va_arg(list, void *), *data = va_arg(list, void *);
	va_end(list);
	return WITH_STATE(ptrace, SYS_ptrace, request, pid, 0, (request, pid, address, data));
}

TEK_EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (__builtin_expect(clock != CLOCK_THREAD_CPUTIME_ID, 1))
		return TEK_REAL(clock_gettime)(clock, time);
	return WITH_STATE(clock_gettime, SYS_clock_gettime, clock, time, 0, (clock, time));
}

TEK_EXPORT int getrusage(__rusage_who_t who, struct rusage *usage)
{
	return WITH_STATE(getrusage, SYS_getrusage, who, usage, 0, (who, usage));
}

/* A signal to the caller's own thread id, or its clock. */
TEK_EXPORT int timer_create(clockid_t clock, struct sigevent *restrict event,
			    timer_t *restrict timer)
{
	struct tek_state_call call = {
		.number = SYS_timer_create,
		.argument = {(unsigned long)clock, (unsigned long)event},
	};
	struct sigevent own;

	if (!tek_ut__state_begin_timer(&call, &own))
		return -1;
	const int result = TEK_REAL(timer_create)(clock, (struct sigevent *)call.argument[1],
						  timer);
	tek_ut__state_end(&call);
	return result;
}

/* As the kernel does: up to its end, behind which nothing need be readable.  0 or EFAULT. */
static int copy_name(char copy[16], const char *name)
{
	if (tek__user_copy(copy, name, 15))
		return 0;
	memset(copy, 0, 16);
	for (int i = 0; i < 15; i++) {
		if (!tek__user_copy(&copy[i], &name[i], 1))
			return EFAULT;
		if (!copy[i])
			break;
	}
	return 0;
}

/* A thread's name is the engine's business: name.c. */
static int name_of_caller(int option, char *name)
{
	char copy[16] = "";
	int error;

	if (option == PR_GET_NAME) {
		error = tek__user_can_read(name, sizeof(copy))
				? pthread_getname_np(pthread_self(), name, sizeof(copy))
				: EFAULT;
	} else {
		error = copy_name(copy, name);
		if (!error)
			error = pthread_setname_np(pthread_self(), copy);
	}
	return error ? (int)tek_ut__fail(error) : 0;
}

TEK_EXPORT int prctl(int option, ...)
{
	struct tek_state_call call = {.number = SYS_prctl, .argument = {(unsigned long)option}};
	va_list list;

	/* As the C library does: the kernel takes four words, used or not. */
	va_start(list, option);
	for (int i = 1; i < 5; i++)
		call.argument[i] = va_arg(list, unsigned long);
	va_end(list);
	if ((option == PR_SET_NAME || option == PR_GET_NAME) && tek_ut__is_uthread() &&
	    tek_ut__bound_is_own_carrier())
		return name_of_caller(option, (char *)(uintptr_t)call.argument[1]);
	if (!tek_ut__state_begin(&call))
		return -1;
	const int result = TEK_REAL(prctl)(option, call.argument[1], call.argument[2],
					   call.argument[3], call.argument[4]);
	tek_ut__state_end(&call);
	return result;
}
