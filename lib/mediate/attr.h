/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SCHED_TEK in a pthread_attr_t: a thread that is born critical.
 *
 * POSIX keeps the attribute object opaque and the C library refuses policies it
 * does not know.  The policy and the priority are two ints in it, and where they
 * lie is found out, once, by setting them with the C library's own functions and
 * looking which bytes changed.  So no state is kept beside the object: it can be
 * copied, and pthread_attr_getschedpolicy() and _getschedparam() of the C library
 * read back what was put in.
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
