/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The environment without TEK's library in LD_PRELOAD, or with another one in its place, and
 * without the libraries of `tek run --alloc` and `--libm`: a program that cannot have one of them
 * cannot have any.
 *
 * Allocates nothing, so that it can be used after fork() and vfork().
 */
#ifndef TEK_EXEC_PRELOAD_LIST_H
#define TEK_EXEC_PRELOAD_LIST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes that the result needs; 0: there is no LD_PRELOAD, the environment is good as it is.
 * `other`: the path that takes the place of libtek.so; NULL: none.
 */
size_t tek__preload_list_size(char *const environment[], const char *other);

/*
 * The names of the libraries, as many as fit, that are left out with `other` in the place of
 * libtek.so, with commas between.  False: none is.
 */
bool tek__preload_list_lacks(char *const environment[], const char *other, char *names,
			     size_t size);

/* The result, in `memory` of that many bytes; its other entries are those of `environment`. */
char *const *tek__preload_list_exchange(char *const environment[], const char *other, void *memory);

/* The same without that library, and with all other ones. */
char *const *tek__preload_list_without(char *const environment[], const char *name, void *memory);

#endif
