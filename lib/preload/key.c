/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The two ways to create a pthread key: TEK wants to know which there are (ident/keys.h). */
#include "ident/keys.h"
#include "ident/process.h"
#include "preload/real.h"

#include <threads.h>

TEK_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	tek__start();
	int error = tek__real.pthread_key_create(key, destructor);
	if (!error && destructor)
		tek__keys_note(*key);
	return error;
}

TEK_EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	tek__start();
	int result = tek__real.tss_create(key, destructor);
	if (result == thrd_success && destructor)
		tek__keys_note(*key);
	return result;
}
