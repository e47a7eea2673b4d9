/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TEK_ALLOC: accepted and refused values. */
#include "vectors.h"

#include "alloc/options.h"
#include "tek_options.h"

static void check_option(const struct vector *vector)
{
	struct tek_alloc_options options = {.pool = 1};

	if (!vector_is(vector, "TEK_ALLOC"))
		return;
	const bool taken = tek_alloc__options_parse(&options, vector->words[2]);
	vector_assert(vector, taken == (strcmp(vector->words[1], "taken") == 0));
	vector_assert(vector, options.pool == (taken ? strtoull(vector->words[3], NULL, 10) : 1));
}

static void values_are_read_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("options.txt", check_option);
}

static void the_largest_pool_depends_on_the_word_size(void **state)
{
	const bool wide = SIZE_MAX > UINT32_MAX;
	struct tek_alloc_options options = {.pool = 1};

	(void)state;
	assert_int_equal(tek_alloc__options_parse(&options, "pool=512G"), wide);
	assert_true(options.pool == (wide ? TEK_POOL_MOST : 1));
	assert_true(tek_alloc__options_parse(&options, "pool=1G"));
	assert_int_equal(options.pool, TEK_POOL_MOST_32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_read_as_tek_does),
		cmocka_unit_test(the_largest_pool_depends_on_the_word_size),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
