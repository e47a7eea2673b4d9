/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/measure.h"

#include "ident/process.h"
#include "stack/config.h"
#include "stack/present.h"
#include "tek_abi.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum {
	PAINT_BYTE = 0xd7,
	/* Below the frame of the function that paints: what the functions that it calls use. */
	OWN_BYTES = 512,
	/* Below our last frame: what we and the C library still use until the thread is gone, and
	   the next one until it is prepared. */
	LAST_BYTES = 2048,
	NEAR_BYTES = 20 * 1024, /* below a frame: what threads mostly use can be touched */
	KEPT_BYTES = 12 * 1024, /* less than what the C library keeps below its last frame */
	EXACT_BYTES = 1 << 20,  /* the largest stack that --stack exact paints: a millisecond */
	FIRST_BYTES =
		120 << 20,      /* below the first thread's stack nothing else is mapped that far */
	UNTOUCHED_BYTES = 1024, /* of the lowest paint, if a thread never came near to its end */
	FEW_PAGES = 16,
	MANY_PAGES = 4096,
	WORDS = 2048, /* that are read at a time from another's stack */
	/* In all, the lock being held: more than the usual stack where that is locked and painted. */
	MOST_WORDS = (12 << 20) / sizeof(uintptr_t),
};

#define PAINT (UINTPTR_MAX / 0xff * PAINT_BYTE)

static atomic_bool memory_is_locked; /* some of it, or was once */

/* What a look at a stack finds. Addresses. */
struct found {
	uintptr_t lowest;  /* present page */
	uintptr_t bound;   /* nothing below was used */
	uintptr_t certain; /* this was */
	bool at_paint;     /* paint was changed there, so both are right to the byte */
};

/*
 * Whether the calling thread's stack can be touched there: the program may have forbidden it,
 * though hardly near to the frame that it is in.  Linux before 5.14 does not say; then yes.
 */
static bool is_accessible(uintptr_t low, uintptr_t end, int advice)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t page = ~((uintptr_t)tek__page_bytes - 1);
	const int saved = errno;

	if (low <= frame && end > frame - NEAR_BYTES)
		end = frame - NEAR_BYTES;
	if (low >= end)
		return true;
	low &= page;
	bool can = madvise((void *)low, end - low, advice) == 0 ||
		   madvise((void *)(frame & page), tek__page_bytes, advice) != 0;
	errno = saved;
	return can;
}

/* Words of a stack: the calling thread's own, or read by the kernel from another's. */
typedef const uintptr_t *reader(uintptr_t from, size_t words, size_t *count);

static const uintptr_t *read_own(uintptr_t from, size_t words, size_t *count)
{
	bool can = is_accessible(from, from + words * sizeof(from), MADV_POPULATE_READ);

	*count = can ? words : 0;
	return (const uintptr_t *)from;
}

/* Guarded by the lock. */
static uintptr_t copied[WORDS];
static uintptr_t copied_to; /* where the last reading ended */
static size_t words_left;   /* that may be read of this stack */

static const uintptr_t *read_other(uintptr_t from, size_t words, size_t *count)
{
	/* Most stacks say it in their lowest page. */
	size_t wanted = (tek__page_bytes - from % tek__page_bytes) / sizeof(uintptr_t);
	if (from == copied_to)
		wanted = WORDS;
	if (wanted > words)
		wanted = words;
	if (wanted > WORDS)
		wanted = WORDS;
	if (wanted > words_left)
		wanted = words_left;
	struct iovec to = {copied, wanted * sizeof(copied[0])};
	struct iovec there = {(void *)from, wanted * sizeof(copied[0])};
	ssize_t bytes = wanted ? process_vm_readv(tek__pid(), &to, 1, &there, 1, 0) : 0;
	*count = bytes > 0 ? (size_t)bytes / sizeof(copied[0]) : 0;
	words_left -= *count;
	copied_to = from + *count * sizeof(copied[0]);
	return copied;
}

/* How many words from the first on have this value. */
__attribute__((no_sanitize("address", "thread"), noinline)) static size_t
count_same(const uintptr_t *words, size_t count, uintptr_t value)
{
	enum { BLOCK = 32 };
	size_t i = 0;

	for (; i + BLOCK <= count; i += BLOCK) {
		uintptr_t different = 0;
		for (size_t j = 0; j < BLOCK; j++)
			different |= words[i + j] ^ value;
		if (different)
			break;
	}
	while (i < count && words[i] == value)
		i++;
	return i;
}

/* The lowest byte of the word at `address` that is another one than in `before`. */
static uintptr_t lowest_byte(uintptr_t address, uintptr_t word, uintptr_t before)
{
	unsigned int bit = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
				   ? (unsigned int)__builtin_ctzl(word ^ before)
				   : (unsigned int)__builtin_clzl(word ^ before);
	return address + bit / 8;
}

/* Look through [low, end), of which all pages are present and nothing below was used. */
__attribute__((no_sanitize("address", "thread"))) static bool
look_through(const struct tek_stack *stack, reader *read, uintptr_t low, uintptr_t end,
	     struct found *found)
{
	const bool painted = low >= stack->painted_from;
	uintptr_t fill = painted ? stack->fill : 0;

	while (low < end) {
		size_t count, same, wanted = (end - low) / sizeof(uintptr_t);
		const uintptr_t *words = wanted ? read(low, wanted, &count) : NULL;
		if (!words)
			return false;
		if (!count) {
			/* Not to be read: unmapped, forbidden, too much. It may all have been used. */
			if (!found->bound)
				found->bound = low;
			found->at_paint = false;
			return true;
		}
		same = count_same(words, count, fill);
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

static uintptr_t lower(uintptr_t one, uintptr_t other)
{
	return one < other ? one : other;
}

static uintptr_t higher(uintptr_t one, uintptr_t other)
{
	return one > other ? one : other;
}

/*
 * Below the first thread's stack other things may be mapped where its limit is high, but not near
 * to it.
 */
static uintptr_t low_of(const struct tek_stack *stack)
{
	size_t bytes = stack->bytes;

	if (stack->first && (!bytes || bytes > FIRST_BYTES))
		bytes = FIRST_BYTES;
	return stack->end - bytes + stack->reserve_bytes;
}

/* Whether all pages of the painted part were present when it was painted. */
static bool has_no_holes(const struct tek_stack *stack)
{
	return stack->fill == PAINT && (stack->surely_painted || stack->noted_to);
}

static bool look(const struct tek_stack *stack, reader *read, struct found *found)
{
	const uintptr_t low = low_of(stack), known = stack->clean_end;
	const uintptr_t word = ~(uintptr_t)(sizeof(uintptr_t) - 1);
	unsigned int most = 1; /* nearly always it is in the first */
	struct tek_run run = {low, low, false};

	*found = (struct found){0};
	for (uintptr_t from = low; from < (found->lowest ? known : stack->end); from = run.end) {
		if (!tek__present_lowest(from, stack->end, most, &run))
			return false;
		most = most < FEW_PAGES ? FEW_PAGES : most < MANY_PAGES ? 4 * most : most;
		if (run.low >= stack->end)
			break;
		run.low = higher(run.low, low);
		if (!found->lowest)
			found->lowest = run.low;
		if (run.low >= stack->painted_from && run.end < known && has_no_holes(stack))
			run.end = known;
		if (run.low < stack->painted_from && !found->bound)
			found->bound = run.low;
		if (look_through(stack, read, (run.low + ~word) & word,
				 lower(lower(run.end, known), stack->painted_from), found) ||
		    look_through(stack, read, higher(run.low, stack->painted_from),
				 lower(run.end, known) & word, found))
			return true;
	}
	return found->lowest != 0;
}

/*
 * Whether the calling thread has met no page that was not there.  It may have used pages below
 * the paint all the same where locked memory brought them, or if it never wrote to the lowest
 * of the paint (look_at_paint() looks).  A quarter of the price of asking which pages are present.
 */
static bool had_no_page_fault(void)
{
	struct rusage usage;
	int saved = errno;
	bool none = !atomic_load_explicit(&memory_is_locked, memory_order_relaxed) &&
		    getrusage(RUSAGE_THREAD, &usage) == 0 && !usage.ru_minflt && !usage.ru_majflt;

	errno = saved;
	return none;
}

/* The calling thread's, where what was painted is all that can have been used. */
static bool look_at_paint(const struct tek_stack *stack, struct found *found)
{
	const uintptr_t from = stack->painted_from, end = stack->clean_end;
	const size_t words = UNTOUCHED_BYTES / sizeof(uintptr_t);

	if (!stack->noted_to || from >= end || end - from < UNTOUCHED_BYTES ||
	    !had_no_page_fault() || count_same((const uintptr_t *)from, words, PAINT) < words)
		return false;
	*found = (struct found){.lowest = from};
	look_through(stack, read_own, from, end, found);
	return true;
}

static uint32_t bytes_below(uintptr_t end, uintptr_t address)
{
	uintptr_t bytes = end - address;
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* What was found, in bytes. */
static void sum_up(const struct tek_stack *stack, struct found *found, struct tek_stack_use *use)
{
	const bool untouched = !found->bound, hidden = !found->certain;
	/* Of a thread that was not prepared it is not known. */
	const uintptr_t begin = stack->begin ? stack->begin : stack->end;
	unsigned char flags = 0;

	if (!stack->clean_end)
		found->bound = found->lowest;
	else if (untouched)
		found->bound = stack->clean_end;
	found->bound = lower(found->bound, begin);
	found->certain = found->certain ? lower(found->certain, begin) : begin;
	if (!stack->clean_end || (hidden && stack->clean_end < begin))
		flags = TEK_STACK_UNCLEAN;
	else if (found->bound == found->certain && (untouched || found->at_paint))
		flags = TEK_STACK_EXACT;
	*use = (struct tek_stack_use){
		.peak_bytes = bytes_below(stack->end, found->certain),
		.bound_bytes = bytes_below(stack->end, found->bound),
		.flags = flags,
		.unprepared = !stack->clean_end,
	};
}

bool tek__measure_self(const struct tek_stack *stack, struct tek_stack_use *use)
{
	struct found found;

	if (!look(stack, read_own, &found))
		return false;
	sum_up(stack, &found, use);
	return true;
}

/*
 * Whether its thread has not come to its end meanwhile, and painted what was looked at.  It says
 * so first (tek__measure_last()).  Nothing that was read before can be later than this: it is a
 * write, too, of what is there.  A fence would do, but ThreadSanitizer does not know fences.
 */
static bool is_unchanged(const struct tek_stack *stack, uintptr_t clean_end)
{
	uintptr_t *now = (uintptr_t *)&stack->clean_end;
	return __atomic_fetch_add(now, 0, __ATOMIC_SEQ_CST) == clean_end;
}

bool tek__measure_other(const struct tek_stack *stack, struct tek_stack_use *use)
{
	const uintptr_t clean_end = __atomic_load_n(&stack->clean_end, __ATOMIC_ACQUIRE);
	struct tek_stack now = {
		.bytes = stack->bytes,
		.end = stack->end,
		.reserve_bytes = stack->reserve_bytes,
		.first = stack->first,
		.begin = __atomic_load_n(&stack->begin, __ATOMIC_RELAXED),
		.clean_end = clean_end,
	};
	struct found found;

	if (clean_end) {
		now.painted_from = stack->painted_from;
		now.fill = stack->fill;
		now.noted_to = stack->noted_to;
		now.surely_painted = stack->surely_painted;
	}
	words_left = MOST_WORDS;
	if (!look(&now, read_other, &found))
		return false;
	sum_up(&now, &found, use);
	return is_unchanged(stack, clean_end);
}

bool tek__measure_other_roughly(const struct tek_stack *stack, struct tek_stack_use *use)
{
	const uintptr_t clean_end = __atomic_load_n(&stack->clean_end, __ATOMIC_ACQUIRE);
	struct tek_run run;

	if (!clean_end || stack->first ||
	    !tek__present_lowest(low_of(stack), stack->end, 1, &run) || !run.surely_written ||
	    run.low >= stack->painted_from || run.low < low_of(stack))
		return tek__measure_other(stack, use);
	*use = (struct tek_stack_use){
		.peak_bytes = bytes_below(stack->end, run.low + tek__page_bytes - 1),
		.bound_bytes = bytes_below(stack->end, run.low),
	};
	return is_unchanged(stack, clean_end);
}

static bool paint(uintptr_t low, uintptr_t end)
{
	if (!is_accessible(low, end, MADV_POPULATE_WRITE))
		return false;
	memset((void *)low, PAINT_BYTE, end - low);
	return true;
}

/* What is present of [low, end), and nothing else. False: not known. */
static bool paint_present(uintptr_t low, uintptr_t end, uintptr_t *lowest, bool *holes)
{
	struct tek_run run = {low, low, false};
	bool any = false;

	*lowest = end;
	for (uintptr_t from = low; from < end; from = run.end) {
		if (!tek__present_lowest(from, end, MANY_PAGES, &run))
			return false;
		if (run.low >= end)
			break;
		run.low = higher(run.low, low);
		*holes |= any && run.low > from;
		if (!any)
			*lowest = run.low;
		any = true;
		if (!paint(run.low, lower(run.end, end)))
			return false;
	}
	return true;
}

/* A stack that the program gave: up to where what is present has one value, the same all the way. */
static void look_beforehand(struct tek_stack *stack, uintptr_t end)
{
	const uintptr_t low = (low_of(stack) + sizeof(low) - 1) & ~(sizeof(low) - 1);
	uintptr_t clean = 0, from = 0, value = 0;
	struct tek_run run;
	bool holes = false, dirty = false;

	for (uintptr_t at = low; at < end && !dirty; at = run.end) {
		if (!tek__present_lowest(at, end, MANY_PAGES, &run))
			return;
		if (run.low >= end)
			break;
		run.low = higher(run.low, low);
		if (!is_accessible(run.low, lower(run.end, end), MADV_POPULATE_READ))
			return;
		holes |= clean && run.low > at;
		if (!clean) {
			value = *(const uintptr_t *)run.low;
			from = run.low;
		}
		size_t words = (lower(run.end, end) - run.low) / sizeof(uintptr_t);
		size_t same = count_same((const uintptr_t *)run.low, words, value);
		clean = run.low + same * sizeof(uintptr_t);
		dirty = same < words;
	}
	stack->fill = value;
	stack->surely_painted = value && !holes;
	stack->painted_from = value ? from : clean;
	if (!dirty)
		__atomic_store_n(&stack->begin, clean, __ATOMIC_RELAXED);
	__atomic_store_n(&stack->clean_end, clean, __ATOMIC_RELEASE);
}

static bool is_to_be_exact(const struct tek_stack *stack)
{
	return tek__stack_config.exact && !stack->first && stack->bytes <= EXACT_BYTES;
}

__attribute__((noinline)) void tek__measure_prepare(struct tek_stack *stack)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t end = (frame - OWN_BYTES) & ~(uintptr_t)15, low = low_of(stack);
	bool holes = false;

	if (end <= low || frame >= stack->end)
		return; /* it runs on another stack */
	__atomic_store_n(&stack->begin, frame, __ATOMIC_RELAXED);
	if (stack->flags & TEK_STACK_OWN) {
		look_beforehand(stack, end);
		return;
	}
	uintptr_t from = stack->painted_from;
	bool noted = stack->noted_to && stack->noted_to <= end &&
		     *(const uintptr_t *)(stack->noted_to - sizeof(uintptr_t)) == PAINT;
	if (is_to_be_exact(stack)) {
		from = low;
		noted = false;
		if (!paint(low, end))
			return;
	} else if (noted) {
		memset((void *)stack->noted_to, PAINT_BYTE, end - stack->noted_to);
	} else if (!paint_present(low, end, &from, &holes)) {
		return;
	}
	stack->painted_from = from;
	stack->noted_to = noted ? stack->noted_to : 0;
	stack->fill = PAINT;
	stack->surely_painted = !noted && !holes;
	__atomic_store_n(&stack->begin, end, __ATOMIC_RELAXED);
	__atomic_store_n(&stack->clean_end, end, __ATOMIC_RELEASE);
}

void tek__measure_begin_late(struct tek_stack *stack)
{
	struct tek_run run;

	stack->begin = (uintptr_t)__builtin_frame_address(0);
	if (!tek__present_lowest(low_of(stack), stack->end, 1, &run))
		return;
	stack->painted_from = stack->clean_end = higher(run.low, low_of(stack));
}

/*
 * Paint what was used, up to `to`, for the thread that gets this stack next; below, it holds
 * paint already, or nothing.  What the C library is about to drop is dropped now, which costs it
 * nothing any more; of a stack whose pages are locked it cannot drop anything.
 */
static bool paint_for_next(struct tek_stack *stack, const struct found *found, uintptr_t to)
{
	const uintptr_t page = ~((uintptr_t)tek__page_bytes - 1);
	uintptr_t from = lower(found->bound, found->certain), keep = (to & page) - KEPT_BYTES;
	bool fresh = found->lowest < stack->painted_from, holes = false;

	stack->left_from = stack->painted_from;

	if (from & (sizeof(uintptr_t) - 1))
		from &= ~(sizeof(uintptr_t) - 1);
	if (from >= to)
		return found->lowest < to;
	if (from < keep - tek__page_bytes &&
	    madvise((void *)(found->lowest & page), keep - (found->lowest & page), MADV_DONTNEED) ==
		    0) {
		memset((void *)keep, PAINT_BYTE, to - keep);
		stack->left_from = keep;
		return true;
	}
	if (!fresh)
		return paint(from, to);
	return paint_present(found->lowest, to, &stack->left_from, &holes) && !holes &&
	       stack->left_from < to;
}

__attribute__((noinline)) bool tek__measure_last(struct tek_stack *stack, struct tek_stack_use *use)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t to = (frame - LAST_BYTES) & ~(uintptr_t)15;
	struct found found;

	if (!look_at_paint(stack, &found) && !look(stack, read_own, &found))
		return false;
	sum_up(stack, &found, use);
	if (stack->flags & TEK_STACK_OWN || stack->first || stack->fill != PAINT ||
	    frame >= stack->end || to <= stack->end - stack->bytes)
		return true;
	/* Nobody may take the new paint for what this thread wrote. */
	__atomic_exchange_n(&stack->clean_end, 0, __ATOMIC_SEQ_CST);
	if (paint_for_next(stack, &found, to))
		stack->left_to = to;
	return true;
}

void tek__measure_memory_is_locked(void)
{
	atomic_store_explicit(&memory_is_locked, true, memory_order_relaxed);
}

void tek__measure_forget(void)
{
	tek__present_forget();
}
