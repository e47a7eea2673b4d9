/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the programs that count stacks. */
#ifndef TEK_BENCH_PROGRAM_H
#define TEK_BENCH_PROGRAM_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether libtek.so is there, in JSON. */
static inline const char *under_tek(void)
{
	return dlsym(RTLD_DEFAULT, "tek_version") ? "true" : "false";
}

/* Ends the program with its usage: asked for, or because its arguments make no sense. */
static inline _Noreturn void end_with(void (*usage)(FILE *, const char *), char **argv, bool asked)
{
	usage(asked ? stdout : stderr, argv[0]);
	exit(asked ? EXIT_SUCCESS : 2);
}

#endif
