/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions of threads that are in the profile, and sites that threads were created at. */
#ifndef TESTS_KINDS_SUPPORT_H
#define TESTS_KINDS_SUPPORT_H

#include "profile_support.h"

/* In the profile. */
static inline void known(void) {}
static inline void settled(void)
{
	__asm__ volatile("" : : "r"(1)); /* or it would be the same as known() */
}

static inline bool measure(uintptr_t function, uint32_t peak)
{
	struct tek_thread thread = made_up(function, 0x77);
	thread.stack.site = tek__site_of(&thread);
	bool wanted = tek__site_wants_measure(thread.stack.site);
	if (wanted)
		note(&thread, peak);
	return wanted;
}

enum { SETTLED_RUNS = 5 };

static inline void print_kinds(FILE *profile)
{
	char rest[40];

	snprintf(rest, sizeof(rest), "bound=%d threads=3", KNOWN_BOUND);
	print_kind(profile, (uintptr_t)known, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d threads=64 runs=%d", KNOWN_BOUND, SETTLED_RUNS);
	print_kind(profile, (uintptr_t)settled, 0, rest);
}

#define MADE_UP(test) cmocka_unit_test_setup_teardown(test, take_lock, give_lock)

#endif
