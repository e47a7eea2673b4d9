/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * In the C library for 32 bits each function with a time exists twice. Programs with a 64-bit
 * time_t (_TIME_BITS), such as those of Debian 13 for armhf, call the names that are defined here.
 * Times after 2038 are taken for the last second of a 32-bit time_t.
 */
#include "base/export.h"

#include <pthread.h>
#include <stdint.h>
#include <threads.h>

/* The kernel's struct __kernel_timespec; the upper half of the second word has no meaning. */
struct time64 {
	int64_t seconds;
	int32_t nanoseconds, unused;
};

_Static_assert(sizeof(time_t) == 4, "else the usual names are those of 64 bits");

static struct timespec narrow(const struct time64 *time)
{
	struct timespec result = {.tv_sec = (time_t)time->seconds, .tv_nsec = time->nanoseconds};

	if (time->seconds > INT32_MAX)
		result.tv_sec = INT32_MAX;
	else if (time->seconds < INT32_MIN)
		result.tv_sec = INT32_MIN;
	return result;
}

/* TIME64(name, (parameters before the time), (arguments)): `at` is the last argument. */
#define TIME64(name, parameters, arguments) \
	int __##name##64 parameters; \
	TEK_EXPORT int __##name##64 parameters \
	{ \
		const struct timespec at = narrow(time); \
		return name arguments; \
	}

TIME64(pthread_cond_timedwait,
       (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct time64 *time),
       (cond, mutex, &at))
TIME64(pthread_cond_clockwait,
       (pthread_cond_t * cond, pthread_mutex_t *mutex, clockid_t clock, const struct time64 *time),
       (cond, mutex, clock, &at))
TIME64(pthread_mutex_timedlock, (pthread_mutex_t * mutex, const struct time64 *time), (mutex, &at))
TIME64(pthread_mutex_clocklock,
       (pthread_mutex_t * mutex, clockid_t clock, const struct time64 *time), (mutex, clock, &at))
TIME64(pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const struct time64 *time),
       (lock, &at))
TIME64(pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const struct time64 *time),
       (lock, &at))
TIME64(pthread_rwlock_clockrdlock,
       (pthread_rwlock_t * lock, clockid_t clock, const struct time64 *time), (lock, clock, &at))
TIME64(pthread_rwlock_clockwrlock,
       (pthread_rwlock_t * lock, clockid_t clock, const struct time64 *time), (lock, clock, &at))
TIME64(mtx_timedlock, (mtx_t * mutex, const struct time64 *time), (mutex, &at))
TIME64(cnd_timedwait, (cnd_t * cond, mtx_t *mutex, const struct time64 *time), (cond, mutex, &at))
