/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* dlopen(3), for the sake of RTLD_DEEPBIND (deepbind.h). */
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "preload/deepbind.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Whether the program has another allocator, or other locks, than the C library's: `tek run
 * --alloc` and `--lock`.
 */
static bool has_other_functions(void)
{
	const char *alloc = getenv("TEK_ALLOC"), *locks = getenv("TEK_SYNC");

	return (alloc && *alloc && strcmp(alloc, "glibc") != 0) || (locks && *locks);
}

/*
 * With optimisation the last call is a jump: the loader sees our caller, and searches the caller's
 * directories.
 */
TEK_EXPORT void *dlopen(const char *name, int mode)
{
	tek__start();
	if (mode & RTLD_DEEPBIND && has_other_functions())
		mode = tek__without_deepbind(name, mode);
	return tek__real.dlopen(name, mode);
}
