/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The next definitions of functions after ours.
 */
#ifndef TEK_BASE_NEXT_H
#define TEK_BASE_NEXT_H

/*
 * The function of a name in the next file that defines it, in the order in which the loader loaded
 * them: that of another library which is preloaded after ours, or the C library's.  As
 * dlsym(RTLD_NEXT, name), with these differences: it is the default version of a function, which
 * before glibc 2.36 dlsym() does not return; and if there is none, NULL is returned and nothing is
 * allocated.  Takes the loader's lock only if the definition is an IFUNC.
 */
void *tek__next_definition(const char *name);

#endif
