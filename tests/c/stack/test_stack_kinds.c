/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sites and kinds of threads, and their entries in the table.  The threads do not exist; one
 * function is in the profile with which the program runs itself once more.
 */
#include "kinds_support.h"

#include "stack/site.h"
#include "stack/stack.h"
#include "threads/table.h"

static struct tek_kind kind_of(const struct tek_thread *thread)
{
	struct tek_kind kind = {0};
	assert_int_not_equal(thread->stack.kind, 0);
	assert_true(thread->stack.kind <= tek__table_header()->kinds);
	memcpy(&kind, tek__table_kind_at(thread->stack.kind), sizeof(kind));
	assert_int_equal(kind.seq % 2, 0);
	return kind;
}

static void name(struct tek_thread *thread, const char *name)
{
	thread->named = true;
	snprintf(thread->name, sizeof(thread->name), "%s", name);
}

static void kinds_differ_by_label_and_not_by_numbers(void **state)
{
	struct tek_thread one = made_up(0x5000, 1), two = one, other = one, plain = one, role = one;

	(void)state;
	name(&one, "worker-1/7");
	name(&two, "worker-12/345");
	name(&other, "reader-1/7");
	name(&role, "worker-1/7");
	role.role = "gas 1";
	role.role_bytes = 5;
	note(&one, 5000);
	note(&two, 6000);
	note(&other, 7000);
	note(&plain, 8000);
	note(&role, 9000);
	assert_int_equal(one.stack.kind, two.stack.kind);
	struct tek_kind kind = kind_of(&one);
	assert_string_equal((char *)kind.label, "worker-#/#");
	assert_int_equal(kind.label_is, TEK_LABEL_NAME);
	assert_int_equal(kind.function, 0x5000);
	assert_int_equal(kind.call_site, 1);
	assert_int_equal(kind.threads, 2);
	assert_int_equal(kind.peak_bytes, 6000);
	assert_int_equal(kind.bound_bytes, 6100);
	assert_int_equal(kind.stack_bytes, DEFAULT_BYTES);
	assert_int_equal(kind.overflow_bytes, 0);
	kind = kind_of(&other);
	assert_string_equal((char *)kind.label, "reader-#/#");
	assert_int_equal(kind.threads, 1);
	kind = kind_of(&plain);
	assert_string_equal((char *)kind.label, "");
	assert_int_equal(kind.label_is, TEK_LABEL_NONE);
	assert_int_equal(kind.peak_bytes, 8000);
	kind = kind_of(&role);
	assert_string_equal((char *)kind.label, "gas 1");
	assert_int_equal(kind.label_is, TEK_LABEL_ROLE);
}

static void a_thread_counts_once_however_often_it_is_measured(void **state)
{
	struct tek_thread thread = made_up(0x6000, 1);

	(void)state;
	note(&thread, 1000);
	note(&thread, 3000);
	note(&thread, 2000);
	assert_int_equal(kind_of(&thread).threads, 1);
	assert_int_equal(kind_of(&thread).peak_bytes, 3000);

	const struct tek_thread before = thread;
	name(&thread, "late");
	note(&thread, 4000);
	assert_int_not_equal(thread.stack.kind, before.stack.kind);
	assert_int_equal(kind_of(&thread).threads, 1);
	assert_int_equal(kind_of(&thread).peak_bytes, 4000);
	assert_int_equal(kind_of(&before).threads, 0);
	assert_int_equal(kind_of(&before).peak_bytes, 3000);
}

/* Acts as libtek.so when a thread gets a name; returns whether it is to be measured. */
static bool labelled(struct tek_thread *thread, const char *text)
{
	name(thread, text);
	bool wanted = tek__kind_labelled(thread, true);
	thread->stack.measured |= wanted;
	return wanted;
}

static struct tek_thread born(uintptr_t function)
{
	struct tek_thread thread = made_up(function, 0x77);

	thread.stack.site = tek__site_of(&thread);
	thread.stack.measured = tek__site_wants_measure(thread.stack.site);
	return thread;
}

static unsigned int threads_of(uintptr_t function, const char *label)
{
	for (unsigned int i = 1; i <= tek__table_header()->kinds; i++)
		if (tek__table_kind_at(i)->function == function &&
		    strcmp((const char *)tek__table_kind_at(i)->label, label) == 0)
			return tek__table_kind_at(i)->threads;
	return 0;
}

static void threads_count_for_the_kind_of_their_label_measured_or_not(void **state)
{
	const uintptr_t function = 0xf000;
	unsigned int measured = 0;

	(void)state;
	for (unsigned int i = 0; i < 200; i++) {
		struct tek_thread thread = born(function);
		labelled(&thread, i % 20 == 7 ? "rare" : "often");
		measured += thread.stack.measured;
		if (thread.stack.measured)
			note(&thread, 1000);
	}
	tek__kinds_finish();
	assert_int_equal(threads_of(function, "rare"), 10);
	assert_int_equal(threads_of(function, "often"), 190);
	assert_int_equal(threads_of(function, ""), 0);
	/* All threads of rare kinds, and of each other kind as many as settle it, and some more. */
	assert_in_range(measured, 10 + 16, 10 + 16 + 40);
}

static void a_new_label_of_a_settled_site_is_measured(void **state)
{
	const uintptr_t function = 0xf100;

	(void)state;
	while (born(function).stack.measured)
		measure(function, 1000);
	struct tek_thread thread = born(function);
	while (thread.stack.measured)
		thread = born(function);
	assert_true(labelled(&thread, "new"));
	assert_int_equal(tek__site_at(thread.stack.site)->known.bound_bytes, 0);
	note(&thread, 5000);
	assert_int_equal(threads_of(function, "new"), 1);
}

static void what_was_used_before_a_label_came_is_known_of_threads_without(void **state)
{
	const struct tek_stack_use early = {.peak_bytes = 3000, .bound_bytes = 4096};
	struct tek_thread thread = born(0xf200);

	(void)state;
	name(&thread, "late");
	assert_true(tek__kind_is_changed(&thread));
	tek__kind_used_before(&thread, &early);
	tek__kind_labelled(&thread, true);
	assert_false(tek__kind_is_changed(&thread));
	note(&thread, 90000);
	const struct tek_site *site = tek__site_at(thread.stack.site);
	assert_int_equal(tek__table_kind_at(site->bare_kind)->bound_bytes, 4096);
	assert_int_equal(tek__table_kind_at(site->bare_kind)->threads, 0);
	assert_int_equal(kind_of(&thread).bound_bytes, 90100);
}

enum { BETWEEN = 24 };

/* They were not to be measured, but the watch finds that some of them use much, or all. */
static void check_threads_between(uintptr_t function, unsigned int found, bool sampled_first)
{
	struct tek_thread first = made_up(function, 0x77), between[BETWEEN], last = first;

	for (int i = 0; i < 16; i++)
		assert_true(measure(function, 1000));
	note(&first, 1000);
	for (size_t i = 0; i < BETWEEN; i++) {
		between[i] = made_up(function, 0x77);
		name(&between[i], i % 2 ? "odd" : "even");
		between[i].stack.site = tek__site_of(&between[i]);
		between[i].stack.measured = tek__site_wants_measure(between[i].stack.site);
	}
	if (sampled_first)
		note(&last, 1000);
	for (size_t i = 0; i < BETWEEN; i++) {
		if (i >= found && !between[i].stack.measured)
			continue;
		note(&between[i], 1000);
		name(&between[i], "late");
		note(&between[i], 1000);
	}
	if (!sampled_first)
		note(&last, 1000);
	tek__kinds_finish();
	unsigned int threads = 0;
	for (unsigned int i = 1; i <= tek__table_header()->kinds; i++)
		if (tek__table_kind_at(i)->function == function)
			threads += tek__table_kind_at(i)->threads;
	assert_int_equal(threads, 16 + 1 + BETWEEN + 1);
}

static void threads_that_nobody_was_to_measure_count_once_if_they_are(void **state)
{
	(void)state;
	need_tuner();
	check_threads_between(0xe000, BETWEEN, false);
	check_threads_between(0xe100, BETWEEN, true);
	check_threads_between(0xe200, 5, false);
	check_threads_between(0xe300, 0, true);
}

static void the_high_zone_is_news_once_a_kind(void **state)
{
	struct tek_thread a = made_up(0x7000, 1), b = a, c = a;

	(void)state;
	name(&c, "other");
	assert_false(note(&a, 1000));
	a.stack.zone = b.stack.zone = c.stack.zone = TEK_ZONE_HIGH;
	assert_true(note(&a, 2000));
	assert_false(note(&a, 3000));
	assert_false(note(&b, 3000));
	assert_true(note(&c, 3000));
}

/* The zone of a stack that was used so far. */
static unsigned char zone(struct tek_thread *thread, tek_u32 bytes)
{
	const struct tek_stack_use use = {.peak_bytes = bytes, .bound_bytes = bytes + 100};

	thread->stack.zone = tek__stack_zone(&thread->stack, &use);
	return thread->stack.zone;
}

static void a_fitted_stack_is_meant_to_be_full(void **state)
{
	struct tek_thread thread = made_up((uintptr_t)known, 0x99);

	(void)state;
	need_tuner();
	thread.stack.flags = TEK_STACK_TUNED;
	thread.stack.bytes = KNOWN_BOUND + 4 * KIB;
	thread.stack.site = tek__site_of(&thread);
	assert_int_equal(tek__site_known(thread.stack.site).bound_bytes, KNOWN_BOUND);
	assert_int_equal(zone(&thread, KNOWN_BOUND - 1), TEK_ZONE_NORMAL);
	assert_int_equal(zone(&thread, KNOWN_BOUND + 1), TEK_ZONE_HIGH);
	/* The first thread's depth does not apply to the second one. */
	struct tek_thread second = made_up((uintptr_t)known, 0x99);
	second.stack = thread.stack;
	assert_int_equal(zone(&second, KNOWN_BOUND + 1), TEK_ZONE_HIGH);
	assert_true(note(&thread, KNOWN_BOUND + 1));
	/* Later threads of this process get more. */
	assert_int_equal(tek__site_known(thread.stack.site).bound_bytes, KNOWN_BOUND + 101);
}

static void what_is_not_in_the_profile_is_for_the_next_run(void **state)
{
	struct tek_thread thread = made_up(0x8000, 1);

	(void)state;
	note(&thread, 50000);
	tek__kind_overflowed(&thread);
	assert_int_equal(tek__site_known(thread.stack.site).bound_bytes, 0);
	assert_int_equal(tek__site_known(thread.stack.site).overflow_bytes, 0);
}

static void an_overflow_is_in_the_table_at_once(void **state)
{
	struct tek_thread thread = made_up((uintptr_t)known, 0x98);

	(void)state;
	need_tuner();
	thread.stack.site = tek__site_of(&thread);
	thread.stack.bytes = 300 * KIB;
	tek__kind_overflowed(&thread); /* not measured yet: the kind without label */
	thread.stack.bytes = 200 * KIB;
	tek__kind_overflowed(&thread);
	assert_int_equal(tek__site_known(thread.stack.site).overflow_bytes, 300 * KIB);
	note(&thread, 1000); /* takes nothing of it back */
	const struct tek_kind kind = kind_of(&thread);
	assert_int_equal(kind.overflow_bytes, 300 * KIB);
	assert_int_equal(kind.overflows, 2);
	assert_true(kind.stack_flags & TEK_STACK_OVERFLOWED);
	assert_int_equal(kind.threads, 1);
}

static void a_bound_that_is_not_its_own_raises_nothing_that_is_known(void **state)
{
	const struct tek_stack_use unclean = {KNOWN_BOUND - 1, MIB, TEK_STACK_UNCLEAN, false},
				   more = {KNOWN_BOUND + 1, MIB, TEK_STACK_UNCLEAN, false};
	struct tek_thread thread = made_up((uintptr_t)known, 0x97), unknown = made_up(0xc000, 1);

	(void)state;
	need_tuner();
	tek__kind_note(&thread, &unclean);
	assert_int_equal(tek__site_known(thread.stack.site).bound_bytes, KNOWN_BOUND);
	assert_int_equal(kind_of(&thread).bound_bytes, KNOWN_BOUND - 1);
	tek__kind_note(&thread, &more);
	assert_int_equal(tek__site_known(thread.stack.site).bound_bytes, MIB);
	tek__kind_note(&unknown, &unclean);
	assert_int_equal(kind_of(&unknown).bound_bytes, MIB);
}

enum { OVERFLOWS = 20000, WRITERS = 3 };

static void *overflows(void *value)
{
	struct tek_thread thread = *(struct tek_thread *)value;
	for (size_t i = 1; i <= OVERFLOWS; i++) {
		thread.stack.bytes = i * KIB;
		tek__kind_overflowed(&thread);
	}
	return NULL;
}

static void no_overflow_is_lost_while_other_threads_write(void **state)
{
	struct tek_thread thread = made_up(0xd000, 1);
	pthread_t threads[WRITERS];

	(void)state;
	assert_int_equal(take_lock(NULL), 0);
	note(&thread, 1000);
	give_lock(NULL);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, overflows, &thread), 0);
	struct tek_thread copy = thread;
	for (uint32_t i = 0; i < OVERFLOWS; i++) {
		assert_int_equal(take_lock(NULL), 0);
		note(&copy, 1000 + i);
		give_lock(NULL);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	const struct tek_kind kind = kind_of(&thread);
	assert_int_equal(kind.overflows, WRITERS * OVERFLOWS);
	assert_int_equal(kind.overflow_bytes, (size_t)OVERFLOWS * KIB);
	assert_true(kind.stack_flags & TEK_STACK_OVERFLOWED);
	assert_int_equal(kind.peak_bytes, 1000 + OVERFLOWS - 1);
}

static void the_header_names_the_program_and_the_mode(void **state)
{
	const struct tek_table_header *header = tek__table_header();
	const struct tek_module *modules = (const void *)((const char *)header +
							  TEK_MODULES_OFFSET);

	(void)state;
	need_tuner();
	assert_int_equal(header->stack_mode, TEK_STACK_MODE_AUTO);
	assert_int_equal(header->low_percent, 25);
	assert_int_equal(header->high_percent, 80);
	assert_in_range(header->program_module, 1, header->modules);
	const struct tek_module *program = &modules[header->program_module - 1];
	assert_non_null(strstr((const char *)program->path, "/test_stack_kinds"));
	assert_in_range((uintptr_t)known, program->start, program->end);
}

static void labels_without_room_go_to_the_kind_without_one(void **state)
{
	struct tek_thread first = made_up(0x9000, 1), last = first, plain = first;

	(void)state;
	note(&plain, 100);
	for (unsigned int i = 0; i < TEK_MAX_KINDS; i++) {
		last = made_up(0x9000, 1);
		name(&last, "xxxx");
		last.name[0] = (char)('A' + i % 26);
		last.name[1] = (char)('A' + i / 26);
		note(&last, 200 + i);
		assert_int_not_equal(last.stack.kind, 0);
	}
	assert_int_equal(tek__table_header()->kinds, TEK_MAX_KINDS);
	assert_int_equal(last.stack.kind, plain.stack.kind);
	assert_int_equal(kind_of(&last).label_is, TEK_LABEL_NONE);
	assert_true(kind_of(&last).threads > 1);
	/* New sites are still known, but are not listed. */
	struct tek_thread late = made_up(0xa000, 1);
	assert_false(note(&late, 100));
	assert_int_not_equal(late.stack.site, 0);
	assert_int_equal(late.stack.kind, 0);
	tek__kind_overflowed(&late);
	/* Nor is there an end to threads when sites run out. */
	for (uintptr_t i = 0; i < TEK_MAX_SITES; i++) {
		late = made_up(0xb000 + i, 1);
		tek__site_of(&late);
	}
	assert_int_equal(tek__site_of(&late), 0);
	late.stack.zone = TEK_ZONE_HIGH;
	assert_true(note(&late, 100));
	assert_false(note(&late, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MADE_UP(kinds_differ_by_label_and_not_by_numbers),
		MADE_UP(a_thread_counts_once_however_often_it_is_measured),
		MADE_UP(threads_count_for_the_kind_of_their_label_measured_or_not),
		MADE_UP(a_new_label_of_a_settled_site_is_measured),
		MADE_UP(what_was_used_before_a_label_came_is_known_of_threads_without),
		MADE_UP(threads_that_nobody_was_to_measure_count_once_if_they_are),
		MADE_UP(the_high_zone_is_news_once_a_kind),
		MADE_UP(a_fitted_stack_is_meant_to_be_full),
		MADE_UP(what_is_not_in_the_profile_is_for_the_next_run),
		MADE_UP(an_overflow_is_in_the_table_at_once),
		MADE_UP(a_bound_that_is_not_its_own_raises_nothing_that_is_known),
		cmocka_unit_test(no_overflow_is_lost_while_other_threads_write),
		MADE_UP(the_header_names_the_program_and_the_mode),
		MADE_UP(labels_without_room_go_to_the_kind_without_one),
	};

	if (!has_profile())
		return run_with_profile(print_kinds);
	return cmocka_run_group_tests_name("stack_kinds", tests, NULL, NULL);
}
