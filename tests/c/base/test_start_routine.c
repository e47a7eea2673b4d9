/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The routines that threads run, from the arguments of their start routines.  Those of Rust and
 * CPython can be in any file.  Other arguments only resemble them, or cannot be read.
 */
#include "support.h"

#include "base/module.h"
#include "base/start_routine.h"

#include <sys/mman.h>

/* Addresses of code that no test has used as a start routine yet: TEK reads each a few times. */
static uintptr_t new_routine(void)
{
	static uintptr_t number;
	return ((uintptr_t)new_routine & ~(uintptr_t)15) + 16 * ++number;
}

static uintptr_t runs(uintptr_t routine, const void *argument)
{
	return tek__start_routine(&tek__files, routine, argument).function;
}

/* Before Linux 5.14, and in an emulator, no argument of an unknown file is read. */
static void need_answers_about_memory(void)
{
	const int populate_read = 22;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can = mprotect(memory + page, page, PROT_NONE) == 0 &&
		   madvise(memory, page, populate_read) == 0 &&
		   madvise(memory + page, page, populate_read) != 0;

	munmap(memory, 2 * page);
	if (can)
		return;
	print_message("# needs madvise(MADV_POPULATE_READ) of Linux 5.14\n");
	skip();
}

/* As a closure of Rust is called and dropped. */
static void call(void) {}
static void drop(void)
{
	__asm__ volatile("" : : "r"(1));
}

struct table {
	void (*drop)(void);
	uintptr_t size, alignment;
	void (*call)(void);
};
static const struct table closure = {drop, 24, 8, call}, without_drop = {NULL, 0, 1, call};

static void a_closure_of_rust_is_what_its_thread_runs(void **state)
{
	const void *boxed[] = {&state, &closure, NULL},
		   *in_structure[] = {&state, &state, &closure};
	const void *empty[] = {(void *)1, &without_drop, NULL};
	const uintptr_t routine = new_routine();

	need_answers_about_memory();
	for (int i = 0; i < 10; i++) {
		assert_int_equal(runs(routine, boxed), (uintptr_t)call);
		assert_int_equal(runs(routine, empty), (uintptr_t)call);
		assert_int_equal(runs(routine, in_structure), (uintptr_t)call);
	}
}

static void what_is_not_quite_a_closure_is_none(void **state)
{
	static const struct table tables[] = {
		{(void (*)(void))8, 24, 8, call}, /* no code */
		{drop, 24, 8, NULL},
		{drop, 24, 8, (void (*)(void))(uintptr_t)&tables},
		{drop, 24, 0, call},
		{drop, 24, 3, call},
		{drop, 20, 8, call}, /* not a multiple of its alignment */
		{drop, (uintptr_t)1 << 31, 8, call},
	};
	struct table on_stack = closure;
	const void *argument[] = {&state, NULL, NULL};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		const uintptr_t routine = new_routine();
		argument[1] = &tables[i];
		assert_int_equal(runs(routine, argument), routine);
	}
	const uintptr_t routine = new_routine();
	argument[1] = &on_stack;
	assert_int_equal(runs(routine, argument), routine);
	argument[1] = (const char *)&closure + 1;
	assert_int_equal(runs(routine, argument), routine);
	argument[1] = (const void *)call;
	assert_int_equal(runs(routine, argument), routine);
}

static void a_start_routine_with_other_arguments_is_not_examined_for_ever(void **state)
{
	const void *other[] = {&state, NULL, NULL}, *boxed[] = {&state, &closure, NULL};
	const uintptr_t routine = new_routine();

	for (int i = 0; i < 4; i++)
		assert_int_equal(runs(routine, other), routine);
	assert_int_equal(runs(routine, boxed), routine);
}

static void two_words_at_the_end_of_memory_are_read_alone(void **state)
{
	const void *boxed[] = {&state, &closure, NULL};
	const uintptr_t routine = new_routine();
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	need_answers_about_memory();
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(munmap(memory + page, page), 0);
	const void **last = (const void **)(memory + page) - 2;
	last[0] = last[1] = &state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(runs(routine, boxed), (uintptr_t)call);
		assert_int_equal(runs(routine, last), routine);
	}
	last[1] = &closure;
	assert_int_equal(runs(routine, last), (uintptr_t)call);
	munmap(memory, page);
}

static void an_argument_that_cannot_be_read_is_not(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	const void *boxed[] = {&state, &closure};

	assert_ptr_not_equal(memory, MAP_FAILED);
	munmap(memory, page);
	mprotect(memory + page, page, PROT_NONE);
	munmap(memory + 2 * page, page);
	const void *const arguments[] = {NULL,
					 (void *)1,
					 (void *)5,
					 (void *)-1,
					 (void *)-8,
					 (void *)4096,
					 memory,
					 memory + page,
					 memory + 1,
					 memory + page - 16,
					 memory + 3 * page - 8};
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		const uintptr_t routine = new_routine();
		for (int again = 0; again < 6; again++)
			assert_int_equal(runs(routine, arguments[i]), routine);
	}
	/* At the end of what can be read. */
	char *last = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	munmap(last + page, page);
	memcpy(last + page - sizeof(boxed), boxed, sizeof(boxed));
	const uintptr_t routine = new_routine();
	assert_int_equal(runs(routine, last + page - sizeof(boxed)), routine);
	munmap(last, page);
}

/* As CPython has its objects: a count of references, their type, and what is in them. */
struct type {
	uintptr_t references;
	const void *type;
	uintptr_t size;
	const char *name;
};
struct method {
	uintptr_t references;
	const void *type, *function, *self;
};
struct object {
	uintptr_t references;
	const void *type;
};

static void the_class_of_a_method_of_python_is_the_name_of_its_thread(void **state)
{
	const struct type of_methods = {.name = "method"}, of_threads = {.name = "Thread"},
			  of_workers = {.name = "Worker"};
	const struct object worker = {.type = &of_workers}, thread = {.type = &of_threads};
	struct method method = {.type = &of_methods, .self = &worker};
	const void *boot[] = {NULL, &method}, *argument[] = {(void *)call, boot, NULL};
	const uintptr_t routine = new_routine();

	(void)state;
	need_answers_about_memory();
	struct tek_start_routine start = tek__start_routine(&tek__files, routine, argument);
	assert_int_equal(start.function, routine);
	assert_string_equal(start.name, "Worker");
	method.self = &thread; /* of that the name is not known */
	assert_string_equal(tek__start_routine(&tek__files, routine, argument).name, "");
	method.self = (void *)8;
	assert_string_equal(tek__start_routine(&tek__files, routine, argument).name, "");
	boot[1] = (void *)16;
	assert_string_equal(tek__start_routine(&tek__files, routine, argument).name, "");
	argument[1] = NULL;
	assert_string_equal(tek__start_routine(&tek__files, routine, argument).name, "");
}

/* With its attributes where Python 3.11 has them. */
static void a_thread_of_python_is_known_by_its_target_or_its_name(void **state)
{
	static const struct {
		const char *name, *expected;
	} cases[] = {{"Thread-7 (work)", "work"},
		     {"Thread-12 (a_long_target_of_it)", "a_long_target_o"},
		     {"Thread-3", ""},
		     {"reader-2", "reader-2"}};
	const struct type of_methods = {.name = "method"}, of_threads = {.name = "Thread"},
			  of_str = {.name = "str"};
	struct {
		uintptr_t references;
		const void *type;
		uintptr_t length, rest[3];
		char text[64];
	} name = {.type = &of_str};
	const void *values[] = {NULL, &name};
	struct {
		const void *values, *before[3];
		struct object thread;
	} thread = {.values = values, .thread = {.type = &of_threads}};
	struct method method = {.type = &of_methods, .self = &thread.thread};
	const void *boot[] = {NULL, &method}, *argument[] = {(void *)call, boot, NULL};

	(void)state;
	need_answers_about_memory();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		strcpy(name.text, cases[i].name);
		name.length = strlen(name.text);
		assert_string_equal(tek__start_routine(&tek__files, new_routine(), argument).name,
				    cases[i].expected);
	}
	name.length = 99;
	assert_string_equal(tek__start_routine(&tek__files, new_routine(), argument).name, "");
	values[1] = (void *)8;
	assert_string_equal(tek__start_routine(&tek__files, new_routine(), argument).name, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_closure_of_rust_is_what_its_thread_runs),
		cmocka_unit_test(what_is_not_quite_a_closure_is_none),
		cmocka_unit_test(a_start_routine_with_other_arguments_is_not_examined_for_ever),
		cmocka_unit_test(two_words_at_the_end_of_memory_are_read_alone),
		cmocka_unit_test(an_argument_that_cannot_be_read_is_not),
		cmocka_unit_test(the_class_of_a_method_of_python_is_the_name_of_its_thread),
		cmocka_unit_test(a_thread_of_python_is_known_by_its_target_or_its_name),
	};
	return cmocka_run_group_tests_name("start_routine", tests, NULL, NULL);
}
