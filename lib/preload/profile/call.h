/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Macros for the functions that libtek-profile.so interposes. Each makes a function, or its body,
 * that calls the next definition and accounts for the call (profile/account.h): as timed, as
 * counted, as a wait, or as a lock that was taken or released.
 */
#ifndef TEK_PRELOAD_PROFILE_CALL_H
#define TEK_PRELOAD_PROFILE_CALL_H

#include "base/export.h"
#include "preload/profile/real.h"
#include "profile/account.h"
#include "profile/object.h"
#include "profile/release.h"

#define TEK_FRAME __builtin_frame_address(0)
#define TEK_SITE __builtin_return_address(0)

/* A function of which every call is timed. */
#define TEK_TIMED(part, type, name, parameters, arguments) \
	TEK_EXPORT type name parameters \
	{ \
		struct tek_profile_thread *counted_ = tek_prof__enter(part, TEK_FRAME); \
		type result_ = REAL(name) arguments; \
		if (counted_) \
			tek_prof__leave(counted_, part); \
		return result_; \
	}

/* A function that is counted; `is_long`: a call that is known to take long. */
#define TEK_COUNTED(part, is_long, type, name, parameters, arguments) \
	TEK_EXPORT type name parameters \
	{ \
		uint32_t weight_; \
		struct tek_profile_thread *counted_ = tek_prof__enter_counted(part, TEK_FRAME, \
									      is_long, &weight_); \
		type result_ = REAL(name) arguments; \
		if (counted_) \
			tek_prof__leave_counted(counted_, part, weight_); \
		return result_; \
	}

/* A function that waits for what is not another thread's doing. */
#define TEK_IDLE(type, name, parameters, arguments) \
	TEK_EXPORT type name parameters \
	{ \
		TEK_PROFILE_WAITING = tek_prof__wait(TEK_PROFILE_IDLE, NULL, TEK_FRAME); \
		type result_ = REAL(name) arguments; \
		tek_prof__waited(&waiting_, TEK_PROFILE_IDLE, TEK_PROFILE_SLEEP, TEK_SITE, NULL); \
		return result_; \
	}

/* The calling thread, unless it does not count, or what it does now is part of another call. */
static inline struct tek_profile_thread *tek_prof__locks(void)
{
	struct tek_profile_thread *thread = tek_prof__thread();

	return thread && !thread->inside ? thread : NULL;
}

/* It has a lock that was free. */
static inline void tek_prof__got(struct tek_profile_thread *thread, const void *object,
				 const void *site, tek_u32 kind)
{
	struct tek_profile_object *counted = tek_prof__object(thread, object, site, kind, false);

	thread->locks++;
	if (counted)
		counted->count++;
	tek_prof__holds(object, counted, 0);
}

/* Around a call that waits for an object. */
#define TEK_WAIT(kind, object, call) \
	({ \
		TEK_PROFILE_WAITING = tek_prof__wait(TEK_PROFILE_SYNC, object, TEK_FRAME); \
		tek_prof__waits_for(&waiting_, TEK_SITE, kind); \
		int result_ = call; \
		tek_prof__got_after(&waiting_, object, TEK_SITE, kind, result_); \
		result_; \
	})

/* It is over, with that result. */
void tek_prof__got_after(struct tek_profile_waiting *waiting, const void *object, const void *site,
			 tek_u32 kind, int result);

/*
 * Locking: a free lock costs a count and no query of the clock. A mutex with a dead owner is
 * acquired, too.
 */
#define TEK_LOCK(kind, object, try_, call) \
	struct tek_profile_thread *thread_ = tek_prof__locks(); \
	if (!thread_) \
		return call; \
	int error_ = try_; \
	if (error_ == 0 || error_ == EOWNERDEAD) { \
		tek_prof__got(thread_, object, TEK_SITE, kind); \
		return error_; \
	} \
	return TEK_WAIT(kind, object, call)

#define TEK_TRY(kind, object, call) \
	int error_ = call; \
	if (error_ == 0 || error_ == EOWNERDEAD) { \
		struct tek_profile_thread *thread_ = tek_prof__locks(); \
		if (thread_) \
			tek_prof__got(thread_, object, TEK_SITE, kind); \
	} \
	return error_

/*
 * True if a call with that deadline can acquire a free object: the C library refuses some clocks
 * and times, even without a wait.
 */
static inline bool tek_prof__can_wait(clockid_t clock, const struct timespec *until)
{
	return (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) && until &&
	       until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

/* As TEK_LOCK, until then. */
#define TEK_LOCK_UNTIL(kind, object, clock, until, try_, call) \
	if (!tek_prof__can_wait(clock, until)) \
		return call; \
	TEK_LOCK(kind, object, try_, call)

#define TEK_UNLOCK(object, call) \
	tek_prof__gives_back(object); \
	tek_prof__releases(object); \
	return call

/* Waiting for a condition gives the mutex back; waiting for that again is part of it. */
#define TEK_COND_WAIT(call) \
	tek_prof__gives_back(mutex); \
	tek_prof__releases(mutex); \
	return TEK_WAIT(TEK_PROFILE_COND, cond, call)

#endif
