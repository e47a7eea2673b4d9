/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a profile does to the stacks of threads.  The program runs itself once more, with a
 * profile of its own threads.
 */
#include "base/page.h"
#include "profile_support.h"

#include "stack/fit.h"
#include "stack/size.h"
#include "stack/stack.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { CALLER_BOUND = 300 * KIB, NEARLY_FULL = 7 * MIB, GROWN_FROM = 50 * KIB };
static const size_t huge = 512 * (size_t)MIB; /* of overflowed(): more than it gets */

/* The shape of the calling thread's stack. */
struct shape {
	size_t bytes, guard_bytes;
	struct tek_stack stack; /* what TEK has of it */
	uintptr_t call_site;
	int error; /* errno at first */
};

static void examine(struct shape *shape)
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
		examine(shape); \
		return NULL; \
	}
FUNCTION(known, 1)            /* in the profile, of any caller */
FUNCTION(unknown, 2)          /* not in it */
FUNCTION(by_caller, 3)        /* only if created by create_there() */
FUNCTION(overflowed, 4)       /* known to have overflowed */
FUNCTION(overflowed_small, 6) /* known to have overflowed a stack much smaller than usual */
FUNCTION(nearly_full, 7)      /* known to use certainly most of a usual stack */
FUNCTION(perhaps_full, 8)     /* known to use that perhaps */
FUNCTION(grown, 9)            /* known to have used more in later runs */
FUNCTION(elsewhere, 5)        /* in the profile, but in a file of another name */

ONE_COPY static struct shape create_here(void *(*function)(void *), const pthread_attr_t *attr)
{
	struct shape shape = {0};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, attr, function, &shape), 0);
	pthread_join(thread, NULL);
	return shape;
}

ONE_COPY static struct shape create_there(void *(*function)(void *))
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

static void a_kind_of_one_caller_does_not_apply_to_other_callers(void **state)
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
	/* The C library may give a larger stack of an earlier thread. */
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

static int grow_again(void)
{
	const size_t bytes = create_here(grown, NULL).bytes;
	const size_t expected = (2 * KNOWN_BOUND - GROWN_FROM) * 3 / 2;

	return bytes < expected || bytes > expected + 2 * 4096;
}

static void a_kind_that_has_grown_can_grow_again_by_as_much(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(grow_again), 0);
}

/*
 * Threads of a pool: their use is known without a label, and with two names.  The most that one
 * reads of its own stack, in KiB.
 */
/* A stack with room for little, also where PTHREAD_STACK_MIN is 128 KiB (aarch64). */
#define SMALL ((size_t)PTHREAD_STACK_MIN + 112 * KIB)

enum { DEEP_BOUND = 400 * KIB, FLAT_BOUND = 16 * KIB, DEEP_USE = 500 * KIB };

struct pooled {
	const char *name;
	bool by_system_call; /* it uses its stack so, which cannot fault */
	size_t before, reported, after, used;
	bool grown;
	uintptr_t low; /* of the stack that it ended with */
};

static size_t own_bytes(uintptr_t *low)
{
	assert_true(tek__lock());
	const struct tek_stack *stack = &tek__thread_self()->stack;
	const size_t bytes = stack->bytes;
	*low = stack->end - bytes;
	tek__unlock();
	return bytes;
}

__attribute__((noinline)) static size_t use_own(bool by_system_call)
{
	char *memory = __builtin_alloca(DEEP_USE);
	int zeros = by_system_call ? open("/dev/zero", O_RDONLY) : -1;

	if (!by_system_call)
		memset(memory, 1, DEEP_USE);
	__asm__ volatile("" : : "r"(memory) : "memory");
	ssize_t used = by_system_call ? read(zeros, memory, DEEP_USE) : DEEP_USE;
	close(zeros);
	return used > 0 ? (size_t)used : 0;
}

static void *pooled(void *value)
{
	struct pooled *self = value;
	struct shape shape = {0};

	self->before = own_bytes(&self->low);
	examine(&shape);
	self->reported = shape.bytes;
	if (self->name)
		pthread_setname_np(pthread_self(), self->name);
	self->after = own_bytes(&self->low);
	if (!self->name || strcmp(self->name, "flat") != 0)
		self->used = use_own(self->by_system_call);
	own_bytes(&self->low);
	assert_true(tek__lock());
	self->grown = tek__thread_self()->stack.flags & TEK_STACK_GROWN;
	tek__unlock();
	return NULL;
}

ONE_COPY static struct pooled run_pooled(const char *name, bool by_system_call)
{
	struct pooled job = {.name = name, .by_system_call = by_system_call};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, pooled, &job), 0);
	pthread_join(thread, NULL);
	return job;
}

static void a_thread_gets_the_stack_of_its_kind_when_it_gets_its_name(void **state)
{
	(void)state;
	need_tuner();
	const struct pooled flat = run_pooled("flat", false);
	assert_true(flat.before < SMALL);
	assert_int_equal(flat.after, flat.before);
	/* A program that asks gets the size to which the stack may grow. */
	assert_in_range(flat.reported, DEEP_BOUND * 3 / 2, DEEP_BOUND * 3 / 2 + 2 * 4096);
	const struct pooled deep = run_pooled("deep", true);
	assert_int_equal(deep.before, flat.before);
	assert_in_range(deep.after, DEEP_BOUND * 3 / 2, DEEP_BOUND * 3 / 2 + 2 * 4096);
	assert_int_equal(deep.used, DEEP_USE);
	assert_false(deep.grown);
	/* A thread of a new kind may be as deep as any other. */
	assert_true(run_pooled("other", true).after >= DEEP_BOUND * 3 / 2);
}

static void a_thread_that_is_deep_before_it_has_a_name_grows(void **state)
{
	(void)state;
	need_tuner();
	const struct pooled nameless = run_pooled(NULL, false);
	assert_true(nameless.before < SMALL);
	assert_int_equal(nameless.used, DEEP_USE);
	assert_true(nameless.grown);
	assert_true(run_pooled("flat", false).before > DEEP_USE);
}

static void what_was_room_is_guard_again_when_the_thread_has_ended(void **state)
{
	char byte;

	(void)state;
	need_tuner();
	/* The C library keeps its stack for the next thread. */
	const struct pooled deep = run_pooled("deep", false);
	struct iovec to = {&byte, 1}, from = {(void *)deep.low, 1};
	assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), -1);
	from.iov_base = (char *)deep.low + deep.after - 1;
	assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), 1);
}

/* A new thread checks whether an earlier one with a signal stack has ended: a call that fails. */
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
	/* Attributes without a size count as no attributes. */
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
	const size_t small = stack_bytes(64 * KIB);
	/* The C library may give a stack of an earlier thread, of up to four times the size. */
	const size_t most = small == 64 * KIB ? small : 4 * small;
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, small);
	tek__stack_config.override = true;
	const struct shape shape = create_here(known, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	assert_in_range(shape.bytes, small, most);
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

static void the_other_values_of_the_attributes_stay(void **state)
{
	pthread_attr_t attr;
	struct shape shape = {0};
	pthread_t thread;
	int detached = 0;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, 300 * tek__page_bytes);
	struct tek_thread next = {.role = ""};
	pthread_attr_t own;
	assert_int_equal(pthread_create(&thread, &attr, known, &shape), 0);
	pthread_join(thread, NULL);
	assert_int_equal(shape.guard_bytes, 300 * tek__page_bytes);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	next.stack.site = shape.stack.site;
	assert_true(tek__lock());
	const pthread_attr_t *chosen = tek__size_choose(&next, &attr, &own);
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
	/* The C library may give a larger stack of an earlier thread. */
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
	assert_in_range(tek__size_for(&small), least, stack_bytes(64 * KIB));
	tek__stack_config.margin_percent = 200;
	tek__stack_config.floor_bytes = 128 * KIB;
	assert_int_equal(tek__size_for(&large), 2002944); /* 489 pages */
	assert_int_equal(tek__size_for(&small), 128 * KIB);
	tek__stack_config.mode = TEK_STACK_MODE_REPORT;
	assert_int_equal(tek__size_for(&large), 0);
	tek__stack_config = before;
}

static void print_kinds(FILE *profile)
{
	char rest[100];

	snprintf(rest, sizeof(rest), "label=name:a bound=%d threads=5", KNOWN_BOUND / 2);
	print_kind(profile, (uintptr_t)known, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:b bound=%d threads=3", KNOWN_BOUND);
	print_kind(profile, (uintptr_t)known, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d least=%d threads=3", KNOWN_BOUND, GROWN_FROM);
	print_kind(profile, (uintptr_t)grown, 0, rest);
	snprintf(rest, sizeof(rest), "label=- bound=%d threads=0", FLAT_BOUND);
	print_kind(profile, (uintptr_t)pooled, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:flat bound=%d threads=9", FLAT_BOUND);
	print_kind(profile, (uintptr_t)pooled, 0, rest);
	snprintf(rest, sizeof(rest), "label=name:deep bound=%d threads=1", DEEP_BOUND);
	print_kind(profile, (uintptr_t)pooled, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d threads=3", CALLER_BOUND);
	print_kind(profile, (uintptr_t)by_caller, create_there(by_caller).call_site, rest);
	snprintf(rest, sizeof(rest), "bound=1000 overflow=%zu threads=3", huge);
	print_kind(profile, (uintptr_t)overflowed, 0, rest);
	print_kind(profile, (uintptr_t)overflowed_small, 0, "bound=1000 overflow=77824 threads=3");
	snprintf(rest, sizeof(rest), "bound=%d peak=%d threads=3", NEARLY_FULL, NEARLY_FULL - 100);
	print_kind(profile, (uintptr_t)nearly_full, 0, rest);
	snprintf(rest, sizeof(rest), "bound=%d peak=4000 threads=3", NEARLY_FULL);
	print_kind(profile, (uintptr_t)perhaps_full, 0, rest);
	fprintf(profile, "kind function=@elsewhere+0x%llx bound=1000 threads=1\n",
		(unsigned long long)((uintptr_t)elsewhere - tek__module_program()->bias));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_kind_gets_a_fitting_stack_with_a_guard),
		cmocka_unit_test(an_unknown_kind_keeps_its_stack),
		cmocka_unit_test(a_kind_of_one_caller_does_not_apply_to_other_callers),
		cmocka_unit_test(errno_is_zero_where_a_thread_begins),
		cmocka_unit_test(exact_does_not_paint_a_huge_stack),
		cmocka_unit_test(where_memory_is_short_the_program_s_own_size_counts),
		cmocka_unit_test(a_kind_that_has_grown_can_grow_again_by_as_much),
		cmocka_unit_test(a_thread_gets_the_stack_of_its_kind_when_it_gets_its_name),
		cmocka_unit_test(what_was_room_is_guard_again_when_the_thread_has_ended),
		/* From here on threads without a name are known to be deep. */
		cmocka_unit_test(a_thread_that_is_deep_before_it_has_a_name_grows),
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
		cmocka_unit_test(the_other_values_of_the_attributes_stay),
		cmocka_unit_test(report_changes_no_stack),
		cmocka_unit_test(defaults_that_the_program_changed_are_a_choice_of_its_own),
		cmocka_unit_test(sizes_follow_mode_margin_and_floor),
	};

	if (!has_profile())
		return run_with_profile(print_kinds);
	return cmocka_run_group_tests_name("stack_size", tests, NULL, NULL);
}
