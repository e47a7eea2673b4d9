/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The environment for a program that cannot have TEK's libraries in LD_PRELOAD. It lacks libtek.so,
 * or has another library in its place, and lacks the libraries of `tek run --alloc` and `--libm`:
 * a program that cannot have one of these libraries cannot have any.
 *
 * Allocates nothing, so that it can be used after fork() and vfork().
 */
#ifndef TEK_EXEC_PRELOAD_LIST_H
#define TEK_EXEC_PRELOAD_LIST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The number of bytes that the result needs. 0: there is no LD_PRELOAD, so the environment can
 * stay.
 * `other`: the path that takes the place of libtek.so; NULL: none.
 */
size_t tek__preload_list_size(char *const environment[], const char *other);

/*
 * Writes the names of the libraries that the result lacks, as many as fit, separated by commas.
 * False: it lacks none.
 */
bool tek__preload_list_lacks(char *const environment[], const char *other, char *names,
			     size_t size);

/* The result, in `memory` of that many bytes; its other entries are those of `environment`. */
char *const *tek__preload_list_exchange(char *const environment[], const char *other, void *memory);

/* The same without that library, and with all other ones. */
char *const *tek__preload_list_without(char *const environment[], const char *name, void *memory);

#endif
