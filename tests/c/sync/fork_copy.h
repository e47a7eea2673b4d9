/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the child of a fork() has of an object that other threads use: a copy that nobody waits for.
 */
#ifndef TESTS_FORK_COPY_H
#define TESTS_FORK_COPY_H

#include <stddef.h>

/* As the kernel does it, so ThreadSanitizer is not to see it. */
__attribute__((noinline, no_sanitize("thread"))) static void
copy_as_fork_does(void *to, const void *from, size_t size)
{
	volatile unsigned char *target = to;
	const volatile unsigned char *source = from;

	for (size_t i = 0; i < size; i++)
		target[i] = source[i];
}

#endif
