/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The files that start routines lie in: the program and its libraries, as the table
 * lists them (struct tek_module), so that others can name a routine without looking
 * into the process.
 *
 * A file is looked up when a thread first begins in it, which takes the loader's lock,
 * and believed to stay.  Of two that cover an address (the first was unloaded) the
 * later one counts.
 */
#ifndef TEK_IDENT_MODULE_H
#define TEK_IDENT_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Have the file of an address listed. Not under the lock, which it takes; not in a signal handler. */
void tek__module_note(uintptr_t address);

/* Whether so many bytes lie in a file that is listed. Needs no lock. */
bool tek__module_has(uintptr_t address, size_t bytes);

/* Whether the address lies in the C++ library, which is listed. Needs no lock. */
bool tek__module_is_libstdcxx(uintptr_t address);

/* In the child of a fork: listed again when threads begin. */
void tek__modules_forget(void);

#endif
