/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbol behind pthread_atfork(3), which lies in each program and library itself: our handlers
 * come first.
 */
#include "uthread/posix/start.h"

#include "base/export.h"
#include "base/next.h"

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
		      void *library);

TEK_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
				 void *library)
{
	tek_ut__fork_register(); /* which comes here, too */
	return TEK_REAL(__register_atfork)(prepare, parent, child, library);
}
