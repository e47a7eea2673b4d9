/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/passed.h"
#include "preload/profile/call.h"
#include "preload/profile/start.h"
#include "profile/modules.h"

#include "base/export.h"
#include "base/start_routine.h"

static _Thread_local struct tek_passed passed;

TEK_EXPORT const struct tek_passed *tek_prof__passed(void)
{
	return passed.call_site ? &passed : NULL;
}

static void *run(void *number)
{
	struct tek_profile_thread *thread = tek_prof__file_thread((uint32_t)(uintptr_t)number);
	void *(*routine)(void *) = (void *(*)(void *))(uintptr_t)thread->routine;
	void *argument = (void *)(uintptr_t)thread->argument;

	tek_prof__thread_begin((uint32_t)(uintptr_t)number);
	return routine(argument);
}

/* Threads of threads.h return an int. */
static int run_c11(void *number)
{
	struct tek_profile_thread *thread = tek_prof__file_thread((uint32_t)(uintptr_t)number);
	thrd_start_t routine = (thrd_start_t)(uintptr_t)thread->routine;
	void *argument = (void *)(uintptr_t)thread->argument;

	tek_prof__thread_begin((uint32_t)(uintptr_t)number);
	return routine(argument);
}

/*
 * The part of the file that is the new thread's tells it what to run: there is nothing to allocate.
 */
static uint32_t new_thread(uintptr_t routine, void *argument)
{
	uint32_t number = tek_prof__thread_new();

	if (number) {
		struct tek_profile_thread *thread = tek_prof__file_thread(number);
		thread->routine = routine;
		thread->argument = (uintptr_t)argument;
		thread->function = tek__start_routine(&tek_prof__files, routine, argument).function;
	}
	return number;
}

/*
 * Records the result of the creation. Its handle is noted by the thread itself, too, which may not
 * have begun when its creator names it.
 */
static void began(uint32_t number, bool is_there, const pthread_t *handle)
{
	if (number && is_there)
		__atomic_store_n(&tek_prof__file_thread(number)->handle, (uintptr_t)*handle,
				 __ATOMIC_RELAXED);
	else if (number)
		tek_prof__thread_unused(number);
}

TEK_EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attr,
			      void *(*routine)(void *), void *argument)
{
	uint32_t number = new_thread((uintptr_t)routine, argument);

	passed = (struct tek_passed){routine, argument, TEK_SITE};
	int error = number ? REAL(pthread_create)(handle, attr, run, (void *)(uintptr_t)number)
			   : REAL(pthread_create)(handle, attr, routine, argument);
	passed.call_site = NULL;
	began(number, error == 0, handle);
	return error;
}

TEK_EXPORT int pthread_setname_np(pthread_t handle, const char *name)
{
	int error = REAL(pthread_setname_np)(handle, name);

	if (!error)
		tek_prof__thread_named(handle, name);
	return error;
}

TEK_EXPORT int thrd_create(thrd_t *handle, thrd_start_t routine, void *argument)
{
	uint32_t number = new_thread((uintptr_t)routine, argument);

	passed = (struct tek_passed){(void *(*)(void *))(void (*)(void))routine, argument,
				     TEK_SITE};
	int result = number ? REAL(thrd_create)(handle, run_c11, (void *)(uintptr_t)number)
			    : REAL(thrd_create)(handle, routine, argument);
	passed.call_site = NULL;
	began(number, result == thrd_success, handle);
	return result;
}

TEK_EXPORT int thrd_join(thrd_t thread, int *result)
{
	return TEK_WAIT(TEK_PROFILE_JOIN, (const void *)thread, REAL(thrd_join)(thread, result));
}

TEK_EXPORT int pthread_join(pthread_t thread, void **result)
{
	return TEK_WAIT(TEK_PROFILE_JOIN, (const void *)thread, REAL(pthread_join)(thread, result));
}

TEK_EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until)
{
	return TEK_WAIT(TEK_PROFILE_JOIN, (const void *)thread,
			REAL(pthread_timedjoin_np)(thread, result, until));
}

TEK_EXPORT int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
				    const struct timespec *until)
{
	return TEK_WAIT(TEK_PROFILE_JOIN, (const void *)thread,
			REAL(pthread_clockjoin_np)(thread, result, clock, until));
}
