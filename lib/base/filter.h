/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The effect of a seccomp filter, which a program is about to install, on system calls: a filter
 * may kill a process for a call that the program itself never makes.
 *
 * Runs the filter as the kernel would, without a system call.  Async-signal-safe.
 */
#ifndef TEK_BASE_FILTER_H
#define TEK_BASE_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A call of ours, with arguments as it has them. */
struct tek_filtered_call {
	const char *name;
	int number;
	uint64_t arguments[6];
};

/*
 * The first of `calls` that the filter does not let go on or fail, because it kills the process or
 * the thread, raises SIGSYS, or asks another process; NULL: there is none.
 */
const struct tek_filtered_call *tek__filter_kills(const struct sock_fprog *filter,
						  const struct tek_filtered_call *calls,
						  size_t count);

/* Likewise the first that the filter does not execute. */
const struct tek_filtered_call *tek__filter_refuses(const struct sock_fprog *filter,
						    const struct tek_filtered_call *calls,
						    size_t count);

#endif
