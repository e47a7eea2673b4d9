/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/config.h"

#include "base/owner.h"
#include "base/parse.h"
#include "tek_abi.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct tek_stack_config tek__stack_config = {
	.low_percent = 25,
	.high_percent = 80,
	.period_ms = 1000,
};

static bool parse_mode(struct tek_stack_config *config, const char **text)
{
#define MODE(mode, word, about) {word, TEK_STACK_MODE_##mode},
	static const struct {
		const char *word;
		unsigned char mode;
	} modes[] = {TEK_STACK_MODES(MODE)};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (tek__parse_word(text, modes[i].word)) {
			config->mode = modes[i].mode;
			return true;
		}
	}
	return false;
}

static bool parse_switch(struct tek_stack_config *config, const char **text)
{
#define SWITCH(member, word, about) {word, &config->member},
	const struct {
		const char *word;
		bool *is_on;
	} switches[] = {TEK_STACK_SWITCHES(SWITCH)};

	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
		if (tek__parse_word(text, switches[i].word)) {
			*switches[i].is_on = true;
			return true;
		}
	}
	return false;
}

static bool parse_number(struct tek_stack_config *config, const char **text)
{
	uint64_t number;

	if (tek__parse_word(text, "low=")) {
		if (!tek__parse_number(text, 100, &number))
			return false;
		config->low_percent = (unsigned char)number;
	} else if (tek__parse_word(text, "high=")) {
		if (!tek__parse_number(text, 100, &number))
			return false;
		config->high_percent = (unsigned char)number;
	} else if (tek__parse_word(text, "margin=")) {
		if (!tek__parse_number(text, TEK_STACK_MARGIN_MOST, &number) ||
		    number < TEK_STACK_MARGIN_LEAST)
			return false;
		config->margin_percent = (unsigned int)number;
	} else if (tek__parse_word(text, "floor=")) {
		if (!tek__parse_number(text, TEK_STACK_FLOOR_MOST, &number))
			return false;
		config->floor_bytes = (size_t)number;
	} else if (tek__parse_word(text, "period=")) {
		if (!tek__parse_number(text, TEK_STACK_PERIOD_MOST_MS, &number))
			return false;
		config->period_ms = (unsigned int)number;
	} else {
		return false;
	}
	return true;
}

bool tek__stack_config_parse(struct tek_stack_config *config, const char *text)
{
	struct tek_stack_config parsed = *config;

	do {
		if (!parse_mode(&parsed, &text) && !parse_switch(&parsed, &text) &&
		    !parse_number(&parsed, &text))
			return false;
	} while (*text == ',' && *++text);
	if (*text || text[-1] == ',' || parsed.low_percent > parsed.high_percent)
		return false;
	*config = parsed;
	return true;
}

void tek__stack_config_read(void)
{
	const char *text = secure_getenv("TEK_STACK");
	const char *profiles = secure_getenv("TEK_STACK_PROFILES");

	if (text && *text && !tek__stack_config_parse(&tek__stack_config, text))
		tek__owner->bad_option("TEK_STACK", text);
	if (profiles && strlen(profiles) < sizeof(tek__stack_config.profiles))
		strcpy(tek__stack_config.profiles, profiles);
	else if (profiles)
		tek__owner->bad_option("TEK_STACK_PROFILES", profiles);
}

void tek__stack_config_describe(struct tek_table_header *header)
{
	header->stack_mode = tek__stack_config.mode;
	header->low_percent = tek__stack_config.low_percent;
	header->high_percent = tek__stack_config.high_percent;
}
