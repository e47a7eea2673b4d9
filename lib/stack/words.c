/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/words.h"

#include "base/page.h"
#include "threads/process.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum {
	NEAR_BYTES = 20 * 1024, /* below a frame: what threads mostly use can be touched */
	WORDS = 1024,           /* that are read at a time from another's stack */
	/*
	 * In all, the lock being held: more than the usual stack where that is locked and painted.
	 */
	MOST_WORDS = (12 << 20) / sizeof(uintptr_t),
};

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

bool tek__words_can_read(uintptr_t low, uintptr_t end)
{
	return is_accessible(low, end, MADV_POPULATE_READ);
}

bool tek__words_can_write(uintptr_t low, uintptr_t end)
{
	return is_accessible(low, end, MADV_POPULATE_WRITE);
}

const uintptr_t *tek__words_own(uintptr_t from, size_t words, size_t *count)
{
	bool can = tek__words_can_read(from, from + words * sizeof(from));

	*count = can ? words : 0;
	return (const uintptr_t *)from;
}

/* Guarded by the lock. */
static uintptr_t copied[WORDS];
static uintptr_t copied_to; /* where the last reading ended */
static size_t words_left;   /* that may be read of this stack */

void tek__words_other_begin(void)
{
	words_left = MOST_WORDS;
}

const uintptr_t *tek__words_other(uintptr_t from, size_t words, size_t *count)
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

__attribute__((no_sanitize("address", "thread"), noinline)) size_t
tek__words_same(const uintptr_t *words, size_t count, uintptr_t value)
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
