/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds the symbol that begins at an address, in the symbol tables (.symtab, .dynsym) of an ELF
 * file. Names are as nm(1) prints them, so mangled for C++.
 *
 * TEK does not ask the loader: a library's constructor holds the loader's lock, and may wait for a
 * thread.
 */
#ifndef TEK_BASE_SYMBOL_H
#define TEK_BASE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The symbol that begins at this address of the file. False if it has no name, or one that does not
 * fit. Opens the file and closes it again, and is no cancellation point.
 */
bool tek__symbol_of(const char *path, uint64_t address, char *name, size_t size);

/* The same in the image of an ELF file of our own class. For fuzzers too. */
bool tek__symbol_in_file(const void *image, size_t bytes, uint64_t address, char *name,
			 size_t size);

#endif
