/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The script that an interpreter runs: for profiles it is a part of what the program is, for the
 * threads of one script have little to do with those of another.
 */
#ifndef TEK_BASE_SCRIPT_H
#define TEK_BASE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The script of a process with this program and these arguments: the absolute path of the script,
 * "-m MODULE", or "-c" for code on the command line. `arguments` has `bytes` bytes, each argument
 * with its NUL. False: it is no known interpreter, or has no script, or the script's name does not
 * fit.
 */
bool tek__script_in(const char *program, const char *arguments, size_t bytes, char *script,
		    size_t size);

/* The same of this process, before it changes its directory. */
bool tek__script_of_process(const char *program, char *script, size_t size);

#endif
