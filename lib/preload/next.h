/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The definition of a function behind ours. */
#ifndef TEK_PRELOAD_NEXT_H
#define TEK_PRELOAD_NEXT_H

/*
 * As dlsym(RTLD_NEXT, name), which before glibc 2.36 gives the oldest version of a function that has several; here it is the
 * one that programs get which are linked today.  NULL: there is none, and dlerror(3) says so.  Takes the loader's lock.
 */
void *tek__next_definition(const char *name);

#endif
