/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * --stack grow: the low part of a fitted stack, its reserve, cannot be accessed until the thread
 * faults there; then TEK's handler of SIGSEGV gives it more.
 */
#ifndef TEK_STACK_GROW_H
#define TEK_STACK_GROW_H

#include "stack/use.h"

struct tek_thread;

/* How much larger a stack is made, for its reserve. */
size_t tek__grow_reserve(size_t bytes);

/* The calling thread: take its reserve away; give it back when it ends. Need no lock. */
void tek__grow_begin(struct tek_thread *thread);
void tek__grow_end(struct tek_thread *thread);

/* In the handler: whether the fault was in the reserve, and there is more now. */
bool tek__grow_at(struct tek_thread *thread, uintptr_t address);

#endif
