/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of the Stack Tuner share. */
#ifndef TEK_TESTS_STACK_SUPPORT_H
#define TEK_TESTS_STACK_SUPPORT_H

#include "support.h"

#include "base/sanitizer.h"
#include "threads/present.h"

#include <alloca.h>

/* Measuring is asked for in the environment, before the process begins. */
static inline void measure_in(char **arguments, const char *options)
{
	if (!getenv("TEK_STACK")) {
		setenv("TEK_STACK", options, 1);
		execv("/proc/self/exe", arguments);
		abort();
	}
}

static inline void what_stacks_hold_is_measured(void **state)
{
	(void)state;
	print_message("# a sanitizer is loaded, which switches the Stack Tuner off\n");
	skip();
}

/* For main(): a sanitizer switches the Stack Tuner off. */
static inline bool cannot_measure(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_stacks_hold_is_measured)};

	if (tek__sanitizer_is_loaded())
		cmocka_run_group_tests(tests, NULL, NULL);
	return tek__sanitizer_is_loaded();
}

/* The address behind the calling thread's stack, as the C library says it. */
static inline __attribute__((unused)) uintptr_t stack_end(void)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_destroy(&attr);
	return (uintptr_t)low + bytes;
}

/* pthread_getattr_np(3) leaves out what lies above the program's arguments. */
static inline uintptr_t first_stack_end(void)
{
	unsigned long low, end = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &low, &end) == 2)
			break;
	fclose(maps);
	return end;
}

static inline void *nothing(void *argument)
{
	return argument;
}

/* TEK learns from the first threads where the C library keeps what it knows of a stack. */
static inline void run_some_threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
		pthread_join(thread, NULL);
	}
}

/* Write each byte of so much of the stack, downwards. Returns the lowest address written. */
__attribute__((noinline, unused)) static uintptr_t use_stack(size_t bytes)
{
	volatile char *buffer = alloca(bytes);
	for (size_t i = bytes; i-- > 0;)
		buffer[i] = 'x';
	return (uintptr_t)buffer;
}

/* The best way of asking for pages that this kernel has: that of Linux 6.7, or pagemap. */
__attribute__((unused)) static unsigned int first_way(void)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const unsigned int before = tek__present_ways;
	struct tek_run run;
	char here = 0;
	const uintptr_t low = (uintptr_t)&here & ~(page - 1);

	tek__present_ways = TEK_PRESENT_SCAN;
	const bool scans = tek__present_lowest(low, low + page, 1, &run);
	tek__present_ways = before;
	return scans ? TEK_PRESENT_SCAN : TEK_PRESENT_PAGEMAP;
}

/* Of so much only the lowest byte. */
__attribute__((noinline, unused)) static uintptr_t skip_stack(size_t bytes)
{
	volatile char *buffer = alloca(bytes);
	buffer[0] = 'x';
	return (uintptr_t)buffer;
}

/* In frames. */
__attribute__((noinline, unused)) static uintptr_t recurse(unsigned int levels)
{
	volatile char frame[200];
	frame[0] = 'x';
	const uintptr_t lowest = levels ? recurse(levels - 1) : UINTPTR_MAX;
	const uintptr_t here = (uintptr_t)frame + frame[0] - 'x';
	return lowest < here ? lowest : here;
}

#endif
