/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The start of libtek.so in a process, and its end. */
#ifndef TEK_LIFE_START_H
#define TEK_LIFE_START_H

#include <stdbool.h>

/*
 * Begin, once in a process image: find the C library's functions, read the
 * configuration, register for fork.  Cheap afterwards.  Callable from anywhere,
 * from other libraries' constructors too.
 *
 * False: the calling thread performs the start just now.  A function that the start calls may
 * call one of ours: an allocator that counts the CPUs at the first malloc(3).  Such a call goes
 * straight to the C library, by tek__real, which is filled by then.  Other threads wait.
 */
bool tek__start(void);

#endif
