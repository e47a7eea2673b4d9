/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The offset of the function's address in a std::thread's state, from the name of its class. */
#include "support.h"

#include "base/cxx_name.h"

#define STATE(arguments) "NSt6thread11_State_implINS_8_InvokerISt5tupleIJ" arguments "EEEEEE"

enum { WORD = sizeof(void *) };

/* The same as the tuple of GNU's library: the last element first. */
struct int_char_pointer {
	void *vtable;
	void *pointer;
	char character;
	int number;
	void (*function)(void);
};

static void a_plain_function_stands_behind_its_arguments(void **state)
{
	(void)state;
	assert_int_equal(tek__cxx_function_offset(STATE("PFvvE")), WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("PDoFvvE")), WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("PFviEi")), 2 * WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("PFvicPdEicS3_")),
			 offsetof(struct int_char_pointer, function));
	assert_int_equal(tek__cxx_function_offset(STATE("PFvRiESt17reference_wrapperIiE")),
			 2 * WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("PFvPKcEPKc")), 2 * WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("PFviPvEiDn")), 3 * WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("PFvPN3app6ConfigEEPNS3_6ConfigE")),
			 2 * WORD);
}

static void a_member_function_stands_behind_its_object(void **state)
{
	(void)state;
	assert_int_equal(tek__cxx_function_offset(STATE("M1WFvvEPS3_")), 2 * WORD);
	assert_int_equal(tek__cxx_function_offset(STATE("M1WFviEPS3_i")), 3 * WORD);
	assert_int_equal(tek__cxx_function_offset("*" STATE("M1WFvvEPS3_")), 2 * WORD);
}

static void what_is_no_function_has_no_address(void **state)
{
	(void)state;
	assert_int_equal(tek__cxx_function_offset(STATE("1F")), 0);
	assert_int_equal(tek__cxx_function_offset(STATE("Z4mainEUlvE_")), 0);
	assert_int_equal(tek__cxx_function_offset(STATE("St5_BindIFPFvvEvEE")), 0);
	assert_int_equal(tek__cxx_function_offset("3Foo"), 0);
	assert_int_equal(tek__cxx_function_offset(""), 0);
}

static void an_argument_of_unknown_size_hides_the_address(void **state)
{
	(void)state;
	assert_int_equal(tek__cxx_function_offset(STATE("PFv6ConfigES3_")), 0);
	assert_int_equal(tek__cxx_function_offset(STATE("PFvSsESs")), 0);
	assert_int_equal(tek__cxx_function_offset(STATE("PFvN3app1AEES4_")), 0);
}

static void half_a_name_is_no_name(void **state)
{
	static const char whole[] = STATE("PFvicPdEicS3_");
	char part[sizeof(whole)];

	(void)state;
	for (size_t length = 0; length < strlen(whole) - strlen("EEEEE") - 1; length++) {
		memcpy(part, whole, length);
		part[length] = '\0';
		assert_int_equal(tek__cxx_function_offset(part), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_function_stands_behind_its_arguments),
		cmocka_unit_test(a_member_function_stands_behind_its_object),
		cmocka_unit_test(what_is_no_function_has_no_address),
		cmocka_unit_test(an_argument_of_unknown_size_hides_the_address),
		cmocka_unit_test(half_a_name_is_no_name),
	};
	return cmocka_run_group_tests_name("cxx_name", tests, NULL, NULL);
}
