/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stacks of user-level threads by the Stack Tuner's rules (stack/fit.h), with TEK_STACK=auto or
 * tight. A thread without a size from the program gets a measured size. Earlier runs of the
 * program, on kernel threads, measured threads of the same function and the same place of creation.
 */
#ifndef TEK_UTHREAD_POSIX_FIT_H
#define TEK_UTHREAD_POSIX_FIT_H

#include "uthread/posix/attr.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * At the start, with a page size known (base/page.h): reads the environment, and the profile if
 * requested.
 */
void tek_ut__posix_fit_start(void);

/* Sets read->stack_bytes where the rules have a size; whether it did. Not deferred. */
bool tek_ut__posix_fit(struct tek_attr *read, uintptr_t function, uintptr_t call_site);

#endif
