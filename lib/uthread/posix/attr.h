/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The contents of a pthread_attr_t. The object is the C library's, and so are the functions that
 * set it; here it is read, with those that get.
 */
#ifndef TEK_UTHREAD_POSIX_ATTR_H
#define TEK_UTHREAD_POSIX_ATTR_H

#include "uthread/posix/record.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_attr {
	bool detached;
	size_t stack_bytes; /* 0: not set */
	char *stack;        /* the program's own memory, of stack_bytes; NULL: none */
	size_t guard_bytes;
	bool explicit_sched; /* PTHREAD_EXPLICIT_SCHED: the next two count */
	int policy, priority;
	bool has_mask; /* pthread_attr_setsigmask_np(): the next one counts */
	uint64_t mask;
};

/* Reads the values of unset attributes. Before threads are made. */
void tek_ut__attr_start(void);

/* pthread_setattr_default_np() has changed the meaning of NULL. */
void tek_ut__attr_default_changed(void);

/* `attr` may be NULL. 0, EINVAL, or EPERM: a policy or priority that does not exist. */
int tek_ut__attr_read(const pthread_attr_t *attr, struct tek_attr *read);

/* pthread_getattr_np(3) of a user-level thread. */
int tek_ut__attr_of(struct tek_posix *posix, pthread_attr_t *attr);

#endif
