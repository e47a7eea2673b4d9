/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How much of a stack the kernel takes for a signal.  AT_MINSIGSTKSZ says how much that can become at most, with state of
 * the processor that few programs ask for, and which is larger than everything else together.
 */
#ifndef TEK_UTHREAD_POSIX_FRAME_H
#define TEK_UTHREAD_POSIX_FRAME_H

#include <stddef.h>

/* Finds out, by one: after tek__tick_start(). Debuggers do not stop at it. */
void tek__frame_start(void);

/* In bytes: what it was, or what it can be, if that is not known. */
size_t tek__frame_bytes(void);

#endif
