/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The library whose threads a program of the micro-benchmarks uses: the build names the adapter
 * by ON, and the same source is measured on each.  An adapter is a header in this directory that
 * defines
 *
 *   ON_NAME                                   what reports call it
 *   on_thread, on_mutex, on_cond              types
 *   on_start()                                makes the calling thread one of the library's, if it
 *   must be made so on_create(thread, routine, argument)      0, or it could not be created
 *   on_join(thread) on_yield() on_mutex_init(), on_mutex_lock(), on_mutex_unlock() on_cond_init(),
 *   on_cond_wait(), on_cond_signal(), on_cond_broadcast()
 *
 * all of them with pointers to these types, and inline, so that nothing but the library's call is
 * measured.
 */
#ifndef UTHREAD_ON_H
#define UTHREAD_ON_H

#include ON

#endif
