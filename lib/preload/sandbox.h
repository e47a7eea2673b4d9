/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that confine themselves with seccomp(2).  Where the filter would kill the process for a
 * system call that TEK makes and the program need not make, TEK stands down before it is installed:
 * all threads have what they had without TEK, and from then on every call of the program goes
 * straight to the C library.
 */
#ifndef TEK_PRELOAD_SANDBOX_H
#define TEK_PRELOAD_SANDBOX_H

struct sock_fprog;

/* Before prctl(2) with PR_SET_SECCOMP, or seccomp(2).  `filter`: NULL for the strict mode. */
void tek__sandbox_comes(const struct sock_fprog *filter);

#endif
