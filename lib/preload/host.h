/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exec.c and spawn.c are parts of libtek.so and of libtek-uthread.so.  The functions that they call
 * around those of the C library have the prefix of the library: TEK_HOST(start)().
 */
#ifndef TEK_PRELOAD_HOST_H
#define TEK_PRELOAD_HOST_H

#ifdef TEK_HOST_IS_UTHREAD
#include "preload/uthread/exec.h"
#define TEK_HOST(name) tek_ut__##name
#else
#include "life/replace.h"
#include "life/start.h"
#include "threads/process.h"
#define TEK_HOST(name) tek__##name
#endif

#endif
