/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The identity of the calling thread, without a system call once it is known. */
#ifndef TEK_SYNC_SELF_H
#define TEK_SYNC_SELF_H

#include "sync/forked.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * The kernel's id and the process in which it was queried. A child's thread inherits the memory,
 * not the id.
 */
struct tek_sync_id {
	pid_t tid;
	unsigned int process;
};
extern __thread struct tek_sync_id tek_sync__id
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

__attribute__((cold, noinline)) pid_t tek_sync__ask_tid(void);

/* For kernel threads. Not for the child of a vfork(), which has its parent's variables. */
static inline pid_t tek_sync__gettid(void)
{
	return __builtin_expect(tek_sync__id.process == tek_sync__process(), 1)
		       ? tek_sync__id.tid
		       : tek_sync__ask_tid();
}

/* 0: the thread has no number yet. */
extern __thread uintptr_t tek_sync__serial
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

__attribute__((cold, noinline)) uintptr_t tek_sync__take_serial(void);

/*
 * A number that no other thread of the process has or had; not 0. A child's thread keeps its
 * number.
 */
static inline uintptr_t tek_sync__self(void)
{
	return __builtin_expect(tek_sync__serial != 0, 1) ? tek_sync__serial
							  : tek_sync__take_serial();
}

#endif
