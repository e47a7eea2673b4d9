/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/report.h"

#include "base/channel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void tek_alloc__report(const char *format, ...)
{
	char line[256];
	const int saved = errno;
	va_list arguments;

	va_start(arguments, format);
	/* Of %s, %d and %zu alone: that part of the C library needs no memory. */
	int bytes = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (bytes > 0)
		tek__channel_report(line, (size_t)bytes < sizeof(line) ? (size_t)bytes
								       : sizeof(line) - 1);
	errno = saved;
}
