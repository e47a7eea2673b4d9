/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/backtrace.h"

#include "base/module.h"
#include "base/registers.h"

#include <stdbool.h>
#include <string.h>
#include <unwind.h>

enum {
	LONGEST_CYCLE = 4,     /* functions that call each other in turn */
	MOST_FRAMES = 1 << 20, /* some hundred milliseconds */
	MOST_REPEATS = 16,     /* frames that do not lie above the one before: leaves, signals */
};

struct walk {
	struct tek_backtrace *trace;
	uintptr_t start, interrupted;
	uintptr_t frame_address;
	unsigned int frames, odd_frames;
	bool started;
};

static bool repeats(const struct tek_backtrace *trace, unsigned int cycle)
{
	const struct tek_frame *behind = &trace->frames[trace->count];

	for (unsigned int i = 1; i <= cycle; i++)
		if (behind[-(int)i].address != behind[-(int)(i + cycle)].address)
			return false;
	return true;
}

/* Of a recursion one round is enough. */
static void fold(struct tek_backtrace *trace)
{
	for (unsigned int cycle = 1; cycle <= LONGEST_CYCLE && 2 * cycle <= trace->count; cycle++) {
		if (!repeats(trace, cycle))
			continue;
		unsigned int more = cycle;
		for (unsigned int i = 0; i < cycle; i++)
			more += trace->frames[--trace->count].more;
		trace->frames[trace->count - 1].more += more;
		return;
	}
}

void tek__backtrace_add(struct tek_backtrace *trace, uintptr_t address)
{
	struct tek_frame *outer = &trace->frames[TEK_BACKTRACE_INNER];

	if (trace->count < TEK_BACKTRACE_INNER) {
		trace->frames[trace->count++] = (struct tek_frame){.address = address};
		fold(trace);
		return;
	}
	if (trace->outer < TEK_BACKTRACE_OUTER) {
		outer[trace->outer] = (struct tek_frame){.address = address};
		trace->count++;
	} else {
		memmove(outer, outer + 1, (TEK_BACKTRACE_OUTER - 1) * sizeof(*outer));
		outer[TEK_BACKTRACE_OUTER - 1] = (struct tek_frame){.address = address};
		outer[-1].more++;
	}
	trace->outer++;
}

static uintptr_t frame_of(struct _Unwind_Context *context)
{
#ifdef __ARM_EABI__
	enum { STACK_POINTER = 13 };
	return _Unwind_GetGR(context, STACK_POINTER);
#else
	return _Unwind_GetCFA(context);
#endif
}

/* The address of the call, or of the signal. */
static uintptr_t address_of(struct _Unwind_Context *context, uintptr_t interrupted)
{
#ifdef __ARM_EABI__
	uintptr_t address = _Unwind_GetIP(context);
	const bool is_exact = address == interrupted;
#else
	int is_exact = 0;
	uintptr_t address = _Unwind_GetIPInfo(context, &is_exact);
	(void)interrupted;
#endif
	return is_exact ? address : address - 1;
}

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *value)
{
	struct walk *walk = value;
	uintptr_t address = _Unwind_GetIP(context);
	uintptr_t before = walk->frame_address;

	walk->frame_address = frame_of(context);
	/* Stacks grow downwards: a walk that goes round and round would find no end. */
	if (walk->frame_address <= before && ++walk->odd_frames > MOST_REPEATS)
		return _URC_END_OF_STACK;
	if (!address || ++walk->frames > MOST_FRAMES)
		return _URC_END_OF_STACK;
	/* First come our own frames and the kernel's. */
	walk->started = walk->started || address == walk->start;
	if (walk->started)
		tek__backtrace_add(walk->trace, address_of(context, walk->interrupted));
	return _URC_NO_REASON;
}

#ifdef __ARM_EABI__
static bool is_of_another_file(uintptr_t address, uintptr_t other)
{
	uintptr_t bias, other_bias;
	return tek__module_path(address, &bias) && tek__module_path(other, &other_bias) &&
	       bias != other_bias;
}

/*
 * The tables tell nothing of a function that has no frame yet, which is where most overflow, and
 * of memcpy() and the like there are none: both return to where the link register says.
 */
static void walk_from_caller(struct walk *walk, ucontext_t *context)
{
	const uintptr_t caller = context->uc_mcontext.arm_lr;

	if (walk->trace->count == 0)
		tek__backtrace_add(walk->trace, walk->interrupted);
	*walk = (struct walk){.trace = walk->trace};
	walk->start = caller & ~(uintptr_t)1; /* without the bit that tells Thumb code */
	tek__set_program_counter(context, caller);
	_Unwind_Backtrace(step, walk);
}
#endif

void tek__backtrace(struct tek_backtrace *trace, ucontext_t *context)
{
	const uintptr_t counter = tek__program_counter(context);
	struct walk walk = {.trace = trace, .start = counter, .interrupted = counter};

#ifdef __ARM_EABI__
	if (tek__enters_function(context))
		return walk_from_caller(&walk, context);
#endif
	_Unwind_Backtrace(step, &walk);
#ifdef __ARM_EABI__
	if (trace->count <= 1 && is_of_another_file(counter, context->uc_mcontext.arm_lr))
		walk_from_caller(&walk, context);
#endif
}
