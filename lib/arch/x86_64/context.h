/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See arch/context.h. */
#ifndef TEK_ARCH_X86_64_CONTEXT_H
#define TEK_ARCH_X86_64_CONTEXT_H

#include <stdint.h>

struct tek_context {
	/*
	 * Where the stack ends.  From there up, in words: control words of SSE and x87, r15, r14,
	 * r13, r12, rbx, rbp, the address to go on at.  tools/gdb/tek.py reads it.
	 */
	uintptr_t *sp;
};

#define TEK_CONTEXT_WORDS 8

void tek__context_switch(struct tek_context *from, const struct tek_context *to);
_Noreturn void tek__context_go(const struct tek_context *to);
int tek__context_call(int (*function)(void));
void tek__context_enter(void);

static inline void tek__context_make(struct tek_context *context, void *top, tek_context_fn *entry,
				     void *argument)
{
	/* The stack is aligned to 16 bytes where a function is called. */
	uintptr_t *sp = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - TEK_CONTEXT_WORDS;
	uint32_t sse;
	uint16_t x87;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(sse), "=m"(x87));
	sp[0] = sse | (uintptr_t)x87 << 32;
	sp[3] = (uintptr_t)argument; /* r13 */
	sp[4] = (uintptr_t)entry;    /* r12 */
	sp[6] = 0;                   /* rbp: the outermost frame */
	sp[7] = (uintptr_t)tek__context_enter;
	context->sp = sp;
}

#endif
