/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The script that an interpreter runs, from its arguments. */
#include "support.h"

#include "base/script.h"

/* Arguments with a NUL behind each; `is` NULL: there is no script. */
#define ASSERT_SCRIPT(program, arguments, is) \
	assert_script(program, arguments, sizeof(arguments), is)

static void assert_script(const char *program, const char *arguments, size_t bytes, const char *is)
{
	char script[464] = "";
	const bool known = tek__script_in(program, arguments, bytes, script, sizeof(script));

	assert_int_equal(known, is != NULL);
	if (is)
		assert_string_equal(script, is);
}

static void the_first_argument_that_is_no_option_is_the_script(void **state)
{
	(void)state;
	ASSERT_SCRIPT("/usr/bin/python3.11", "python3\0a.py\0b.py", "a.py");
	ASSERT_SCRIPT("/usr/bin/perl", "perl\0-Ilib\0-w\0p.pl", "p.pl");
	ASSERT_SCRIPT("/usr/bin/node", "node\0--require\0x\0--inspect=1\0app.js", "app.js");
	ASSERT_SCRIPT("/bin/bash", "bash\0--rcfile\0x\0-eu\0-o\0pipefail\0s.sh", "s.sh");
	ASSERT_SCRIPT("/usr/bin/lua5.4", "lua\0-l\0lib\0--\0x.lua", "x.lua");
}

static void modules_and_code_stand_for_a_script(void **state)
{
	(void)state;
	ASSERT_SCRIPT("/usr/bin/python3.11", "python3\0-Bm\0http.server\0-x", "-m http.server");
	ASSERT_SCRIPT("/usr/bin/pypy3", "pypy3\0-mhttp\0x", "-m http");
	ASSERT_SCRIPT("/usr/bin/python3.11", "python3\0-W\0ignore\0-c\0print(1)", "-c");
	ASSERT_SCRIPT("/bin/dash", "sh\0-c\0x", "-c");
}

static void what_is_no_script_of_an_interpreter_is_none(void **state)
{
	(void)state;
	ASSERT_SCRIPT("/usr/bin/python3.11", "python3", NULL);
	ASSERT_SCRIPT("/usr/bin/python3.11", "python3\0-", NULL);
	ASSERT_SCRIPT("/usr/bin/python3.11", "python3\0-m", NULL);
	ASSERT_SCRIPT("/usr/bin/pythonic", "pythonic\0a.py", NULL);
	ASSERT_SCRIPT("/opt/fridge", "fridge\0a.py", NULL);
	assert_script("/bin/sh", "", 0, NULL);
	/* Cut in the middle of the name. */
	assert_script("/bin/sh", "sh\0script", 6, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_argument_that_is_no_option_is_the_script),
		cmocka_unit_test(modules_and_code_stand_for_a_script),
		cmocka_unit_test(what_is_no_script_of_an_interpreter_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
