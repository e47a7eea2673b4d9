/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads of C11, which are the same ones: a thrd_t is a pthread_t. */
#include "base/export.h"
#include "base/next.h"
#include "preload/c11.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/record.h"
#include "uthread/posix/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <threads.h>
#include <time.h>

TEK_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(thrd_create)(thread, routine, argument);
	int error = tek_ut__posix_create(thread, NULL, (void *(*)(void *))(void (*)(void))routine,
					 argument, true, __builtin_return_address(0));
	/* pthread_create(3) reports so that there is no memory for a thread. */
	return tek__c11_result(error == EAGAIN ? ENOMEM : error);
}

TEK_EXPORT int thrd_join(thrd_t thread, int *result)
{
	void *value = NULL;
	int error = pthread_join(thread, &value);

	if (!error && result)
		*result = (int)(intptr_t)value;
	return tek__c11_result(error);
}

TEK_EXPORT int thrd_detach(thrd_t thread)
{
	return tek__c11_result(pthread_detach(thread));
}

TEK_EXPORT void thrd_exit(int result)
{
	pthread_exit((void *)(intptr_t)result);
}

TEK_EXPORT thrd_t thrd_current(void)
{
	return pthread_self();
}

TEK_EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left)
{
	switch (clock_nanosleep(CLOCK_REALTIME, 0, time, left)) {
	case 0:
		return 0;
	case EINTR:
		return -1;
	default:
		return -2;
	}
}

TEK_EXPORT void thrd_yield(void)
{
	sched_yield();
}
