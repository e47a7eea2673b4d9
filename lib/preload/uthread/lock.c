/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols that lock files; see file.c. */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocking.h"
#include "uthread/worker.h"

#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

TEK_EXPORT int flock(int file, int operation)
{
	return tek_ut__is_uthread() ? tek_ut__flock(file, operation)
				    : TEK_REAL(flock)(file, operation);
}

/* Whatever the third argument is, it is as large as a pointer where it is handed over. */
TEK_EXPORT int fcntl(int file, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	if ((command == F_SETLKW || command == F_OFD_SETLKW) && tek_ut__is_uthread())
		return tek_ut__fcntl_lock(file, command, argument);
	return TEK_REAL(fcntl)(file, command, argument);
}

TEK_EXPORT int lockf(int file, int command, off_t size)
{
	return command == F_LOCK && tek_ut__is_uthread() ? tek_ut__lockf(file, size)
							 : TEK_REAL(lockf)(file, command, size);
}

#if defined(__GLIBC__) && defined(__LP64__)

/* The same function there. */
TEK_EXPORT int fcntl64(int file, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return fcntl(file, command, argument);
}

TEK_EXPORT int lockf64(int file, int command, off64_t size)
{
	return lockf(file, command, size);
}

#endif
