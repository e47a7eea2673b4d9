/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/examine.h"

#include "stack/paint.h"
#include "tek_abi.h"
#include "threads/present.h"
#include "threads/process.h"

enum {
	/* Below the first thread's stack nothing else is mapped that far. */
	FIRST_BYTES = 120 << 20,
	FEW_PAGES = 16,
};

/*
 * Below the first thread's stack other things may be mapped where its limit is high, but not near
 * to it.
 */
uintptr_t tek__examine_low(const struct tek_stack *stack)
{
	size_t bytes = stack->bytes;

	if (stack->first && (!bytes || bytes > FIRST_BYTES))
		bytes = FIRST_BYTES;
	return stack->end - bytes + stack->reserve_bytes;
}

/* The lowest byte of the word at `address` that is another one than in `before`. */
static uintptr_t lowest_byte(uintptr_t address, uintptr_t word, uintptr_t before)
{
	unsigned int bit = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
				   ? (unsigned int)__builtin_ctzl(word ^ before)
				   : (unsigned int)__builtin_clzl(word ^ before);
	return address + bit / 8;
}

__attribute__((no_sanitize("address", "thread"))) bool
tek__examine_range(const struct tek_stack *stack, tek_words_reader *read, uintptr_t low,
		   uintptr_t end, struct tek_found *found)
{
	const bool painted = low >= stack->painted_from;
	uintptr_t fill = painted ? stack->fill : 0;

	while (low < end) {
		size_t count, same, wanted = (end - low) / sizeof(uintptr_t);
		const uintptr_t *words = wanted ? read(low, wanted, &count) : NULL;
		if (!words)
			return false;
		if (!count) {
			/*
			 * Not to be read: unmapped, forbidden, too much. It may all have been used.
			 */
			if (!found->bound)
				found->bound = low;
			found->at_paint = false;
			return true;
		}
		same = tek__words_same(words, count, fill);
		if (same < count && painted && !found->bound) {
			found->bound = lowest_byte(low + same * sizeof(words[0]), words[same],
						   fill);
			found->at_paint = true;
		}
		if (same < count && painted && !stack->surely_painted && !words[same]) {
			/* Zeros: written, or of a page that was taken away and came back. */
			found->at_paint = false;
			fill = 0;
			low += same * sizeof(words[0]);
			continue;
		}
		if (same < count && fill != (painted ? stack->fill : 0) &&
		    words[same] == stack->fill) {
			fill = stack->fill; /* paint again, of the next page */
			low += same * sizeof(words[0]);
			continue;
		}
		if (same < count) {
			found->certain = lowest_byte(low + same * sizeof(words[0]), words[same],
						     fill);
			return true;
		}
		low += count * sizeof(words[0]);
	}
	return false;
}

/* Whether all pages of the painted part were present when it was painted. */
static bool has_no_holes(const struct tek_stack *stack)
{
	return stack->fill == TEK_PAINT && (stack->surely_painted || stack->noted_to);
}

bool tek__examine(const struct tek_stack *stack, tek_words_reader *read, struct tek_found *found)
{
	const uintptr_t low = tek__examine_low(stack), known = stack->clean_end;
	const uintptr_t word = ~(uintptr_t)(sizeof(uintptr_t) - 1);
	unsigned int most = 1; /* nearly always it is in the first */
	struct tek_run run = {low, low, false};

	*found = (struct tek_found){0};
	for (uintptr_t from = low; from < (found->lowest ? known : stack->end); from = run.end) {
		if (!tek__present_lowest(from, stack->end, most, &run))
			return false;
		most = most < FEW_PAGES ? FEW_PAGES : most < TEK_MANY_PAGES ? 4 * most : most;
		if (run.low >= stack->end)
			break;
		run.low = tek__higher(run.low, low);
		if (!found->lowest)
			found->lowest = run.low;
		if (run.low >= stack->painted_from && run.end < known && has_no_holes(stack))
			run.end = known;
		if (run.low < stack->painted_from && !found->bound)
			found->bound = run.low;
		if (tek__examine_range(stack, read, (run.low + ~word) & word,
				       tek__lower(tek__lower(run.end, known), stack->painted_from),
				       found) ||
		    tek__examine_range(stack, read, tek__higher(run.low, stack->painted_from),
				       tek__lower(run.end, known) & word, found))
			return true;
	}
	return found->lowest != 0;
}

void tek__examine_sum_up(const struct tek_stack *stack, struct tek_found *found,
			 struct tek_stack_use *use)
{
	const bool untouched = !found->bound, hidden = !found->certain;
	/* Of a thread that was not prepared it is not known. */
	const uintptr_t begin = stack->begin ? stack->begin : stack->end;
	unsigned char flags = 0;

	if (!stack->clean_end)
		found->bound = found->lowest;
	else if (untouched)
		found->bound = stack->clean_end;
	found->bound = tek__lower(found->bound, begin);
	found->certain = found->certain ? tek__lower(found->certain, begin) : begin;
	/* Pages that were not there before are the thread's own. */
	const bool has_own = stack->is_late && found->bound < stack->clean_end;
	if (!stack->clean_end || (hidden && stack->clean_end < begin && !has_own))
		flags = TEK_STACK_UNCLEAN;
	else if (found->bound == found->certain && (untouched || found->at_paint))
		flags = TEK_STACK_EXACT;
	*use = (struct tek_stack_use){
		.peak_bytes = tek__examine_bytes(stack->end, found->certain),
		.bound_bytes = tek__examine_bytes(stack->end, found->bound),
		.flags = flags,
		.unprepared = !stack->clean_end,
	};
}
