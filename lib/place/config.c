/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "place/config.h"

#include "base/parse.h"
#include "threads/report.h"

#include <stdint.h>
#include <stdlib.h>

struct tek_place_config tek__place_config;

/* Numbers with colons between them, each once. */
static bool parse_cpus(struct tek_place_config *config, const char **text)
{
	bool seen[TEK_PLACE_MOST_CPUS] = {false};
	uint64_t cpu;

	if (config->count > 0)
		return false;
	do {
		if (!tek__parse_number(text, TEK_PLACE_MOST_CPUS - 1, &cpu) || seen[cpu])
			return false;
		seen[cpu] = true;
		config->cpus[config->count++] = (unsigned short)cpu;
	} while (tek__parse_word(text, ":"));
	return true;
}

static bool parse_item(struct tek_place_config *config, const char **text)
{
	uint64_t priority = TEK_PLACE_USUAL_PRIORITY;

	if (tek__parse_word(text, "cpus="))
		return parse_cpus(config, text);
	if (tek__parse_word(text, "numa"))
		return config->numa = true;
	if (!tek__parse_word(text, "rtfifo"))
		return false;
	if (tek__parse_word(text, "=") &&
	    (!tek__parse_number(text, TEK_PLACE_MOST_PRIORITY, &priority) || priority == 0))
		return false;
	config->fifo_priority = (unsigned char)priority;
	return true;
}

bool tek__place_config_parse(struct tek_place_config *config, const char *text)
{
	struct tek_place_config parsed = {.count = 0};

	do {
		if (!parse_item(&parsed, &text))
			return false;
	} while (tek__parse_word(&text, ","));
	if (*text || parsed.count == 0)
		return false;
	*config = parsed;
	return true;
}

void tek__place_config_read(void)
{
	const char *text = secure_getenv("TEK_PLACE");

	if (text && *text && !tek__place_config_parse(&tek__place_config, text))
		tek__report_bad_option("TEK_PLACE", text);
}
