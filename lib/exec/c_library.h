/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether the C library of a program is recent enough for libtek.so. A program with a loader of its
 * own (Nix, Guix, snap, a bundle) has a C library of its own, too. An older one lacks versions of
 * functions that libtek.so needs, and its loader refuses to start the program with libtek.so.
 *
 * Async-signal-safe; allocates nothing.
 */
#ifndef TEK_EXEC_C_LIBRARY_H
#define TEK_EXEC_C_LIBRARY_H

#include "exec/image.h"

#include <stdbool.h>

/*
 * Whether the C library that `program` gets from the loader at the path `loader` defines each
 * version that the library at the path `library` needs.  The function searches for the C library
 * as the loader does: in DT_RPATH and DT_RUNPATH, and beside the loader.  False if none of these
 * places has it.
 */
bool tek__c_library_serves(const struct tek_image *program, const char *loader,
			   const char *library);

#endif
