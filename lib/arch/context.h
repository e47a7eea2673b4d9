/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Contexts: the saved state of a thread, on a stack of its own.
 *
 *   tek__context_make()    a context that will call entry(argument), on the stack that ends at
 *                          `top`, and then go on with the context that it returns, for good
 *   tek__context_switch()  leaves the calling context and goes on with another, without a system
 *                          call; returns when another context switches back.  Signal masks stay
 *                          as they are.
 *   tek__context_go()      goes on with another for good: the calling context is not saved
 *   tek__context_call()    calls a function of the program's that may switch, as the last thing
 *                          before the program's own code goes on: so the processor predicts
 *                          where that is
 *
 * A context that left in a signal handler is switched back to like any other: all its registers lie
 * in the frame that the kernel made for the handler.
 */
#ifndef TEK_ARCH_CONTEXT_H
#define TEK_ARCH_CONTEXT_H

struct tek_context;
typedef const struct tek_context *tek_context_fn(void *argument);

#if defined(__x86_64__)
#include "arch/x86_64/context.h"
#elif defined(__aarch64__)
#include "arch/aarch64/context.h"
#else
#include "arch/portable/context.h"
#endif

#endif
