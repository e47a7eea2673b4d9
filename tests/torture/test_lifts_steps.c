/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists of steps are written, read, made of a seed, and shrunk. */
#include "shrink.h"

#include "support.h"

static struct step_list list, again;

static void the_text_of_a_list_is_read_as_the_same_list(void **state)
{
	static char text[1 << 17];

	(void)state;
	for (uint64_t seed = 1; seed < 50; seed++) {
		FILE *file = fmemopen(text, sizeof(text), "w+");
		assert_non_null(file);
		steps_random(&list, seed);
		steps_write(&list, file);
		rewind(file);
		assert_true(steps_read(&again, file));
		fclose(file);
		assert_int_equal(list.count, again.count);
		assert_memory_equal(list.steps, again.steps, list.count * sizeof(list.steps[0]));
	}
}

static void a_line_that_is_no_step_is_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"16 unlock",
		"1 unknown",
		"1 lock",
		"1 lock mutex 8",
		"1 lock rwlock 0",
		"1 sleep",
		"unlock",
		"1 tek slot 16 0",
		"1 cond-wait cond 3",
	};
	struct step step;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_false(step_parse(lines[i], &step));
}

static void a_seed_makes_the_same_list_each_time_and_another_seed_another_one(void **state)
{
	(void)state;
	steps_random(&list, 7);
	steps_random(&again, 7);
	assert_int_equal(list.count, again.count);
	assert_memory_equal(list.steps, again.steps, list.count * sizeof(list.steps[0]));
	steps_random(&again, 8);
	assert_false(list.count == again.count &&
		     memcmp(list.steps, again.steps, list.count * sizeof(list.steps[0])) == 0);
}

static bool never(void *context)
{
	(void)context;
	return false;
}

/* A list fails if it has these three steps in this order. */
static bool has_three(const struct step_list *part, void *context)
{
	static const enum op ops[] = {OP_CREATE, OP_FORK, OP_BREAK};
	unsigned int found = 0;

	(void)context;
	for (unsigned int i = 0; i < part->count && found < 3; i++)
		found += part->steps[i].op == ops[found];
	return found == 3;
}

static void a_list_is_shrunk_to_the_steps_that_make_it_fail(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 20; seed++) {
		steps_random(&list, seed);
		list.steps[20] = (struct step){.op = OP_CREATE, .object = WORKERS};
		list.steps[40] = (struct step){.slot = 1, .op = OP_FORK};
		list.steps[60] = (struct step){.slot = 2, .op = OP_BREAK};
		shrink(&list, has_three, never, NULL);
		assert_int_equal(list.count, 3);
		assert_true(has_three(&list, NULL));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_of_a_list_is_read_as_the_same_list),
		cmocka_unit_test(a_line_that_is_no_step_is_refused),
		cmocka_unit_test(a_seed_makes_the_same_list_each_time_and_another_seed_another_one),
		cmocka_unit_test(a_list_is_shrunk_to_the_steps_that_make_it_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
