/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As much of cmocka as the tests need that tests/cross/run builds for other processors, for which Debian's cross
 * compilers have no cmocka.
 */
#ifndef TESTS_CROSS_CMOCKA_H
#define TESTS_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*test)(void **state);
};

#define cmocka_unit_test(function) \
	{ \
		.name = #function, .test = function \
	}

/* What does not hold ends the program: the tests after it count as failed. */
#define CROSS_CHECK(condition, text) \
	((condition) ? (void)0 \
		     : (fflush(stdout), fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, text), \
			_Exit(1)))

#define assert_true(value) CROSS_CHECK((value), #value)
#define assert_false(value) CROSS_CHECK(!(value), "not " #value)
#define assert_int_equal(one, other) \
	CROSS_CHECK((long long)(one) == (long long)(other), #one " is " #other)
#define assert_int_not_equal(one, other) \
	CROSS_CHECK((long long)(one) != (long long)(other), #one " is not " #other)
#define assert_null(value) CROSS_CHECK((value) == NULL, #value " is NULL")
#define assert_non_null(value) CROSS_CHECK((value) != NULL, #value " is not NULL")
#define assert_ptr_equal(one, other) \
	CROSS_CHECK((const void *)(one) == (const void *)(other), #one " is " #other)
#define assert_string_equal(one, other) CROSS_CHECK(strcmp(one, other) == 0, #one " is " #other)
#define assert_memory_equal(one, other, bytes) \
	CROSS_CHECK(memcmp(one, other, bytes) == 0, #one " is " #other)
#define assert_in_range(value, least, most) \
	CROSS_CHECK((unsigned long long)(value) - (unsigned long long)(least) <= \
			    (unsigned long long)(most) - (unsigned long long)(least), \
		    #value " is in " #least " to " #most)
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), _Exit(1))

#define print_message(...) printf(__VA_ARGS__)
#define skip() longjmp(cross_skipped, 1)

#define cmocka_run_group_tests(tests, setup, teardown) \
	cross_run((tests), sizeof(tests) / sizeof((tests)[0]), (setup), (teardown))

#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
	cmocka_run_group_tests(tests, setup, teardown)

static jmp_buf cross_skipped;

static inline int cross_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **),
			    int (*teardown)(void **))
{
	void *state = NULL;

	printf("1..%zu\n", count);
	if (setup && setup(&state))
		return 1;
	for (volatile size_t i = 0; i < count; i++) {
		fflush(stdout);
		if (setjmp(cross_skipped)) {
			printf("ok %zu - %s # SKIP\n", i + 1, tests[i].name);
			continue;
		}
		tests[i].test(&state);
		printf("ok %zu - %s\n", i + 1, tests[i].name);
	}
	return teardown ? teardown(&state) : 0;
}

#endif
