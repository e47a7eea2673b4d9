/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SCHED_TEK in a pthread_attr_t: a thread that is critical from its creation.
 *
 * POSIX keeps the attribute object opaque, and the C library refuses policies that it does not
 * know. The policy and the priority are two ints in the object. TEK determines their places once:
 * it sets them by the C library's own functions and compares the bytes.
 *
 * So no state lies beside the object. A program can copy it, and the C library's
 * pthread_attr_getschedpolicy() and pthread_attr_getschedparam() return the values that were set.
 */
#ifndef TEK_MEDIATE_ATTR_H
#define TEK_MEDIATE_ATTR_H

#include <pthread.h>
#include <stdbool.h>

/* At start: a sandbox that comes later may not let it ask. */
void tek__attr_start(void);

/* Put SCHED_TEK with priority 0 in. Returns 0, or ENOTSUP if the object cannot hold it. */
int tek__attr_set_policy(pthread_attr_t *attr);

/* Whether SCHED_TEK is in it. */
bool tek__attr_has_policy(const pthread_attr_t *attr);

/* The priority in one that has SCHED_TEK; set returns 0, or EINVAL outside -20...19. */
int tek__attr_priority(const pthread_attr_t *attr);
int tek__attr_set_priority(pthread_attr_t *attr, int priority);

/* SCHED_TEK has been replaced: a nice value means nothing to other policies. */
void tek__attr_clear_priority(pthread_attr_t *attr);

/* Make *plain what *attr is, but with SCHED_OTHER. */
void tek__attr_without_policy(pthread_attr_t *plain, const pthread_attr_t *attr);

#endif
