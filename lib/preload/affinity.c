/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queries of a thread's CPUs: a program must not take the one where TEK put it for the machine. */
#include "place/affinity.h"
#include "life/start.h"

#include "base/export.h"
#include "base/real.h"
#include "threads/process.h"

#include <errno.h>

static int real_set_by_handle(struct tek_target target, size_t bytes, const cpu_set_t *mask)
{
	return tek__real.pthread_setaffinity_np(target.handle, bytes, mask);
}

static int real_set_by_tid(struct tek_target target, size_t bytes, const cpu_set_t *mask)
{
	return tek__real.sched_setaffinity(target.tid, bytes, mask) ? errno : 0;
}

TEK_EXPORT int sched_getaffinity(pid_t tid, size_t bytes, cpu_set_t *mask)
{
	const bool started = tek__start();
	int result = tek__real.sched_getaffinity(tid, bytes, mask);
	if (result == 0 && started)
		tek__affinity_report(tek__by_tid(tid), bytes, mask);
	return result;
}

TEK_EXPORT int pthread_getaffinity_np(pthread_t handle, size_t bytes, cpu_set_t *mask)
{
	const bool started = tek__start();
	int error = tek__real.pthread_getaffinity_np(handle, bytes, mask);
	if (!error && started)
		tek__affinity_report(tek__by_handle(handle), bytes, mask);
	return error;
}

TEK_EXPORT int sched_setaffinity(pid_t tid, size_t bytes, const cpu_set_t *mask)
{
	if (!tek__start())
		return tek__real.sched_setaffinity(tid, bytes, mask);
	int error = tek__affinity_set(tek__by_tid(tid), bytes, mask, real_set_by_tid);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

TEK_EXPORT int pthread_setaffinity_np(pthread_t handle, size_t bytes, const cpu_set_t *mask)
{
	if (!tek__start())
		return tek__real.pthread_setaffinity_np(handle, bytes, mask);
	return tek__affinity_set(tek__by_handle(handle), bytes, mask, real_set_by_handle);
}
