/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sites and kinds of threads, what a profile does to their stacks, and what the table says of
 * them afterwards.  The program runs itself once more, with a profile of its own threads.
 */
#include "support.h"

#include "ident/module.h"
#include "ident/process.h"
#include "ident/table.h"
#include "ident/thread.h"
#include "stack/config.h"
#include "stack/grow.h"
#include "stack/kind.h"
#include "stack/site.h"
#include "stack/size.h"
#include "stack/stack.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
	KIB = 1024,
	MIB = 1024 * KIB,
	/* More than threads really use here, so that measures of TEK's own do not count. */
	USED = 100 * KIB,
	KNOWN_BOUND = 200 * KIB,
	CALLER_BOUND = 300 * KIB,
	NEARLY_FULL = 7 * MIB,
	DEFAULT_BYTES = 8 * MIB,
};
static const size_t huge = 512 * (size_t)MIB; /* of overflowed(): more than it gets */

static char directory[64];

static void need_tuner(void)
{
	if (tek__stack_is_on())
		return;
	print_message("# the Stack Tuner is off under a sanitizer\n");
	skip();
}

/* What the calling thread's stack is. */
struct shape {
	size_t bytes, guard_bytes;
	struct tek_stack stack; /* what TEK has of it */
	uintptr_t call_site;
	int error; /* errno at first */
};

static void look(struct shape *shape)
{
	pthread_attr_t attr;
	void *low;

	shape->error = errno;
	assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
	assert_int_equal(pthread_attr_getstack(&attr, &low, &shape->bytes), 0);
	assert_int_equal(pthread_attr_getguardsize(&attr, &shape->guard_bytes), 0);
	pthread_attr_destroy(&attr);
	assert_true(tek__lock());
	shape->stack = tek__thread_self()->stack;
	shape->call_site = tek__thread_self()->birth.call_site;
	tek__unlock();
}

/* The functions of threads. Each does something of its own, or they would be one. */
#define FUNCTION(name, number) \
	__attribute__((noinline)) static void *name(void *shape) \
	{ \
		__asm__ volatile("" : : "r"(number)); \
		look(shape); \
		return NULL; \
	}
FUNCTION(known, 1)            /* in the profile, of any caller */
FUNCTION(unknown, 2)          /* not in it */
FUNCTION(by_caller, 3)        /* only if created by create_there() */
FUNCTION(overflowed, 4)       /* known to have overflowed */
FUNCTION(overflowed_small, 6) /* known to have overflowed a stack much smaller than usual */
FUNCTION(nearly_full, 7)      /* known to use certainly most of a usual stack */
FUNCTION(perhaps_full, 8)     /* known to use that perhaps */
FUNCTION(elsewhere, 5)        /* in the profile, but in a file of another name */

__attribute__((noinline)) static struct shape create_here(void *(*function)(void *),
							  const pthread_attr_t *attr)
{
	struct shape shape = {0};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, attr, function, &shape), 0);
	pthread_join(thread, NULL);
	return shape;
}

__attribute__((noinline)) static struct shape create_there(void *(*function)(void *))
{
	struct shape shape = {0};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, function, &shape), 0);
	pthread_join(thread, NULL);
	return shape;
}

static void a_known_kind_gets_a_fitting_stack_with_a_guard(void **state)
{
	(void)state;
	need_tuner();
	const struct shape shape = create_here(known, NULL);
	assert_in_range(shape.bytes, KNOWN_BOUND * 3 / 2, KNOWN_BOUND * 3 / 2 + 2 * 4096);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
	assert_false(shape.stack.flags & TEK_STACK_EXPLICIT);
	/* More than a page, which a large array would jump over. */
	assert_int_equal(shape.guard_bytes, sizeof(void *) > 4 ? 64 * KIB : tek__page_bytes);
}

static void an_unknown_kind_keeps_its_stack(void **state)
{
	(void)state;
	need_tuner();
	const struct shape shape = create_here(unknown, NULL);
	assert_int_equal(shape.bytes, DEFAULT_BYTES);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
	assert_int_equal(create_here(elsewhere, NULL).bytes, DEFAULT_BYTES);
}

static void a_kind_of_one_caller_says_nothing_of_others(void **state)
{
	(void)state;
	need_tuner();
	assert_in_range(create_there(by_caller).bytes, CALLER_BOUND * 3 / 2,
			CALLER_BOUND * 3 / 2 + 2 * 4096);
	assert_int_equal(create_here(by_caller, NULL).bytes, DEFAULT_BYTES);
}

static void a_kind_that_overflowed_gets_up_to_four_times_what_its_program_asks_for(void **state)
{
	(void)state;
	need_tuner();
	const struct shape shape = create_here(overflowed, NULL);
	assert_int_equal(shape.bytes, 4 * DEFAULT_BYTES);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
}

static void a_kind_that_overflowed_a_small_stack_gets_what_its_program_asks_for(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	struct shape shape = create_here(overflowed_small, NULL);
	assert_int_equal(shape.bytes, DEFAULT_BYTES);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 3 * MIB);
	tek__stack_config.override = true;
	shape = create_here(overflowed_small, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	/* The C library may give a larger one that an earlier thread had. */
	assert_true(shape.bytes >= 3 * MIB);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
}

/* In a child, so that the C library does not give its stacks to threads of other tests. */
static int nearly_fill(void)
{
	pthread_attr_t attr;
	struct shape shape = create_here(nearly_full, NULL);
	const size_t over = shape.bytes - NEARLY_FULL / 2 * 3;

	if (!(shape.stack.flags & TEK_STACK_TUNED) || over > 2 * 4096)
		return 1;
	if (create_here(perhaps_full, NULL).stack.flags & TEK_STACK_TUNED)
		return 2;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 7 * MIB);
	return create_here(nearly_full, &attr).stack.flags & TEK_STACK_TUNED ? 3 : 0;
}

static void a_kind_that_nearly_fills_its_program_s_stack_gets_a_larger_one(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(nearly_fill), 0);
}

/* The new one looks whether another that had a signal stack is gone, which fails as it should. */
static void errno_is_zero_where_a_thread_begins(void **state)
{
	(void)state;
	need_tuner();
	create_here(known, NULL);
	assert_int_equal(create_there(by_caller).error, 0);
}

/* It would take a second, and a gigabyte. */
static void exact_does_not_paint_a_huge_stack(void **state)
{
	(void)state;
	need_tuner();
	tek__stack_config.exact = true;
	const struct shape shape = create_here(overflowed, NULL);
	tek__stack_config.exact = false;
	assert_true(shape.bytes > 8 * MIB);
	assert_true(shape.stack.painted_from > shape.stack.end - MIB);
}

static void where_memory_is_short_the_program_s_own_size_counts(void **state)
{
	struct rlimit before, limit;
	pthread_attr_t attr;
	unsigned long pages;

	(void)state;
	need_tuner();
	FILE *statm = fopen("/proc/self/statm", "r");
	assert_non_null(statm);
	assert_int_equal(fscanf(statm, "%lu", &pages), 1);
	fclose(statm);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	limit.rlim_cur = pages * tek__page_bytes + 256 * MIB;
	/* Four times as much cannot be had; and of huge stacks none is kept for the next one. */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 100 * MIB);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	tek__stack_config.override = true;
	const struct shape shape = create_here(overflowed, &attr);
	tek__stack_config.override = false;
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	pthread_attr_destroy(&attr);
	assert_int_equal(shape.bytes, 100 * MIB);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
}

static void a_size_that_the_program_chose_is_respected_unless_overridden(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	/* Attributes that do not say a size are none. */
	assert_true(create_here(known, &attr).stack.flags & TEK_STACK_TUNED);
	pthread_attr_setstacksize(&attr, 2 * MIB);
	struct shape shape = create_here(known, &attr);
	assert_int_equal(shape.bytes, 2 * MIB);
	assert_int_equal(shape.stack.flags & (TEK_STACK_TUNED | TEK_STACK_EXPLICIT),
			 TEK_STACK_EXPLICIT);
	tek__stack_config.override = true;
	shape = create_here(known, &attr);
	tek__stack_config.override = false;
	assert_in_range(shape.bytes, KNOWN_BOUND * 3 / 2, KNOWN_BOUND * 3 / 2 + 2 * 4096);
	assert_int_equal(shape.stack.flags & (TEK_STACK_TUNED | TEK_STACK_EXPLICIT),
			 TEK_STACK_TUNED | TEK_STACK_EXPLICIT);
	pthread_attr_destroy(&attr);
}

static void a_size_that_is_smaller_than_ours_stays(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * KIB);
	tek__stack_config.override = true;
	const struct shape shape = create_here(known, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	assert_int_equal(shape.bytes, 64 * KIB);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
}

static void memory_of_the_program_is_never_touched(void **state)
{
	pthread_attr_t attr;
	void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	need_tuner();
	assert_ptr_not_equal(memory, MAP_FAILED);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, memory, MIB), 0);
	tek__stack_config.override = true;
	const struct shape shape = create_here(known, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	munmap(memory, MIB);
	assert_int_equal(shape.bytes, MIB);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
	assert_true(shape.stack.flags & TEK_STACK_EXPLICIT);
}

static void a_fitted_stack_has_a_guard_even_if_the_program_wants_none(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, 0);
	const struct shape ours = create_here(known, &attr), theirs = create_here(unknown, &attr);
	pthread_attr_destroy(&attr);
	assert_true(ours.stack.flags & TEK_STACK_TUNED);
	assert_true(ours.guard_bytes >= tek__page_bytes);
	assert_int_equal(theirs.guard_bytes, 0);
}

static int many_with_few_addresses(void)
{
	const struct rlimit limit = {1 << 30, 1 << 30};
	struct shape shape = {0};

	setrlimit(RLIMIT_AS, &limit);
	for (int i = 0; i < 100; i++)
		shape = create_here(known, NULL);
	return shape.stack.flags & TEK_STACK_TUNED && shape.guard_bytes == tek__page_bytes;
}

static int tight(void)
{
	tek__stack_config.mode = TEK_STACK_MODE_TIGHT;
	const struct shape shape = create_here(known, NULL);
	return shape.stack.flags & TEK_STACK_TUNED && shape.guard_bytes == tek__page_bytes;
}

static void the_guard_is_a_page_where_addresses_are_few_and_in_tight(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(many_with_few_addresses), 1);
	assert_int_equal(in_child(tight), 1);
}

static void what_else_the_attributes_say_stays(void **state)
{
	pthread_attr_t attr;
	struct shape shape = {0};
	pthread_t thread;
	int detached = 0;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, 300 * tek__page_bytes);
	struct tek_stack stack = {0};
	pthread_attr_t own;
	assert_int_equal(pthread_create(&thread, &attr, known, &shape), 0);
	pthread_join(thread, NULL);
	assert_int_equal(shape.guard_bytes, 300 * tek__page_bytes);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	stack.site = shape.stack.site;
	assert_true(tek__lock());
	const pthread_attr_t *chosen = tek__size_choose(&stack, &attr, &own);
	tek__unlock();
	assert_ptr_equal(chosen, &own);
	pthread_attr_getdetachstate(&own, &detached);
	assert_int_equal(detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_destroy(&attr);
}

static void report_changes_no_stack(void **state)
{
	(void)state;
	need_tuner();
	tek__stack_config.mode = TEK_STACK_MODE_REPORT;
	const struct shape shape = create_here(known, NULL);
	tek__stack_config.mode = TEK_STACK_MODE_AUTO;
	assert_int_equal(shape.bytes, DEFAULT_BYTES);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
	assert_int_not_equal(shape.stack.site, 0);
}

static int changes_defaults(void)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 4 * MIB);
	pthread_setattr_default_np(&attr);
	const struct shape shape = create_here(known, NULL);
	/* The C library may give a larger one that an earlier thread had. */
	return shape.bytes >= 4 * MIB &&
	       (shape.stack.flags & (TEK_STACK_TUNED | TEK_STACK_EXPLICIT)) == TEK_STACK_EXPLICIT;
}

static void defaults_that_the_program_changed_are_a_choice_of_its_own(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(changes_defaults), 1);
}

static void sizes_follow_mode_margin_and_floor(void **state)
{
	const struct tek_stack_config before = tek__stack_config;
	const struct tek_known nothing = {0}, small = {.bound_bytes = 4000},
			       large = {.bound_bytes = 1000000},
			       over = {.bound_bytes = 10000, .overflow_bytes = 300000},
			       absurd = {.bound_bytes = 900 * (size_t)MIB};
	const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);

	(void)state;
	need_tuner();
	assert_int_equal(tek__size_for(&nothing), 0);
	assert_in_range(tek__size_for(&small), 64 * KIB + 4 * KIB, 256 * KIB);
	assert_int_equal(tek__size_for(&large), 1503232); /* 367 pages */
	assert_int_equal(tek__size_for(&over), 602112);   /* 147 pages */
	assert_int_equal(tek__size_for(&absurd), 1 << 30);
	tek__stack_config.mode = TEK_STACK_MODE_TIGHT;
	assert_int_equal(tek__size_for(&large), 1081344); /* 264 pages */
	assert_in_range(tek__size_for(&small), least, 64 * KIB);
	tek__stack_config.margin_percent = 200;
	tek__stack_config.floor_bytes = 128 * KIB;
	assert_int_equal(tek__size_for(&large), 2002944); /* 489 pages */
	assert_int_equal(tek__size_for(&small), 128 * KIB);
	tek__stack_config.mode = TEK_STACK_MODE_REPORT;
	assert_int_equal(tek__size_for(&large), 0);
	tek__stack_config = before;
}

/* From here on threads that do not exist, with addresses of nothing: the lock is held. */

static struct tek_thread made_up(uintptr_t function, uintptr_t call_site)
{
	return (struct tek_thread){
		.birth = {.function = function, .call_site = call_site},
		.role = "",
		.stack = {.bytes = DEFAULT_BYTES, .zone = TEK_ZONE_LOW, .measured = true}};
}

static bool note(struct tek_thread *thread, uint32_t peak)
{
	const struct tek_stack_use use = {.peak_bytes = peak, .bound_bytes = peak + 100};
	thread->stack.use = use;
	return tek__kind_note(thread, &use);
}

static bool measure(uintptr_t function, uint32_t peak)
{
	struct tek_thread thread = made_up(function, 0x77);
	thread.stack.site = tek__site_of(&thread);
	bool wanted = tek__site_wants_measure(thread.stack.site);
	if (wanted)
		note(&thread, peak);
	return wanted;
}

static int take_lock(void **state)
{
	(void)state;
	bool locked = tek__lock();
	tek__thread_self(); /* so that there is a table */
	return !locked;
}

static int give_lock(void **state)
{
	(void)state;
	tek__unlock();
	return 0;
}

static void sites_are_told_apart_by_function_and_caller(void **state)
{
	struct tek_thread a = made_up(0x1000, 0x10), b = made_up(0x1000, 0x20),
			  c = made_up(0x2000, 0x10), nobody = made_up(0, 0);

	(void)state;
	unsigned short site = tek__site_of(&a);
	assert_int_not_equal(site, 0);
	assert_int_equal(tek__site_of(&a), site);
	assert_int_not_equal(tek__site_of(&b), site);
	assert_int_not_equal(tek__site_of(&c), site);
	assert_int_not_equal(tek__site_of(&c), tek__site_of(&b));
	assert_int_equal(tek__site_of(&nobody), 0);
	assert_true(tek__site_wants_measure(0));
}

static void a_site_settles_and_is_sampled_then(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		assert_true(measure(0x3000, 1000));
	unsigned int wanted = 0;
	for (int i = 0; i < 64; i++)
		wanted += measure(0x3000, 1000);
	assert_int_equal(wanted, 4);
	/* One that uses more unsettles it for eight more. */
	while (!measure(0x3000, 2000))
		;
	for (int i = 0; i < 8; i++)
		assert_true(measure(0x3000, 1500));
	assert_false(measure(0x3000, 1500));
}

static void a_site_whose_bound_still_grows_does_not_settle(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 40; i++)
		assert_true(measure(0x4000, 1000 + i));
}

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

static void labels_tell_kinds_apart_and_numbers_do_not(void **state)
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
	/* What the first one did says nothing of the second. */
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

static void no_overflow_is_lost_while_others_write(void **state)
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

/* Tables that processes leave: the process is this program, run again with a word. */

static void leave_a_kind(void)
{
	struct tek_thread thread = made_up(0x5000, 1);
	take_lock(NULL);
	note(&thread, USED);
	give_lock(NULL);
}

static pthread_barrier_t is_deep;

/* Deeper than at any look, and it does not end before its process. */
static void *go_deep(void *unused)
{
	volatile char frame[USED];

	for (size_t i = 0; i < sizeof(frame); i += 512)
		frame[i] = 'x';
	pthread_barrier_wait(&is_deep);
	pause();
	return frame[0] ? unused : NULL;
}

static void leave_a_deep_thread(void)
{
	pthread_t thread;

	pthread_barrier_init(&is_deep, NULL, 2);
	pthread_create(&thread, NULL, go_deep, NULL);
	pthread_barrier_wait(&is_deep);
}

static int left_behind(const char *word)
{
	if (strncmp(word, "deep", 4) == 0) {
		leave_a_deep_thread();
		if (strcmp(word, "deep-exec") == 0)
			execl("/proc/self/exe", "test_stack_kinds", "nothing", NULL);
		return 0;
	}
	if (strcmp(word, "nothing") == 0)
		return 0;
	if (strcmp(word, "quiet") != 0)
		leave_a_kind();
	else if (take_lock(NULL) == 0)
		give_lock(NULL);
	if (strcmp(word, "clearenv") == 0)
		clearenv();
	if (strcmp(word, "exec") == 0)
		execl("/proc/self/exe", "test_stack_kinds", "nothing", NULL);
	if (strcmp(word, "exec-unseen") == 0)
		syscall(SYS_execve, "/proc/self/exe",
			(char *[]){"test_stack_kinds", "nothing", NULL}, environ);
	if (strcmp(word, "exec-fails") == 0)
		execl(directory, "test_stack_kinds", NULL);
	if (strcmp(word, "fork") == 0) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0)
			exit(0);
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	if (strcmp(word, "child") == 0) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			leave_a_kind();
			exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

/* How many files of this process, or, with 0, of all are there with this ending. */
static unsigned int files(pid_t pid, const char *ending, char *path, size_t size)
{
	DIR *entries = opendir(directory);
	unsigned int count = 0;

	assert_non_null(entries);
	for (struct dirent *entry; (entry = readdir(entries));) {
		const char *at = strstr(entry->d_name, ending);
		if (!at || at[strlen(ending)] || (pid && atoi(entry->d_name) != pid))
			continue;
		count++;
		if (path)
			snprintf(path, size, "%s/%s", directory, entry->d_name);
	}
	closedir(entries);
	return count;
}

/* Run with that word, by another user if it is not 0. */
static pid_t leaves_as(const char *word, uid_t user)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (user && setuid(user))
			_exit(98);
		execl("/proc/self/exe", "test_stack_kinds", word, NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return pid;
}

static pid_t leaves(const char *word)
{
	return leaves_as(word, 0);
}

/* What the only kind says in the table that is left. */
static struct tek_kind check_kind(const char *word)
{
	struct tek_table_header header;
	struct tek_kind kind;
	char path[320];

	pid_t pid = leaves(word);
	assert_int_equal(files(pid, ".ended", path, sizeof(path)), 1);
	assert_int_equal(files(pid, ".table", NULL, 0), 0);
	assert_int_equal(files(pid, ".table~", NULL, 0), 0);
	int fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(header.magic, TEK_TABLE_MAGIC);
	assert_int_equal(header.pid, pid);
	assert_int_equal(header.kinds, 1);
	assert_int_equal(pread(fd, &kind, sizeof(kind), TEK_KINDS_OFFSET), sizeof(kind));
	close(fd);
	unlink(path);
	return kind;
}

static void check_ended(const char *word)
{
	const struct tek_kind kind = check_kind(word);

	assert_int_equal(kind.function, 0x5000);
	assert_int_equal(kind.peak_bytes, USED);
}

static void threads_that_outlive_exit_or_exec_are_measured_before(void **state)
{
	static const char *const words[] = {"deep-exit", "deep-exec"};

	(void)state;
	need_tuner();
	for (size_t i = 0; i < 2; i++) {
		const struct tek_kind kind = check_kind(words[i]);
		assert_int_equal(kind.threads, 1);
		assert_in_range(kind.peak_bytes, USED, USED + 16 * KIB);
		assert_in_range(kind.bound_bytes, kind.peak_bytes, USED + 16 * KIB);
	}
}

static void a_process_that_ends_leaves_its_table_as_ended(void **state)
{
	(void)state;
	check_ended("exit");
	check_ended("clearenv");
}

static void a_program_that_is_replaced_leaves_its_table_as_ended(void **state)
{
	(void)state;
	check_ended("exec");
	check_ended("exec-unseen");
	check_ended("exec-fails");
}

static void without_kinds_nothing_is_left(void **state)
{
	(void)state;
	pid_t pid = leaves("quiet");
	assert_int_equal(files(pid, "", NULL, 0), 0);
}

static void the_child_of_a_fork_leaves_nothing_of_its_parent_s(void **state)
{
	char path[320];

	(void)state;
	pid_t pid = leaves("fork"); /* the parent is as if killed */
	assert_int_equal(files(0, ".ended", NULL, 0), 0);
	assert_int_equal(files(pid, ".table", path, sizeof(path)), 1);
	unlink(path);
}

static void a_child_with_kinds_of_its_own_leaves_a_table_of_its_own(void **state)
{
	struct tek_table_header header;
	char path[320];

	(void)state;
	pid_t pid = leaves("child");
	assert_int_equal(files(0, ".ended", NULL, 0), 2);
	assert_int_equal(files(pid, ".ended", path, sizeof(path)), 1);
	unlink(path);
	assert_int_equal(files(0, ".ended", path, sizeof(path)), 1);
	int fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
	unlink(path);
	assert_int_not_equal(header.pid, pid);
	assert_int_equal(header.kinds, 1);
}

static void where_nobody_learns_nothing_is_left(void **state)
{
	char xdg[] = "/tmp/tek-test-XXXXXX", within[sizeof(xdg) + 4];
	/* The default directory of root is everybody's. */
	uid_t nobody = geteuid() == 0 ? 65534 : 0;

	(void)state;
	assert_non_null(mkdtemp(xdg));
	assert_true(!nobody || chown(xdg, nobody, nobody) == 0);
	setenv("XDG_RUNTIME_DIR", xdg, 1);
	unsetenv("TEK_RUN_DIR");
	leaves_as("exit", nobody);
	setenv("TEK_RUN_DIR", directory, 1);
	snprintf(within, sizeof(within), "%s/tek", xdg);
	assert_int_equal(rmdir(within), 0); /* empty */
	assert_int_equal(rmdir(xdg), 0);
}

/* The profile of this program, for the run that tests it. */

static void print_place(FILE *profile, uintptr_t address)
{
	const struct tek_module *module = tek__module_of(address);
	assert_non_null(module);
	for (unsigned int i = 0; i < module->build_id_bytes; i++)
		fprintf(profile, "%02x", module->build_id[i]);
	if (!module->build_id_bytes)
		fprintf(profile, "@test_stack_kinds");
	fprintf(profile, "+0x%llx", (unsigned long long)(address - module->bias));
}

static void print_kind(FILE *profile, void *(*function)(void *), uintptr_t caller, const char *rest)
{
	fprintf(profile, "kind function=");
	print_place(profile, (uintptr_t)function);
	fprintf(profile, " caller=");
	if (caller)
		print_place(profile, caller);
	else
		fprintf(profile, "-");
	fprintf(profile, " %s\n", rest);
}

static void write_profile(void)
{
	char path[sizeof(directory) + 64], rest[100];
	int at;

	tek__module_note_program();
	const struct tek_module *program = tek__module_program();
	assert_non_null(program);
	at = snprintf(path, sizeof(path), "%s/%s", directory,
		      program->build_id_bytes ? "" : "@test_stack_kinds");
	for (unsigned int i = 0; i < program->build_id_bytes; i++)
		at += sprintf(path + at, "%02x", program->build_id[i]);
	strcpy(path + at, ".stack");
	FILE *profile = fopen(path, "w");
	assert_non_null(profile);
	fprintf(profile, "tek-stack-profile 1\nprogram test_stack_kinds\n");
	snprintf(rest, sizeof(rest), "label=name:a bound=%d threads=5", KNOWN_BOUND / 2);
	print_kind(profile, known, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:b bound=%d threads=3", KNOWN_BOUND);
	print_kind(profile, known, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d threads=3", CALLER_BOUND);
	print_kind(profile, by_caller, create_there(by_caller).call_site, rest);
	snprintf(rest, sizeof(rest), "bound=1000 overflow=%zu threads=3", huge);
	print_kind(profile, overflowed, 0, rest);
	print_kind(profile, overflowed_small, 0, "bound=1000 overflow=77824 threads=3");
	snprintf(rest, sizeof(rest), "bound=%d peak=%d threads=3", NEARLY_FULL, NEARLY_FULL - 100);
	print_kind(profile, nearly_full, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d peak=4000 threads=3", NEARLY_FULL);
	print_kind(profile, perhaps_full, 0, rest);
	fprintf(profile, "kind function=@elsewhere+0x%llx bound=1000 threads=1\n",
		(unsigned long long)((uintptr_t)elsewhere - program->bias));
	assert_int_equal(fclose(profile), 0);
	assert_int_equal(chmod(path, 0644), 0);
}

/* The same program again, with that; then what it left goes. */
static int run_with_profile(void)
{
	char command[sizeof(directory) + 16];
	int status;

	snprintf(directory, sizeof(directory), "/tmp/tek-test-XXXXXX");
	if (!mkdtemp(directory))
		return 1;
	write_profile();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		const struct rlimit limit = {DEFAULT_BYTES, RLIM_INFINITY};
		setrlimit(RLIMIT_STACK, &limit);
		setenv("TEK_STACK", "auto,period=0", 1);
		setenv("TEK_STACK_PROFILES", directory, 1);
		setenv("TEK_RUN_DIR", directory, 1);
		setenv("TEK_TEST_DIRECTORY", directory, 1);
		execl("/proc/self/exe", "test_stack_kinds", NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command) || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

#define MADE_UP(test) cmocka_unit_test_setup_teardown(test, take_lock, give_lock)

int main(int count, char **words)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_kind_gets_a_fitting_stack_with_a_guard),
		cmocka_unit_test(an_unknown_kind_keeps_its_stack),
		cmocka_unit_test(a_kind_of_one_caller_says_nothing_of_others),
		cmocka_unit_test(errno_is_zero_where_a_thread_begins),
		cmocka_unit_test(exact_does_not_paint_a_huge_stack),
		cmocka_unit_test(where_memory_is_short_the_program_s_own_size_counts),
		cmocka_unit_test(a_kind_that_nearly_fills_its_program_s_stack_gets_a_larger_one),
		cmocka_unit_test(
			a_kind_that_overflowed_a_small_stack_gets_what_its_program_asks_for),
		cmocka_unit_test(
			a_kind_that_overflowed_gets_up_to_four_times_what_its_program_asks_for),
		cmocka_unit_test(a_size_that_the_program_chose_is_respected_unless_overridden),
		cmocka_unit_test(a_size_that_is_smaller_than_ours_stays),
		cmocka_unit_test(memory_of_the_program_is_never_touched),
		cmocka_unit_test(a_fitted_stack_has_a_guard_even_if_the_program_wants_none),
		cmocka_unit_test(the_guard_is_a_page_where_addresses_are_few_and_in_tight),
		cmocka_unit_test(what_else_the_attributes_say_stays),
		cmocka_unit_test(report_changes_no_stack),
		cmocka_unit_test(defaults_that_the_program_changed_are_a_choice_of_its_own),
		cmocka_unit_test(sizes_follow_mode_margin_and_floor),
		MADE_UP(sites_are_told_apart_by_function_and_caller),
		MADE_UP(a_site_settles_and_is_sampled_then),
		MADE_UP(a_site_whose_bound_still_grows_does_not_settle),
		MADE_UP(labels_tell_kinds_apart_and_numbers_do_not),
		MADE_UP(a_thread_counts_once_however_often_it_is_measured),
		MADE_UP(threads_that_nobody_was_to_measure_count_once_if_they_are),
		MADE_UP(the_high_zone_is_news_once_a_kind),
		MADE_UP(a_fitted_stack_is_meant_to_be_full),
		MADE_UP(what_is_not_in_the_profile_is_for_the_next_run),
		MADE_UP(an_overflow_is_in_the_table_at_once),
		MADE_UP(a_bound_that_is_not_its_own_raises_nothing_that_is_known),
		cmocka_unit_test(no_overflow_is_lost_while_others_write),
		MADE_UP(the_header_names_the_program_and_the_mode),
		MADE_UP(labels_without_room_go_to_the_kind_without_one),
		cmocka_unit_test(a_process_that_ends_leaves_its_table_as_ended),
		cmocka_unit_test(a_program_that_is_replaced_leaves_its_table_as_ended),
		cmocka_unit_test(threads_that_outlive_exit_or_exec_are_measured_before),
		cmocka_unit_test(without_kinds_nothing_is_left),
		cmocka_unit_test(the_child_of_a_fork_leaves_nothing_of_its_parent_s),
		cmocka_unit_test(a_child_with_kinds_of_its_own_leaves_a_table_of_its_own),
		cmocka_unit_test(where_nobody_learns_nothing_is_left),
	};

	const char *given = getenv("TEK_TEST_DIRECTORY");
	if (!given)
		return run_with_profile();
	snprintf(directory, sizeof(directory), "%s", given);
	if (count > 1)
		return left_behind(words[1]);
	return cmocka_run_group_tests_name("stack_kinds", tests, NULL, NULL);
}
