/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The roles of user-level threads, which rules (TEK_RULES, tek-rules(5)) assign by program and
 * name. All other settings of rules are for threads of the kernel.
 */
#ifndef TEK_UTHREAD_POSIX_ROLES_H
#define TEK_UTHREAD_POSIX_ROLES_H

#include <stdbool.h>

/* Whether there are rules that give one. Constant after the start. */
extern bool tek_ut__roles_any __attribute__((visibility("hidden")));

/* At the start: reads the environment. */
void tek_ut__roles_start(void);

/* TEK_ROLE_BYTES, zero behind the role, that stay; "": none. `name` may be empty: none was set. */
const char *tek_ut__role_of(const char *name);

#endif
