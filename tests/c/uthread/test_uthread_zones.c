/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The code within which a thread may be preempted. */
#include "uthread/sections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static uintptr_t address_of(void (*function)(void))
{
	return (uintptr_t)function;
}

static void own_function(void) {}

static void find(void)
{
	assert_int_equal(tek_ut__sections_find(), 0);
}

static void the_program_can_be_left_and_the_c_library_cannot(void **state)
{
	(void)state;
	find();
	assert_true(tek_ut__sections_allow(address_of(own_function)));
	assert_true(tek_ut__sections_allow(address_of(own_function)));
	assert_false(tek_ut__sections_allow((uintptr_t)&malloc));
	assert_false(tek_ut__sections_allow((uintptr_t)&abort));
}

/* Each of them: not only the first. */
static void code_that_comes_later_is_known_at_the_second_query(void **state)
{
	(void)state;
	find();
	for (int i = 0; i < 3; i++) {
		void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
		assert_true(code != MAP_FAILED);
		assert_false(tek_ut__sections_allow((uintptr_t)code));
		assert_true(tek_ut__sections_allow((uintptr_t)code));
		/* It stays, so that the next one lies elsewhere. */
	}
	assert_false(tek_ut__sections_allow((uintptr_t)&malloc));
}

static void what_is_no_code_is_never_left(void **state)
{
	(void)state;
	find();
	for (int i = 0; i < 3; i++)
		assert_false(tek_ut__sections_allow(16));
}

static unsigned int ranges_of_code(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	char line[4096];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		count += strchr(line, ' ')[3] == 'x';
	fclose(maps);
	return count;
}

/* The list of ranges grows by doubling: at each size it is full once. */
static void a_full_list_of_ranges_allows_nothing_unknown(void **state)
{
	const size_t page = 4096;
	char *next;

	(void)state;
	for (unsigned int full = 128; full <= 512; full *= 2) {
		/* A gap after each, so that the kernel does not make one of two. */
		while (ranges_of_code() < full) {
			next = mmap(NULL, 2 * page, PROT_READ | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			assert_true(next != MAP_FAILED);
			assert_int_equal(mprotect(next + page, page, PROT_NONE), 0);
		}
		assert_int_equal(ranges_of_code(), full);
		find();
		assert_false(tek_ut__sections_allow(16));
		assert_true(tek_ut__sections_allow(address_of(own_function)));
	}
}

/* The kernel maps from high to low addresses: these ranges precede those of the C library. */
static void code_behind_thousands_of_ranges_is_known(void **state)
{
	const size_t page = 4096, ranges = 4200;

	(void)state;
	char *code = mmap(NULL, 2 * ranges * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code != MAP_FAILED);
	for (size_t i = 0; i < ranges; i++)
		assert_int_equal(mprotect(code + 2 * i * page, page, PROT_READ | PROT_EXEC), 0);
	find();
	if ((uintptr_t)code > (uintptr_t)&malloc) {
		print_message("# this kernel, or qemu-user, maps from low to high addresses\n");
		skip();
	}
	assert_false(tek_ut__sections_allow((uintptr_t)&malloc));
	assert_true(tek_ut__sections_allow((uintptr_t)code));
	void *later = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(later != MAP_FAILED);
	assert_false(tek_ut__sections_allow((uintptr_t)later));
	assert_true(tek_ut__sections_allow((uintptr_t)later));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_can_be_left_and_the_c_library_cannot),
		cmocka_unit_test(code_that_comes_later_is_known_at_the_second_query),
		cmocka_unit_test(what_is_no_code_is_never_left),
		cmocka_unit_test(a_full_list_of_ranges_allows_nothing_unknown),
		cmocka_unit_test(code_behind_thousands_of_ranges_is_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
