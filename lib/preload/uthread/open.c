/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols that open a file; see file.c.  A child of vfork(2) has its parent's storage and must
 * not be taken for that thread.
 */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocking.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/start.h"
#include "uthread/posix/state.h"
#include "uthread/worker.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A file by which the state of the calling thread is changed. */
static int open_own(const char *path, int flags, mode_t mode)
{
	struct tek_state_call call;
	char own[PATH_MAX];

	if (!tek_ut__state_begin_file(&call, path, own, sizeof(own)))
		return -1;
	const int file = TEK_REAL(openat)(AT_FDCWD, own, flags, mode);
	tek_ut__state_end(&call);
	return file;
}

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
	if (!tek_ut__is_uthread() || tek_ut__start_is_borrowed())
		return TEK_REAL(openat)(directory, path, flags, mode);
	if ((flags & O_ACCMODE) != O_RDONLY && tek_ut__state_is_own_file(path))
		return open_own(path, flags, mode);
	return tek_ut__openat(directory, path, flags, mode);
}

#define MODE(last) \
	({ \
		mode_t mode = 0; \
		if (__OPEN_NEEDS_MODE(last)) { \
			va_list arguments; \
			va_start(arguments, last); \
			mode = va_arg(arguments, mode_t); \
			va_end(arguments); \
		} \
		mode; \
	})

TEK_EXPORT int open(const char *path, int flags, ...)
{
	return open_at(AT_FDCWD, path, flags, MODE(flags));
}

TEK_EXPORT int openat(int directory, const char *path, int flags, ...)
{
	return open_at(directory, path, flags, MODE(flags));
}

TEK_EXPORT int creat(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

#if defined(__GLIBC__)

/* _FORTIFY_SOURCE: without a mode. */
int __open_2(const char *path, int flags);
TEK_EXPORT int __open_2(const char *path, int flags)
{
	return __OPEN_NEEDS_MODE(flags) ? TEK_REAL(__open_2)(path, flags)
					: open_at(AT_FDCWD, path, flags, 0);
}

int __openat_2(int directory, const char *path, int flags);
TEK_EXPORT int __openat_2(int directory, const char *path, int flags)
{
	return __OPEN_NEEDS_MODE(flags) ? TEK_REAL(__openat_2)(directory, path, flags)
					: open_at(directory, path, flags, 0);
}

TEK_EXPORT int open64(const char *path, int flags, ...)
{
	return open_at(AT_FDCWD, path, flags | O_LARGEFILE, MODE(flags));
}

TEK_EXPORT int openat64(int directory, const char *path, int flags, ...)
{
	return open_at(directory, path, flags | O_LARGEFILE, MODE(flags));
}

TEK_EXPORT int creat64(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC | O_LARGEFILE, mode);
}

int __open64_2(const char *path, int flags);
TEK_EXPORT int __open64_2(const char *path, int flags)
{
	return __open_2(path, flags | O_LARGEFILE);
}

int __openat64_2(int directory, const char *path, int flags);
TEK_EXPORT int __openat64_2(int directory, const char *path, int flags)
{
	return __openat_2(directory, path, flags | O_LARGEFILE);
}

#endif

static FILE *open_stream(const char *path, const char *mode)
{
	const bool writes = mode[strcspn(mode, "wa+")] != '\0';
	struct tek_state_call call;
	char own[PATH_MAX];
	FILE *stream;

	if (!tek_ut__is_uthread() || tek_ut__start_is_borrowed())
		return TEK_REAL(fopen)(path, mode);
	if (writes && tek_ut__state_is_own_file(path)) {
		if (!tek_ut__state_begin_file(&call, path, own, sizeof(own)))
			return NULL;
		stream = TEK_REAL(fopen)(own, mode);
		tek_ut__state_end(&call);
		return stream;
	}
	tek_ut__cancel_point();
	if (!tek_ut__open_may_wait(AT_FDCWD, path))
		return TEK_REAL(fopen)(path, mode);
	return TEK_ASIDE(TEK_REAL(fopen)(path, mode));
}

TEK_EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return open_stream(path, mode);
}

#if defined(__GLIBC__)

/* The same function where an off_t has 64 bits. */
TEK_EXPORT FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return open_stream(path, mode);
}

#endif
