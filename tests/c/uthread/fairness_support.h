/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times, and the stop of threads that compute. */
#ifndef TESTS_FAIRNESS_SUPPORT_H
#define TESTS_FAIRNESS_SUPPORT_H

#include "uthread_support.h"

#include <stdatomic.h>

#define MS 1000000ull

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEK_TSAN
#endif
#endif

/* The time after which tests that repeat a step end. */
#define ENOUGH_NS (5000 * MS)

static atomic_bool stop;

/* Skips a test of threads that only compute, where they cannot be taken off their worker. */
static inline void need_ticks(void)
{
#if defined(__SANITIZE_THREAD__) || defined(TEK_TSAN)
	print_message("# ThreadSanitizer keeps signals back while a thread only computes\n");
	skip();
#endif
}

#endif
