/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of cancellation and of clean-up handlers, those that the macros of pthread.h call
 * among them.
 */
#include "uthread/posix/cancel.h"

#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <pthread.h>

TEK_EXPORT int pthread_cancel(pthread_t handle)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		tek_ut__cancel(posix);
		return 0;
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_cancel)(handle);
	}
}

TEK_EXPORT int pthread_setcancelstate(int state, int *old)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(pthread_setcancelstate)(state, old);
	return tek_ut__cancel_set_state(state, old);
}

TEK_EXPORT int pthread_setcanceltype(int type, int *old)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(pthread_setcanceltype)(type, old);
	return tek_ut__cancel_set_type(type, old);
}

TEK_EXPORT void pthread_testcancel(void)
{
	if (!tek_ut__posix_self())
		TEK_REAL(pthread_testcancel)();
	else
		tek_ut__cancel_point();
}

/*
 * The stack pointer in the function that calls this one, as the unwinder will report it. Only there
 * do they mean the same place, so these functions must not be inlined into our other functions.
 */
#define CALLERS_FRAME ((uintptr_t)__builtin_dwarf_cfa())

/* pthread.h declares these only to code that is compiled without exceptions. */
void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
_Noreturn void __pthread_unwind_next(__pthread_unwind_buf_t *buffer);

static struct tek_cleanup *cleanup_of(__pthread_unwind_buf_t *buffer)
{
	return (struct tek_cleanup *)(void *)buffer;
}

TEK_EXPORT __attribute__((noinline)) void __pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
	if (!tek_ut__posix_self())
		TEK_REAL(__pthread_register_cancel)(buffer);
	else
		tek_ut__cleanup_push(cleanup_of(buffer), CALLERS_FRAME);
}

TEK_EXPORT void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
	if (!tek_ut__posix_self())
		TEK_REAL(__pthread_unregister_cancel)(buffer);
	else
		tek_ut__cleanup_pop(cleanup_of(buffer));
}

TEK_EXPORT __attribute__((noinline)) void
__pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer)
{
	int type;

	if (!tek_ut__posix_self()) {
		TEK_REAL(__pthread_register_cancel_defer)(buffer);
		return;
	}
	tek_ut__cancel_set_type(PTHREAD_CANCEL_DEFERRED, &type);
	tek_ut__cleanup_push(cleanup_of(buffer), CALLERS_FRAME);
	cleanup_of(buffer)->cancel_type = (void *)(intptr_t)type;
}

TEK_EXPORT void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer)
{
	if (!tek_ut__posix_self()) {
		TEK_REAL(__pthread_unregister_cancel_restore)(buffer);
		return;
	}
	const int type = (int)(intptr_t)cleanup_of(buffer)->cancel_type;
	tek_ut__cleanup_pop(cleanup_of(buffer));
	tek_ut__cancel_set_type(type, NULL);
}

TEK_EXPORT void __pthread_unwind_next(__pthread_unwind_buf_t *buffer)
{
	if (!tek_ut__posix_self())
		TEK_REAL(__pthread_unwind_next)(buffer);
	tek_ut__cleanup_next();
}

/* Functions that old programs call. No header declares them any more. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*routine)(void *),
			   void *argument);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

TEK_EXPORT void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer,
				      void (*routine)(void *), void *argument)
{
	if (!tek_ut__posix_self())
		TEK_REAL(_pthread_cleanup_push)(buffer, routine, argument);
	else
		tek_ut__cleanup_push_old(buffer, routine, argument);
}

TEK_EXPORT void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute)
{
	if (!tek_ut__posix_self())
		TEK_REAL(_pthread_cleanup_pop)(buffer, execute);
	else
		tek_ut__cleanup_pop_old(buffer, execute);
}
