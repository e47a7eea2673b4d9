/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What code a thread may be taken off in the middle of. */
#include "uthread/zones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

static uintptr_t address_of(void (*function)(void))
{
	return (uintptr_t)function;
}

static void own_function(void) {}

static void find(void)
{
	assert_int_equal(tek__zones_find(), 0);
}

static void the_program_can_be_left_and_the_c_library_cannot(void **state)
{
	(void)state;
	find();
	assert_true(tek__zones_allow(address_of(own_function)));
	assert_true(tek__zones_allow(address_of(own_function)));
	assert_false(tek__zones_allow((uintptr_t)&malloc));
	assert_false(tek__zones_allow((uintptr_t)&abort));
}

/* Each of them: not only the first. */
static void code_that_comes_later_is_known_at_the_second_look(void **state)
{
	(void)state;
	find();
	for (int i = 0; i < 3; i++) {
		void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
		assert_true(code != MAP_FAILED);
		assert_false(tek__zones_allow((uintptr_t)code));
		assert_true(tek__zones_allow((uintptr_t)code));
		/* It stays, so that the next one lies elsewhere. */
	}
	assert_false(tek__zones_allow((uintptr_t)&malloc));
}

static void what_is_no_code_is_never_left(void **state)
{
	(void)state;
	find();
	for (int i = 0; i < 3; i++)
		assert_false(tek__zones_allow(16));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_can_be_left_and_the_c_library_cannot),
		cmocka_unit_test(code_that_comes_later_is_known_at_the_second_look),
		cmocka_unit_test(what_is_no_code_is_never_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
