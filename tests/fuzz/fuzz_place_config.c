/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parser of TEK_PLACE: any text, and only sensible results. */
#include "place/config.h"

#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void tek__report_bad_option(const char *name, const char *text);

/* Nothing is reported here. */
void tek__report_bad_option(const char *name, const char *text)
{
	(void)name;
	(void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tek_place_config config = {.fifo_priority = 7};
	const struct tek_place_config before = config;
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	const bool understood = tek__place_config_parse(&config, text);
	if (!understood && memcmp(&config, &before, sizeof(config)))
		abort();
	if (understood && (config.count == 0 || config.count > TEK_PLACE_MOST_CPUS ||
			   config.fifo_priority > TEK_PLACE_MOST_PRIORITY))
		abort();
	for (unsigned int i = 0; i < config.count; i++) {
		if (config.cpus[i] >= TEK_PLACE_MOST_CPUS)
			abort();
	}
	free(text);
	return 0;
}
