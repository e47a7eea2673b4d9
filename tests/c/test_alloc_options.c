/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TEK_ALLOC: accepted and refused values (crates/tek-command/src/values/alloc.rs has the same
 * tables). */
#include "support.h"

#include "alloc/options.h"

static void a_pool_is_a_number_with_a_unit_or_none(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} read[] = {
		{"tlsf", 0},
		{"pool=65536", 65536},
		{"pool=64K", 65536},
		{"pool=64M", 64 << 20},
		{"pool=1G", 1 << 30},
		{"pool=0064K", 65536},
		{"pool=512G", (size_t)512 << 30},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++) {
		struct tek_alloc_options options = {.pool = 1};
		assert_true(tek_alloc__options_parse(&options, read[i].text));
		assert_int_equal(options.pool, read[i].bytes);
	}
}

static void what_is_not_understood_changes_nothing(void **state)
{
	static const char *const refused[] = {
		"",
		"malloc",
		"TLSF",
		"tlsf ",
		"pool",
		"pool=",
		"pool=0",
		"pool=63K",
		"pool=1T",
		"pool=64m",
		"pool=64MK",
		"pool=+65536",
		"pool=-1",
		"pool= 64M",
		"pool=513G",
		"pool=K",
		"glibc",
		"pool=64M ",
		"pool=64M,tlsf",
		"pool=99999999999999999999",
		"pool=18446744073709551616K",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct tek_alloc_options options = {.pool = 1};
		if (tek_alloc__options_parse(&options, refused[i]) || options.pool != 1)
			fail_msg("%s", refused[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_is_a_number_with_a_unit_or_none),
		cmocka_unit_test(what_is_not_understood_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
