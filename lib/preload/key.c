/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The two ways to create a pthread key: TEK wants to know which there are (ident/keys.h). */
#include "ident/keys.h"
#include "ident/process.h"
#include "preload/real.h"

#include <threads.h>

/*
 * TEK's own start may come here: looking for a symbol that is not there allocates, and the
 * program's allocator (jemalloc) makes its key with its first block.
 */
static void find_real(void)
{
	if (!tek__real.pthread_key_create || !tek__real.tss_create)
		tek__start();
}

TEK_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	find_real();
	int error = tek__real.pthread_key_create(key, destructor);
	if (!error && destructor)
		tek__keys_note(*key);
	return error;
}

TEK_EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	find_real();
	int result = tek__real.tss_create(key, destructor);
	if (result == thrd_success && destructor)
		tek__keys_note(*key);
	return result;
}
