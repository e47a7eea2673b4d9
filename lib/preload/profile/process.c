/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ends that no destructor sees. */
#include "base/export.h"
#include "preload/profile/real.h"
#include "preload/profile/start.h"

TEK_EXPORT void _exit(int status)
{
	tek_prof__over();
	REAL(_exit)(status);
	__builtin_unreachable();
}

TEK_EXPORT void _Exit(int status)
{
	tek_prof__over();
	REAL(_Exit)(status);
	__builtin_unreachable();
}
