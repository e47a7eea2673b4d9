/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ISO C program with functions of its own for the names in lines OWN(name) below this text.  It
 * never calls them, so each call is one that was meant for the C library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

/* The headers of ISO C declare some of these names otherwise. */
#define OWN(name) \
	int own_##name(void) __asm__(#name); \
	int own_##name(void) \
	{ \
		fputs("captured: " #name "\n", stderr); \
		return -1; \
	}

static mtx_t lock;
static int sum;

static int add(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++) {
		mtx_lock(&lock);
		sum++;
		mtx_unlock(&lock);
	}
	free(malloc(100000));
	return 0;
}

int main(void)
{
	thrd_t threads[4];

	mtx_init(&lock, mtx_plain);
	for (int i = 0; i < 4; i++)
		if (thrd_create(&threads[i], add, NULL) != thrd_success)
			return 3;
	for (int i = 0; i < 4; i++)
		thrd_join(threads[i], NULL);
	if (system(":") != 0)
		return 4;
	printf("%d\n", sum);
	return 0;
}
