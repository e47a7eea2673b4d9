/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The values of TEK_SYNC, as `tek run` writes them. */
#include "vectors.h"

#include "base/channel.h"
#include "preload/sync/start.h"
#include "sync/waiting.h"

static unsigned int reported;

/* The linker wraps it: -Wl,--wrap. */
void __wrap_tek__channel_report(const char *text, size_t length);
void __wrap_tek__channel_report(const char *text, size_t length)
{
	(void)text, (void)length;
	reported++;
}

static void check_name(const struct vector *vector, const char *name, const char *expected)
{
	const char *shown = name ? name : "-";

	if (strcmp(shown, expected) != 0)
		vector_fail(vector, "%s instead of %s", shown, expected);
}

static void check_option(const struct vector *vector)
{
	const unsigned int usual_spins = tek_sync__spin_limit;
	char list[256];

	if (!vector_is(vector, "TEK_SYNC"))
		return;
	reported = 0;
	strcpy(list, vector->words[2]);
	tek_sync__choose(list);
	/* The functions of this process must be those of before, also for the next assertion. */
	const struct tek_sync_chosen chosen = tek_sync__chosen;
	const unsigned int spins = tek_sync__spin_limit;
	tek_sync__chosen = (struct tek_sync_chosen){.started = true};
	tek_sync__spin_limit = usual_spins;

	const bool is_refused = strcmp(vector->words[1], "refused") == 0;
	vector_assert(vector, reported == is_refused);
	if (is_refused)
		return;
	const char *const *meaning = vector->words + 3 + (strcmp(vector->words[1], "written") == 0);
	check_name(vector, chosen.mutex.name, meaning[0]);
	check_name(vector, chosen.rwlock.name, meaning[1]);
	check_name(vector, chosen.barrier.name, meaning[2]);
	vector_assert(vector, spins == (meaning[3][0] == '-' ? usual_spins
							     : strtoul(meaning[3], NULL, 10)));
	vector_assert(vector, chosen.reports == (meaning[4][0] == '1'));
}

static void the_variable_is_read_as_tek_writes_it(void **state)
{
	(void)state;
	for_each_vector("options.txt", check_option);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_variable_is_read_as_tek_writes_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
