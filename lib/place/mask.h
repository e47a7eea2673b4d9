/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sets of CPUs, of the size that any kernel has; by system calls made by hand, because the C
 * library's are ours too.
 */
#ifndef TEK_PLACE_MASK_H
#define TEK_PLACE_MASK_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define TEK_MASK_BITS 8192 /* the most that Linux can be configured for */
#define TEK_MASK_WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

struct tek_mask {
	unsigned long words[TEK_MASK_BITS / TEK_MASK_WORD_BITS];
};

static inline struct tek_mask tek__mask_of(unsigned int cpu)
{
	struct tek_mask mask = {{0}};
	mask.words[cpu / TEK_MASK_WORD_BITS] = 1ul << cpu % TEK_MASK_WORD_BITS;
	return mask;
}

static inline bool tek__mask_has(const struct tek_mask *mask, unsigned int cpu)
{
	return mask->words[cpu / TEK_MASK_WORD_BITS] >> cpu % TEK_MASK_WORD_BITS & 1;
}

static inline bool tek__mask_equal(const struct tek_mask *one, const struct tek_mask *other)
{
	return memcmp(one, other, sizeof(*one)) == 0;
}

/* Of a thread, 0 being the calling one. False: the kernel does not say. */
static inline bool tek__mask_get(pid_t tid, struct tek_mask *mask)
{
	memset(mask, 0, sizeof(*mask));
	return syscall(SYS_sched_getaffinity, tid, sizeof(*mask), mask) > 0;
}

static inline bool tek__mask_set(pid_t tid, const struct tek_mask *mask)
{
	return syscall(SYS_sched_setaffinity, tid, sizeof(*mask), mask) == 0;
}

#endif
