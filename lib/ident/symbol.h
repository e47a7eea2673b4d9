/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The name of a function of this process: the loader's for what a module exports,
 * else from the table of symbols (.symtab) in the module's own file, which a
 * stripped one has not.  Names are as nm(1) prints them, so mangled for C++.
 */
#ifndef TEK_IDENT_SYMBOL_H
#define TEK_IDENT_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What begins at this address.  False if it has no name, or one that does not fit.
 * Takes the loader's lock, opens a file and closes it again, and is no cancellation
 * point.
 */
bool tek__symbol_of(uintptr_t address, char *name, size_t size);

/* The same in the image of an ELF file of our own class, by address in it. For fuzzers too. */
bool tek__symbol_in_file(const void *image, size_t bytes, uint64_t address, char *name,
			 size_t size);

#endif
