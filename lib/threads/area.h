/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The place of a thread's stack. pthread_getattr_np(3) reports it, but allocates memory, which
 * would give each thread a malloc arena, and makes system calls. So the first threads determine
 * where the C library stores the answer. TEK calls pthread_getattr_np() only where they cannot.
 */
#ifndef TEK_THREADS_AREA_H
#define TEK_THREADS_AREA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

struct tek_area {
	uintptr_t low,
		end; /* usable from low up to, not with, end; the first thread's low may be 0 */
	size_t guard_bytes; /* below low; 0: memory of the program's, or the first thread */
	bool first;         /* it is the process's first thread's */
};

void tek__area_start(void);

/*
 * The calling thread's; the first thread's as far as its limit lets it grow now, low 0 if that
 * is unlimited.  False: not known.  Makes no system call, but for the first thread's and by the
 * first few threads.
 */
bool tek__area_of_self(struct tek_area *area);

/*
 * The same, from the C library: allocates memory, so not under the lock.  From the answers
 * tek__area_of_self() learns too.
 */
bool tek__area_ask(struct tek_area *area);

/* Whether the program gave the memory: pthread_attr_setstack(3). */
bool tek__area_is_given(const pthread_attr_t *attr);

/* Another thread's of this process, which may have ended. One system call. */
bool tek__area_of(pthread_t handle, struct tek_area *area);

#endif
