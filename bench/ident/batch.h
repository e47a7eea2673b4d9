/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The time of a call that takes some nanoseconds: a batch of calls is timed as a whole.
 * Batches are short, about 1 ms, so that most are over before another thread gets the CPU,
 * and the median of many is one of those.
 */
#ifndef IDENT_BATCH_H
#define IDENT_BATCH_H

#include <stdint.h>

/* A call that is measured: make it so many times; 0 or the error of one that failed. */
typedef int batch_fn(uint64_t times);

/* How many calls a batch of 1 ms has, and at least 1. */
uint64_t batch_size(batch_fn *call);

/* ns for each call of a batch of so many. */
double batch_ns(batch_fn *call, uint64_t times);

#endif
