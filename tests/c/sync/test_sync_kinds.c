/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each kind of abi/tek_options.h has in lib/sync the name that the list gives it. */
#include "support.h"

#include "sync/barrier.h"
#include "sync/lock.h"
#include "sync/rwlock.h"

static void each_lock_has_the_name_of_the_list(void **state)
{
	unsigned int i = 0;

	(void)state;
#define LOCK(kind, text, words) \
	assert_string_equal(tek_sync__lock_kinds[i]->name, text); \
	assert_string_equal(tek_sync__lock_kind_about(i++), words); \
	assert_ptr_equal(tek_sync__lock_kind_named(text), &tek_sync__lock_##kind);
	TEK_LOCK_KINDS(LOCK)
	assert_null(tek_sync__lock_kinds[i]);
	assert_null(tek_sync__lock_kind_about(i));
}

static void each_read_write_lock_has_the_name_of_the_list(void **state)
{
	unsigned int i = 0;

	(void)state;
#define RWLOCK(kind, text, words) \
	assert_string_equal(tek_sync__rwlock_kinds[i++]->name, text); \
	assert_ptr_equal(tek_sync__rwlock_kind_named(text), &tek_sync__rwlock_##kind);
	TEK_RWLOCK_KINDS(RWLOCK)
	assert_null(tek_sync__rwlock_kinds[i]);
}

static void each_barrier_has_the_name_of_the_list(void **state)
{
	unsigned int i = 0;

	(void)state;
#define BARRIER(kind, text, words) \
	assert_string_equal(tek_sync__barrier_kinds[i++]->name, text); \
	assert_ptr_equal(tek_sync__barrier_kind_named(text), &tek_sync__barrier_##kind);
	TEK_BARRIER_KINDS(BARRIER)
	assert_null(tek_sync__barrier_kinds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_lock_has_the_name_of_the_list),
		cmocka_unit_test(each_read_write_lock_has_the_name_of_the_list),
		cmocka_unit_test(each_barrier_has_the_name_of_the_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
