/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols that close a descriptor: its waiters are notified, whichever thread closes it. */
#include "base/export.h"
#include "uthread/posix/blocking.h"

#include <limits.h>
#include <unistd.h>

TEK_EXPORT int close(int file)
{
	return tek_ut__close(file);
}

int __close(int file);
TEK_EXPORT int __close(int file)
{
	return tek_ut__close(file);
}

TEK_EXPORT int dup2(int from, int to)
{
	return tek_ut__dup2(from, to);
}

int __dup2(int from, int to);
TEK_EXPORT int __dup2(int from, int to)
{
	return tek_ut__dup2(from, to);
}

TEK_EXPORT int dup3(int from, int to, int flags)
{
	return tek_ut__dup3(from, to, flags);
}

int close_range(unsigned int first, unsigned int last, int flags);
TEK_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	return tek_ut__close_range(first, last, flags);
}

void closefrom(int first);
TEK_EXPORT void closefrom(int first)
{
	tek_ut__close_range(first < 0 ? 0 : (unsigned int)first, UINT_MAX, 0);
}
