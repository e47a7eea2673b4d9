/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The call chain, in the handler of a signal: the innermost functions and the outermost few. */
#ifndef TEK_BASE_BACKTRACE_H
#define TEK_BASE_BACKTRACE_H

#include <stdint.h>
#include <ucontext.h>

enum { TEK_BACKTRACE_INNER = 24, TEK_BACKTRACE_OUTER = 6 };

struct tek_frame {
	uintptr_t address; /* in the function: of a caller, the last byte of the call */
	unsigned int more; /* frames behind it that were left out: they repeat those before, or are
			       neither innermost nor outermost */
};

struct tek_backtrace {
	unsigned int count;
	unsigned int outer; /* frames that came when it was full: the latest are at the end */
	struct tek_frame frames[TEK_BACKTRACE_INNER + TEK_BACKTRACE_OUTER];
};

/*
 * For the calling thread, from the frame that a signal interrupted; `context` is the handler's.
 * Empty if the frame is not found. Async-signal-safe, but a broken stack makes it fault. The
 * context may then have another program counter, which the caller restores, after a fault too.
 */
void tek__backtrace(struct tek_backtrace *trace, ucontext_t *context);

/* The next frame outwards. */
void tek__backtrace_add(struct tek_backtrace *trace, uintptr_t address);

#endif
