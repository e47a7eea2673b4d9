/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two ways to create a pthread key: TEK wants to know which there are (life/keys.h).
 *
 * Sanitizers and allocators come here before anything else in the process is ready: TEK is
 * not started.  Their own code, in a build of libtek with a sanitizer, could not even run.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "base/export.h"
#include "base/next.h"
#include "life/keys.h"

#include <threads.h>

/* The C library's function; looked up more than once at worst. */
static void *find(void **function, const char *name)
{
	void *found = __atomic_load_n(function, __ATOMIC_RELAXED);
	if (!found) {
		found = tek__next_definition(name);
		__atomic_store_n(function, found, __ATOMIC_RELAXED);
	}
	return found;
}

TEK_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	static void *function;
	int (*real)(pthread_key_t *, void (*)(void *)) = find(&function, "pthread_key_create");
	int error = real(key, destructor);

	if (!error && destructor)
		tek__keys_note(*key);
	return error;
}

TEK_EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	static void *function;
	int (*real)(tss_t *, tss_dtor_t) = find(&function, "tss_create");
	int result = real(key, destructor);

	if (result == thrd_success && destructor)
		tek__keys_note(*key);
	return result;
}
#endif
