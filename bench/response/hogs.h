/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CPU-bound threads, as many in each of the paper's four groups (tek-2020, V-C). */
#ifndef APPLIANCE_HOGS_H
#define APPLIANCE_HOGS_H

#include "options.h"

/* Add the threads. Call before threads_start(). */
void hogs_add(const struct options *options);

/* How many there are. */
unsigned hogs_count(const struct options *options);

#endif
