/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory that a program gives to a system call.  Where TEK reads it before the kernel does, a wrong
 * address is to fail with EFAULT, as without TEK, and not to end the process.
 *
 * Async-signal-safe; needs no lock; errno stays.
 */
#ifndef TEK_BASE_USER_MEMORY_H
#define TEK_BASE_USER_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* False: it cannot be read.  Where the kernel gives no answer it is read without one. */
static inline bool tek__user_copy(void *to, const void *from, size_t bytes)
{
	const struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
	const int saved = errno;
	const ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	const bool is_unknown = got < 0 && errno != EFAULT;

	errno = saved;
	if (is_unknown)
		memcpy(to, from, bytes);
	return is_unknown || got == (ssize_t)bytes;
}

/* The same, but where the kernel gives no answer it is not read either. */
static inline bool tek__user_copy_surely(void *to, const void *from, size_t bytes)
{
	const struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
	const int saved = errno;
	const ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	errno = saved;
	return got == (ssize_t)bytes;
}

/* Whether all of it can be read, by one byte of each page. */
static inline bool tek__user_can_read(const void *from, size_t bytes)
{
	enum { LEAST_PAGE_BYTES = 4096 };
	const char *const first = from, *const last = first + bytes - 1;
	char byte;

	for (size_t at = 0; at < bytes; at += LEAST_PAGE_BYTES) {
		if (!tek__user_copy(&byte, first + at, 1))
			return false;
	}
	return bytes == 0 || tek__user_copy(&byte, last, 1);
}

#endif
