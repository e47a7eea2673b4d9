/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/backtrace.h"

#include <stdbool.h>
#include <string.h>
#include <unwind.h>

enum {
	LONGEST_CYCLE = 4,     /* functions that call each other in turn */
	MOST_FRAMES = 1 << 20, /* some hundred milliseconds */
	MOST_TURNS = 16,       /* frames that do not lie above the one before: leaves, signals */
};

struct walk {
	struct tek_backtrace *trace;
	uintptr_t start;
	uintptr_t frame_address;
	unsigned int frames, turns;
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

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *value)
{
	struct walk *walk = value;
	int is_exact = 0;
	uintptr_t address = _Unwind_GetIPInfo(context, &is_exact);
	uintptr_t before = walk->frame_address;

	walk->frame_address = _Unwind_GetCFA(context);
	/* Stacks grow downwards: a walk that goes round and round would find no end. */
	if (walk->frame_address <= before && ++walk->turns > MOST_TURNS)
		return _URC_END_OF_STACK;
	if (!address || ++walk->frames > MOST_FRAMES)
		return _URC_END_OF_STACK;
	/* First come our own frames and the kernel's. */
	walk->started = walk->started || address == walk->start;
	if (walk->started)
		tek__backtrace_add(walk->trace, is_exact ? address : address - 1);
	return _URC_NO_REASON;
}

void tek__backtrace(struct tek_backtrace *trace, uintptr_t program_counter)
{
	struct walk walk = {.trace = trace, .start = program_counter};
	_Unwind_Backtrace(step, &walk);
}
