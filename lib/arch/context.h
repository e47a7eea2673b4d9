/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Contexts: the saved state of a thread, on a stack of its own.
 *
 *   tek__context_make()    makes a context that will call entry(argument), on the stack that ends
 *                          at `top`. Then it continues with the context that entry() returns, and
 *                          never comes back.
 *   tek__context_switch()  saves the calling context and continues with another one, without a
 *                          system call. Returns when a context switches back. Signal masks stay
 *                          as they are.
 *   tek__context_go()      continues with another context; the calling one is not saved
 *   tek__context_call()    calls a function that may switch, as the last act of an interposed
 *                          symbol. It returns by a jump, because a switch makes the processor
 *                          mispredict a return instruction.
 *
 * A context that left in a signal handler needs no special switch: the frame that the kernel made
 * for the handler contains all registers of the interrupted code.
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
