/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Libraries that a program opens with RTLD_DEEPBIND. Such a library prefers the functions of the
 * libraries that it needs itself, so it has the C library's malloc(3) or locks where the program
 * has other ones, and the first block or mutex that both use breaks. Where functions that keep a
 * state are replaced, the flag is left out, and reported once.
 */
#ifndef TEK_PRELOAD_DEEPBIND_H
#define TEK_PRELOAD_DEEPBIND_H

/* `mode` of dlopen(3) without that flag.  `name` may be NULL. */
int tek__without_deepbind(const char *name, int mode);

#endif
