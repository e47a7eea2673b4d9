/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of routines that run once; std::call_once comes here, too. */
#include "uthread/once.h"
#include "base/export.h"

#include <pthread.h>

_Static_assert(sizeof(atomic_int) == sizeof(pthread_once_t), "it is that");

TEK_EXPORT int pthread_once(pthread_once_t *object, void (*routine)(void))
{
	atomic_int *control = (atomic_int *)object;

	if (!tek_ut__once_is_done(control))
		tek_ut__once(control, routine);
	return 0;
}

/* A name that programs of old C libraries know. */
int __pthread_once(pthread_once_t *object, void (*routine)(void));
TEK_EXPORT int __pthread_once(pthread_once_t *object, void (*routine)(void))
{
	return pthread_once(object, routine);
}
