/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All blocks of thread-local storage, and their layout. The layout changes when a loaded library
 * has variables in them.
 *
 * The loader gives such variables their first values in the blocks of threads that it knows; the
 * engine's are not among them. This is done here, after dlopen(3). Values that constructors have
 * set before that, in the loading thread, stay. Libraries that the C library loads by itself (name
 * services, character sets) are detected when the next block is made.
 */
#ifndef TEK_UTHREAD_TLS_LIBRARIES_H
#define TEK_UTHREAD_TLS_LIBRARIES_H

#include "uthread/tls_block.h"

/* By the first thread: the layout as it is now. */
bool tek_ut__tls_libraries_start(void);

/* A new block, clean and listed, or NULL: no memory. */
struct tek_tls *tek_ut__tls_libraries_make_block(void);

/* It follows the layout in force from now on. */
void tek_ut__tls_libraries_update(struct tek_tls *block);

/* In the child of fork(): no other thread is in here. */
void tek_ut__tls_libraries_after_fork(void);

#endif
