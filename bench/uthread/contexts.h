/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A way of switching between two contexts, each measured by `contexts`. */
#ifndef UTHREAD_CONTEXTS_H
#define UTHREAD_CONTEXTS_H

#include <stdint.h>

#define CONTEXT_STACK_BYTES (64 << 10)

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Each switches so often to another context on `stack`, which at once switches back, and so to and
 * fro; the other context is left as it is then. Twice as many switches as `times`.
 */
typedef void context_fn(char *stack, uint64_t times);

context_fn switch_tek, switch_boost, switch_swapcontext;

#ifdef __cplusplus
}
#endif
#endif
