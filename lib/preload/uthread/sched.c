/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of threads' policies, priorities, CPUs and clocks. */
#include "uthread/posix/sched.h"

#include "base/export.h"
#include "base/next.h"
#include "uthread/affinity.h"
#include "uthread/posix/state.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

TEK_EXPORT int pthread_setschedparam(pthread_t handle, int policy, const struct sched_param *param)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__sched_set(posix, policy, param->sched_priority);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_setschedparam)(handle, policy, param);
	}
}

TEK_EXPORT int pthread_getschedparam(pthread_t handle, int *policy, struct sched_param *param)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		*policy = atomic_load(&posix->policy);
		param->sched_priority = atomic_load(&posix->priority);
		return 0;
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_getschedparam)(handle, policy, param);
	}
}

TEK_EXPORT int pthread_setschedprio(pthread_t handle, int priority)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__sched_set(posix, atomic_load(&posix->policy), priority);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_setschedprio)(handle, priority);
	}
}

TEK_EXPORT int sched_get_priority_min(int policy)
{
	return tek_ut__sched_least(policy);
}

TEK_EXPORT int sched_get_priority_max(int policy)
{
	return tek_ut__sched_most(policy);
}

TEK_EXPORT int pthread_getcpuclockid(pthread_t handle, clockid_t *clock)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__sched_get_clock(posix, clock);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_getcpuclockid)(handle, clock);
	}
}

TEK_EXPORT int pthread_setaffinity_np(pthread_t handle, size_t bytes, const cpu_set_t *cpus)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__sched_set_cpus(posix, bytes, cpus);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_setaffinity_np)(handle, bytes, cpus);
	}
}

TEK_EXPORT int pthread_getaffinity_np(pthread_t handle, size_t bytes, cpu_set_t *cpus)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__sched_get_cpus(posix, bytes, cpus);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_getaffinity_np)(handle, bytes, cpus);
	}
}

/* The CPUs of a kernel thread. */
TEK_EXPORT int sched_getaffinity(pid_t tid, size_t bytes, cpu_set_t *cpus)
{
	int result = TEK_REAL(sched_getaffinity)(tid, bytes, cpus);
	if (result == 0)
		tek_ut__affinity_report(tid, bytes, cpus);
	return result;
}

TEK_EXPORT int sched_setaffinity(pid_t tid, size_t bytes, const cpu_set_t *cpus)
{
	struct tek_state_call call = {
		.number = SYS_sched_setaffinity,
		.argument = {(unsigned long)tid, bytes, (unsigned long)cpus},
	};

	if (tek_ut__affinity_stays(tid, bytes, cpus))
		return 0;
	if (!tek_ut__state_begin(&call))
		return -1;
	const int result = TEK_REAL(sched_setaffinity)((pid_t)call.argument[0], bytes, cpus);
	tek_ut__state_end(&call);
	return result;
}
