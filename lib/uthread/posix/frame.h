/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stack that the kernel takes for a signal. AT_MINSIGSTKSZ is the most that this can become.
 * The maximum includes processor state which few programs request, larger than all the rest.
 */
#ifndef TEK_UTHREAD_POSIX_FRAME_H
#define TEK_UTHREAD_POSIX_FRAME_H

#include <stddef.h>

/* Measures it, by one tick: after tek_ut__tick_start(). Debuggers do not stop at it. */
void tek_ut__frame_start(void);

/* In bytes: the measured value, or the maximum, if there is none. */
size_t tek_ut__frame_bytes(void);

#endif
