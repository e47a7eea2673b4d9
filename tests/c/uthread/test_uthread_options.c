/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The values of TEK_UTHREAD, as `tek run` writes them. */
#include "vectors.h"

#include "uthread/engine.h"
#include "uthread/sched.h"

static bool refused;

static void refuse(const char *text, size_t size, const char *why)
{
	(void)text, (void)size, (void)why;
	refused = true;
}

/* The setting as the vectors have it, "workers=3". */
static void describe(const struct tek_engine_options *options, const char *name, size_t length,
		     char *text, size_t size)
{
#define NAME(kind, its_name, about) its_name,
	static const char *const preempts[] = {TEK_PREEMPT_MODES(NAME)};
	static const char *const locks[] = {TEK_ENGINE_LOCKS(NAME)};
	const struct {
		const char *name, *text;
		unsigned long long number;
	} settings[] = {
		{"workers", NULL, options->workers},
		{"sched", options->sched ? options->sched->name : "", 0},
		{"quantum", NULL, options->quantum_ns},
		{"preempt", preempts[options->preempt], 0},
		{"promote", NULL, options->promote_quanta},
		{"pool", NULL, options->pool},
		{"lock", locks[options->lock], 0},
		{"stack", NULL, options->stack_bytes},
		{"pin", NULL, options->pin},
	};

	*text = '\0';
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strlen(settings[i].name) != length ||
		    memcmp(settings[i].name, name, length) != 0)
			continue;
		if (settings[i].text)
			snprintf(text, size, "%s=%s", settings[i].name, settings[i].text);
		else
			snprintf(text, size, "%s=%llu", settings[i].name, settings[i].number);
	}
}

static void check_option(const struct vector *vector)
{
	struct tek_engine_options options = tek_ut__engine_defaults();
	char text[64];

	if (!vector_is(vector, "TEK_UTHREAD"))
		return;
	refused = false;
	tek_ut__engine_parse(&options, vector->words[2], refuse);
	vector_assert(vector, refused == (strcmp(vector->words[1], "refused") == 0));
	for (unsigned int i = strcmp(vector->words[1], "written") == 0 ? 4 : 3; i < vector->count;
	     i++) {
		const char *expected = vector->words[i];
		describe(&options, expected, strcspn(expected, "="), text, sizeof(text));
		if (strcmp(text, expected) != 0)
			vector_fail(vector, "%s instead of %s", text, expected);
	}
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
