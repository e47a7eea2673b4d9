/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The index of kernel ids, beside a list that does the same slowly. */
#include "support.h"

#include "threads/index.h"

enum { IDS = 3000, STEPS = 200000 };

static unsigned int slots[IDS + 1]; /* of each id, plus 1; 0: it is not there */

/* Ids as the kernel gives them: in sequence, with gaps. */
static pid_t id(unsigned int number)
{
	return (pid_t)(number * 7 + number % 3 + 1);
}

static void assert_same(unsigned int number)
{
	unsigned int slot = 0;
	bool found = tek__index_find(id(number), &slot);
	assert_int_equal(found, slots[number] != 0);
	if (found)
		assert_int_equal(slot, slots[number] - 1);
}

static void what_was_put_in_is_found_until_it_is_taken_out(void **state)
{
	(void)state;
	srandom(1);
	for (int step = 0; step < STEPS; step++) {
		unsigned int number = (unsigned int)random() % IDS;
		unsigned int slot = (unsigned int)random() % 32768;
		if (slots[number]) {
			tek__index_remove(id(number), slots[number] - 1);
			slots[number] = 0;
		} else {
			tek__index_insert(id(number), slot);
			slots[number] = slot + 1;
		}
		assert_same(number);
		assert_same((unsigned int)random() % IDS);
	}
	for (unsigned int number = 0; number < IDS; number++)
		assert_same(number);
	assert_false(tek__index_is_incomplete());
}

static void an_id_that_leads_to_another_slot_by_now_stays(void **state)
{
	unsigned int slot;

	(void)state;
	tek__index_insert(40000, 1);
	tek__index_insert(40000, 2);
	tek__index_remove(40000, 1);
	assert_true(tek__index_find(40000, &slot));
	assert_int_equal(slot, 2);
	tek__index_remove(40000, 2);
	assert_false(tek__index_find(40000, &slot));
}

static void no_thread_has_the_id_0(void **state)
{
	unsigned int slot;
	(void)state;
	assert_false(tek__index_find(0, &slot));
}

static void after_a_fork_it_is_empty(void **state)
{
	unsigned int slot;

	(void)state;
	tek__index_insert(40001, 5);
	tek__index_forget();
	assert_false(tek__index_find(40001, &slot));
	tek__index_insert(40001, 6);
	assert_true(tek__index_find(40001, &slot));
	assert_int_equal(slot, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_in_is_found_until_it_is_taken_out),
		cmocka_unit_test(an_id_that_leads_to_another_slot_by_now_stays),
		cmocka_unit_test(no_thread_has_the_id_0),
		cmocka_unit_test(after_a_fork_it_is_empty),
	};
	return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
