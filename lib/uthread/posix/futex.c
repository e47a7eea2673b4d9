/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/futex.h"

#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>

bool tek_ut__futex_waits(const unsigned long *argument)
{
	const unsigned int operation = (unsigned int)argument[1] & FUTEX_CMD_MASK;

	return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
}

long tek_ut__futex_wait(const unsigned long *argument, long (*make)(const struct tek_state_call *),
			const struct tek_state_call *call)
{
	const uint32_t *word = (const uint32_t *)argument[0];
	const bool has_limit = argument[3] != 0;
	unsigned int times = 0;

	/* With a time limit it waits at once: the kernel handles the limit. */
	do {
		if (word && __atomic_load_n(word, __ATOMIC_RELAXED) != (uint32_t)argument[2])
			return tek_ut__fail(EAGAIN);
	} while (word && !has_limit && tek_ut__aside_is_patient(&times));
	/* Allocators have locks of their own, with such calls: tcmalloc's. */
	tek_ut__aside_begin_in_allocator();
	const long result = make(call);
	tek_ut__aside_end();
	return result;
}
