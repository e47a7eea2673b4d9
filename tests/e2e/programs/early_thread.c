/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with a constructor that allocates, and waits for a thread of its own that allocates. */
#include <pthread.h>
#include <stdlib.h>

static void *allocate(void *unused)
{
	free(malloc(1000));
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	allocate(NULL);
	if (pthread_create(&thread, NULL, allocate, NULL) != 0 || pthread_join(thread, NULL) != 0)
		abort();
}
