/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of the functions with a time in programs of 32 bits whose time_t has 64 (_TIME_BITS), as all of Debian 13's for
 * armhf: the C library has two of each.  Times after 2038 count as that year's.  Compiled where time_t has 32 bits.
 */
#include <pthread.h>
#include <stdint.h>
#include <threads.h>

#define TEK_EXPORT __attribute__((visibility("default")))

/* The kernel's struct __kernel_timespec; of the second word the upper half means nothing. */
struct time64 {
	int64_t seconds;
	int32_t nanoseconds, unused;
};

_Static_assert(sizeof(time_t) == 4, "else the other names are these");

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
