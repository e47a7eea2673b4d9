/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The next definitions of functions after ours.
 *
 * Some functions of the C library have several versions that differ.  A program that is linked
 * today gets the default one.  The symbol table of the C library says which one that is, so no
 * version is named here.
 */
#ifndef TEK_PRELOAD_NEXT_H
#define TEK_PRELOAD_NEXT_H

/*
 * As dlsym(RTLD_NEXT, name), which before glibc 2.36 gives the oldest version of a function; here
 * it is the default one.  NULL: there is none, and dlerror(3) says so.  Takes the loader's lock.
 */
void *tek__next_definition(const char *name);

/*
 * The default version of a function of the C library, whatever libraries come before it.  NULL:
 * there is none.  Takes no lock, allocates nothing.
 */
void *tek__c_library_definition(const char *name);

#endif
