/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

#include <errno.h>

/* A free semaphore is counted, and has no holder: any thread may post. */
#define TEK_SEMAPHORE_WAIT(call) \
	struct tek_profile_thread *thread_ = tek_prof__locks(); \
	if (!thread_) \
		return call; \
	/* The real one is a point of cancellation, whether it waits or not. */ \
	pthread_testcancel(); \
	int saved_ = errno; \
	if (REAL(sem_trywait)(semaphore) == 0) { \
		struct tek_profile_object *counted_ = tek_prof__object( \
			thread_, semaphore, TEK_SITE, TEK_PROFILE_SEMAPHORE, false); \
		if (counted_) \
			counted_->count++; \
		return 0; \
	} \
	errno = saved_; \
	return TEK_WAIT(TEK_PROFILE_SEMAPHORE, semaphore, call)

TEK_EXPORT int sem_wait(sem_t *semaphore)
{
	TEK_SEMAPHORE_WAIT(REAL(sem_wait)(semaphore));
}

TEK_EXPORT int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
	if (!tek_prof__can_wait(CLOCK_REALTIME, until))
		return REAL(sem_timedwait)(semaphore, until);
	TEK_SEMAPHORE_WAIT(REAL(sem_timedwait)(semaphore, until));
}

TEK_EXPORT int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
	if (!tek_prof__can_wait(clock, until))
		return REAL(sem_clockwait)(semaphore, clock, until);
	TEK_SEMAPHORE_WAIT(REAL(sem_clockwait)(semaphore, clock, until));
}

TEK_EXPORT int sem_post(sem_t *semaphore)
{
	tek_prof__releases(semaphore);
	return REAL(sem_post)(semaphore);
}
