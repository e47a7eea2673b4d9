/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * futex(2) by syscall(2): C++20, Rust, GLib and TBB wait so. A user-level thread first lets other
 * threads run for a while, since one of them may wake it. Then it waits without its worker
 * (aside.h).
 */
#ifndef TEK_UTHREAD_POSIX_FUTEX_H
#define TEK_UTHREAD_POSIX_FUTEX_H

#include <stdbool.h>

struct tek_state_call;

/* Whether a call with these arguments waits. */
bool tek_ut__futex_waits(const unsigned long *argument);

/* The result of such a call, which make(call) makes. By a user-level thread. */
long tek_ut__futex_wait(const unsigned long *argument, long (*make)(const struct tek_state_call *),
			const struct tek_state_call *call);

#endif
