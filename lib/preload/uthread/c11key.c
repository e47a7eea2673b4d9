/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of threads.h for storage and call_once, on those of pthread.h. */
#include "base/export.h"
#include "preload/c11.h"

#include <pthread.h>
#include <threads.h>

_Static_assert(sizeof(tss_t) == sizeof(pthread_key_t), "it is one");
_Static_assert(sizeof(once_flag) == sizeof(pthread_once_t), "it is one");

TEK_EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	return tek__c11_result(pthread_key_create(key, destructor));
}

TEK_EXPORT void tss_delete(tss_t key)
{
	pthread_key_delete(key);
}

TEK_EXPORT void *tss_get(tss_t key)
{
	return pthread_getspecific(key);
}

TEK_EXPORT int tss_set(tss_t key, void *data)
{
	return pthread_setspecific(key, data) ? thrd_error : thrd_success;
}

TEK_EXPORT void call_once(once_flag *flag, void (*routine)(void))
{
	pthread_once((pthread_once_t *)flag, routine);
}
