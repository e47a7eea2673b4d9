/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parsers of the environment variables: any text, and only sensible results. */
#include "base/parse.h"
#include "mediate/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <tek/tek.h>

/* Nothing is reported here. */
void tek__report_bad_option(const char *name, const char *text)
{
	(void)name;
	(void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tek_config config = {.budget.window_ns = 1000000000, .rt_low = 10, .rt_high = 49};
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (tek__config_parse_critical(&config, text)) {
		for (unsigned int i = 0; i < config.critical_count; i++)
			if (!config.critical[i].glob[0] ||
			    config.critical[i].nice < TEK_PRIORITY_MIN ||
			    config.critical[i].nice > TEK_PRIORITY_MAX)
				abort();
	}
	if (tek__config_parse_budget(&config, text) &&
	    (config.budget.cpu_ns > config.budget.window_ns ||
	     config.budget.window_ns < TEK_WINDOW_MIN_NS ||
	     config.budget.window_ns > TEK_WINDOW_MAX_NS))
		abort();
	if (tek__config_parse_range(&config, text) &&
	    (config.rt_low < 1 || config.rt_low > config.rt_high || config.rt_high > 98))
		abort();
	free(text);
	return 0;
}
