/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kinds of locks and barriers that need a CPU for each thread.  A lock that threads get in the
 * order of arrival goes to a thread that is not running as soon as there are more threads than
 * CPUs, and then all wait for the scheduler.
 *
 * libtek.so counts threads, libtek-sync.so knows the kinds: libtek.so calls this if it is there.
 */
#ifndef TEK_BASE_WANTS_CPUS_H
#define TEK_BASE_WANTS_CPUS_H

#include "base/export.h"

/*
 * The option of `tek run` that the program has such a kind by ("--lock"), and the kind; NULL: it
 * has none.
 */
TEK_EXPORT const char *tek_sync__wants_cpus(const char **kind);

#endif
