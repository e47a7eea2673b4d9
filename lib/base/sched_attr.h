/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The argument of sched_setattr(2), as the first kernels had it.  The C library has the struct,
 * under the kernel's name, and the functions since version 2.41 only.
 */
#ifndef TEK_BASE_SCHED_ATTR_H
#define TEK_BASE_SCHED_ATTR_H

#include <stdint.h>

struct tek_sched_attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* tek_sched_attr.flags */
enum {
	TEK_ATTR_RESET_ON_FORK = 0x01,
	TEK_ATTR_KEEP_POLICY = 0x08,
	TEK_ATTR_KEEP_PARAMS = 0x10,
};

#endif
