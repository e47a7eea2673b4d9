/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See arch/context.h. */
#ifndef TEK_ARCH_AARCH64_CONTEXT_H
#define TEK_ARCH_AARCH64_CONTEXT_H

#include <stdint.h>

struct tek_context {
	/*
	 * Where the stack ends.  From there up, in words: x19 to x28, x29 (the frame), x30 (the
	 * address to go on at), d8 to d15, FPCR, one that is unused.  tools/gdb/tek.py reads it.
	 */
	uintptr_t *sp;
};

#define TEK_CONTEXT_WORDS 22

void tek__context_switch(struct tek_context *from, const struct tek_context *to);
_Noreturn void tek__context_go(const struct tek_context *to);
void tek__context_enter(void);

/* A jump to where it returns to would need a landing pad there. */
static inline int tek__context_call(int (*function)(void))
{
	return function();
}

static inline void tek__context_make(struct tek_context *context, void *top, tek_context_fn *entry,
				     void *argument)
{
	/* The stack is always aligned to 16 bytes. */
	uintptr_t *sp = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - TEK_CONTEXT_WORDS;
	uintptr_t control;

	__asm__ volatile("mrs %0, fpcr" : "=r"(control));
	sp[0] = (uintptr_t)entry;    /* x19 */
	sp[1] = (uintptr_t)argument; /* x20 */
	sp[10] = 0;                  /* x29: the outermost frame */
	sp[11] = (uintptr_t)tek__context_enter;
	sp[20] = control;
	context->sp = sp;
}

#endif
