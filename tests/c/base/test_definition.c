/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where names are defined: in the C library, in other files, nowhere. */
#include "base/definition.h"
#include "base/next.h"

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* This program's own, before that of the C library. */
__attribute__((visibility("default"))) int fnmatch(void)
{
	return 42;
}

static void a_function_of_the_c_library_is_found_past_that_of_the_program(void **state)
{
	struct tek_definition first;

	(void)state;
	assert_non_null(tek__c_library_function("fnmatch"));
	assert_ptr_equal(tek__c_library_function("fnmatch"), dlsym(RTLD_NEXT, "fnmatch"));
	assert_ptr_equal(tek__next_definition("fnmatch"), dlsym(RTLD_NEXT, "fnmatch"));
	const struct link_map *file = tek__defining_file("fnmatch", &first);
	assert_ptr_equal(file, tek__own_file());
	assert_ptr_equal(first.address, (void *)(uintptr_t)fnmatch);
}

static void a_name_without_a_definition_is_not_found_and_leaves_no_error(void **state)
{
	struct tek_definition none;

	(void)state;
	dlerror();
	assert_null(tek__c_library_function("no_such_function"));
	assert_null(tek__shared_function("no_such_function"));
	assert_null(tek__next_definition("no_such_function"));
	assert_null(tek__defining_file("no_such_function", &none));
	assert_null(dlerror());
}

static void a_function_that_the_loader_selects_is_left_to_the_loader(void **state)
{
	struct tek_definition definition;

	(void)state;
	/* It is selected on x86-64 and 64-bit ARM. */
	assert_true(tek__defined_in(tek__c_library_file(), "memcpy", &definition));
	if (definition.is_resolver)
		assert_null(tek__c_library_function("memcpy"));
	assert_ptr_equal(tek__next_definition("memcpy"), dlsym(RTLD_NEXT, "memcpy"));
}

/* Opens a library in this program's directory, which is another one in a machine of the lab. */
static struct link_map *open_beside(const char *name)
{
	char path[PATH_MAX + 32];
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);

	assert_true(length > 0);
	while (path[length - 1] != '/')
		length--;
	strcpy(path + length, name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void files_with_either_kind_of_hash_table_are_read(void **state)
{
	const char *const names[] = {"libold-hash.so", "libnew-hash.so"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct tek_definition found;
		struct link_map *file = open_beside(names[i]);
		assert_non_null(file);
		assert_true(tek__defined_in(file, "tek_test_function", &found));
		assert_ptr_equal(found.address, dlsym(file, "tek_test_function"));
		assert_true(tek__defined_in(file, "tek_test_variable", &found));
		assert_ptr_equal(found.address, dlsym(file, "tek_test_variable"));
		/* It is called there, and not defined. */
		assert_false(tek__defined_in(file, "getpid", &found));
		dlclose(file);
	}
}

static void a_library_of_tek_comes_before_the_c_library_for_shared_functions(void **state)
{
	struct link_map *file = open_beside("liblike-tek.so");

	(void)state;
	assert_non_null(file);
	assert_ptr_equal(tek__shared_function("getpid"), dlsym(file, "getpid"));
	assert_ptr_equal(tek__shared_function("getppid"), tek__c_library_function("getppid"));
	assert_ptr_equal(tek__c_library_function("getpid"), dlsym(RTLD_NEXT, "getpid"));
	dlclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_of_the_c_library_is_found_past_that_of_the_program),
		cmocka_unit_test(a_name_without_a_definition_is_not_found_and_leaves_no_error),
		cmocka_unit_test(a_function_that_the_loader_selects_is_left_to_the_loader),
		cmocka_unit_test(files_with_either_kind_of_hash_table_are_read),
		cmocka_unit_test(a_library_of_tek_comes_before_the_c_library_for_shared_functions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
