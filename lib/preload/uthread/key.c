/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of keys. */
#include "uthread/key.h"

#include "base/export.h"
#include "uthread/own.h"

#include <limits.h>
#include <pthread.h>

_Static_assert(TEK_KEYS >= PTHREAD_KEYS_MAX, "so many keys");
_Static_assert(TEK_KEY_ROUNDS >= PTHREAD_DESTRUCTOR_ITERATIONS, "so often");

TEK_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	return tek_ut__key_create(key, destructor);
}

TEK_EXPORT int pthread_key_delete(pthread_key_t key)
{
	return tek_ut__key_delete(key);
}

TEK_EXPORT void *pthread_getspecific(pthread_key_t key)
{
	return tek_ut__key_get(key);
}

TEK_EXPORT int pthread_setspecific(pthread_key_t key, const void *data)
{
	return tek_ut__key_set(key, (void *)data);
}

/* Names that programs of old C libraries know; libstdc++ looks whether the first one is there. */
int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
TEK_EXPORT int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	return pthread_key_create(key, destructor);
}

void *__pthread_getspecific(pthread_key_t key);
TEK_EXPORT void *__pthread_getspecific(pthread_key_t key)
{
	return pthread_getspecific(key);
}

int __pthread_setspecific(pthread_key_t key, const void *data);
TEK_EXPORT int __pthread_setspecific(pthread_key_t key, const void *data)
{
	return pthread_setspecific(key, data);
}
