/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stacks of user-level threads by the Stack Tuner's rules (stack/fit.h): with TEK_STACK=auto or tight a thread
 * whose size the program did not choose gets what earlier runs of the program, on kernel threads, learnt of those
 * that run the same function and are created at the same place.
 */
#ifndef TEK_UTHREAD_POSIX_FIT_H
#define TEK_UTHREAD_POSIX_FIT_H

#include "uthread/posix/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* At the start, with a page size known (ident/process.h): reads the environment, and the profile if it is asked for. */
void tek__posix_fit_start(void);

/* Sets read->stack_bytes where there is something to be set; whether it did. Not deferred. */
bool tek__posix_fit(struct tek_attr *read, uintptr_t function, uintptr_t call_site);

#endif
