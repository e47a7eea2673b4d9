/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of condition variables: what a Fast thread waits for at the end of its wait. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "inherit/cond.h"
#include "base/call.h"
#include "base/export.h"
#include "base/next.h"

static void end(void *argument)
{
	(void)argument;
	tek__cond_end();
}

/* `call` is the C library's function. A cancelled thread has the mutex again when end() runs. */
#define WAIT(call, until) \
	do { \
		int result; \
		if (!tek__cond_is_seen(mutex)) \
			return call; \
		tek__cond_begin(cond, mutex, until, TEK_CALL); \
		pthread_cleanup_push(end, NULL); \
		result = call; \
		pthread_cleanup_pop(1); \
		return result; \
	} while (0)

TEK_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	WAIT(TEK_REAL(pthread_cond_wait)(cond, mutex), TEK_FOR_EVER);
}

TEK_EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				      const struct timespec *time)
{
	WAIT(TEK_REAL(pthread_cond_timedwait)(cond, mutex, time),
	     ((struct tek_until){tek__cond_clock(cond), time}));
}

TEK_EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				      const struct timespec *time)
{
	const struct tek_until until = {tek__clock_is_known(clock) ? clock : CLOCK_REALTIME, time};

	WAIT(TEK_REAL(pthread_cond_clockwait)(cond, mutex, clock, time), until);
}

TEK_EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	if (!__atomic_load_n(&tek__cond_waiting, __ATOMIC_RELAXED))
		return TEK_REAL(pthread_cond_signal)(cond);
	return tek__cond_wake(cond, TEK_REAL(pthread_cond_signal));
}

TEK_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (!__atomic_load_n(&tek__cond_waiting, __ATOMIC_RELAXED))
		return TEK_REAL(pthread_cond_broadcast)(cond);
	return tek__cond_wake(cond, TEK_REAL(pthread_cond_broadcast));
}
#endif
