/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The report of a stack overflow: with the call chain, as events or as lines. Async-signal-safe. */
#ifndef TEK_BASE_OVERFLOW_TEXT_H
#define TEK_BASE_OVERFLOW_TEXT_H

#include "base/backtrace.h"
#include "tek_abi.h"

#include <stdint.h>

/*
 * `event`: a TEK_EVENT_OVERFLOW; what is in it is changed. `function`: what the thread runs; 0: not
 * known.
 */
void tek__overflow_report(struct tek_event *event, uintptr_t function,
			  const struct tek_backtrace *trace);

#endif
