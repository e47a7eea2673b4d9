/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether a program with a loader of its own (Nix, Guix, snap, a bundle) has a C library for which
 * TEK's was not built: an older one lacks versions of functions, and the loader then refuses to
 * start the program.
 *
 * Async-signal-safe.
 */
#ifndef TEK_EXEC_C_LIBRARY_H
#define TEK_EXEC_C_LIBRARY_H

#include "exec/image.h"

#include <stdbool.h>

/*
 * Whether the C library that `program` gets from the loader at the path `loader` defines each
 * version that the library at the path `library` needs.  It is looked for as the loader does it, in
 * DT_RPATH and DT_RUNPATH, and beside the loader; false if it is in none of these places.
 */
bool tek__c_library_serves(const struct tek_image *program, const char *loader,
			   const char *library);

#endif
