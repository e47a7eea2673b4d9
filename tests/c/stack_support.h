/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of the Stack Tuner share. */
#ifndef TEK_TESTS_STACK_SUPPORT_H
#define TEK_TESTS_STACK_SUPPORT_H

#include "support.h"

#include "ident/sanitizer.h"

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

/* Write each byte of so much of the stack, downwards. Returns the lowest address written. */
__attribute__((noinline, unused)) static uintptr_t use_stack(size_t bytes)
{
	volatile char *buffer = alloca(bytes);
	for (size_t i = bytes; i-- > 0;)
		buffer[i] = 'x';
	return (uintptr_t)buffer;
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
	uintptr_t lowest = levels ? recurse(levels - 1) : (uintptr_t)frame;
	return lowest < (uintptr_t)frame + frame[0] - 'x' ? lowest : (uintptr_t)frame;
}

#endif
