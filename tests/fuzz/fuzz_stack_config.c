/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parser of TEK_STACK: any text, and only sensible results. */
#include "stack/config.h"

#include "base/owner.h"
#include "base/parse.h"
#include "tek_abi.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tek_stack_config config = {.low_percent = 25, .high_percent = 80};
	const struct tek_stack_config before = config;
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (!tek__stack_config_parse(&config, text) && memcmp(&config, &before, sizeof(config)))
		abort();
	if (config.mode > TEK_STACK_MODE_TIGHT || config.low_percent > config.high_percent ||
	    config.high_percent > 100 || (config.margin_percent && config.margin_percent < 100) ||
	    config.floor_bytes > 1 << 30 || config.period_ms > 3600000)
		abort();
	free(text);
	return 0;
}
