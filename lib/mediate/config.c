/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/config.h"

#include "tek_abi.h"
#include "threads/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct tek_config tek__config = {
	.follow_marked = true,
	.inherit = true,
	.budget = {.cpu_ns = 800000000, .window_ns = 1000000000},
	.rt_low = 10,
	.rt_high = 49,
};

static bool parse_critical(const char *text, const char *end, struct tek_critical *critical)
{
	const char *equals = memrchr(text, '=', (size_t)(end - text));
	size_t length = (size_t)((equals ? equals : end) - text);

	if (length == 0 || length >= sizeof(critical->glob))
		return false;
	memcpy(critical->glob, text, length);
	critical->glob[length] = '\0';
	critical->nice = 0;
	if (!equals)
		return true;
	text = equals + 1;
	return tek__parse_nice(&text, &critical->nice) && text == end;
}

bool tek__config_parse_critical(struct tek_config *config, const char *text)
{
	struct tek_critical critical[TEK_MAX_CRITICAL];
	unsigned int count = 0;

	while (*text) {
		const char *end = strchrnul(text, ',');
		if (count == TEK_MAX_CRITICAL || !parse_critical(text, end, &critical[count]))
			return false;
		count++;
		text = *end ? end + 1 : end;
	}
	memcpy(config->critical, critical, count * sizeof(critical[0]));
	config->critical_count = count;
	return true;
}

bool tek__config_parse_budget(struct tek_config *config, const char *text)
{
	struct tek_budget budget = config->budget;

	if (!tek__parse_budget(&text, &budget) || *text)
		return false;
	config->budget = budget;
	config->budget_given = true;
	return true;
}

bool tek__config_parse_range(struct tek_config *config, const char *text)
{
	uint64_t low, high;

	if (!tek__parse_number(&text, TEK_RT_MOST, &low) || !tek__parse_word(&text, "-") ||
	    !tek__parse_number(&text, TEK_RT_MOST, &high) || *text || low < TEK_RT_LEAST ||
	    low > high)
		return false;
	config->rt_low = (unsigned char)low;
	config->rt_high = (unsigned char)high;
	return true;
}

bool tek__config_parse_group(struct tek_config *config, const char *text)
{
	unsigned char group;

	if (!tek__parse_group(&text, &group) || *text)
		return false;
	config->group = group;
	return true;
}

bool tek__config_parse_socket(struct tek_config *config, const char *text)
{
	if (*text != '/' || strlen(text) >= sizeof(config->socket))
		return false;
	strcpy(config->socket, text);
	return true;
}

static bool parse_switch(const char *text, bool *is_on)
{
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return false;
	*is_on = *text == '1';
	return true;
}

static bool parse_follow(struct tek_config *config, const char *text)
{
	return parse_switch(text, &config->follow_marked);
}

static bool parse_inherit(struct tek_config *config, const char *text)
{
	return parse_switch(text, &config->inherit);
}

void tek__config_read(void)
{
	static const struct {
		const char *name;
		bool (*parse)(struct tek_config *, const char *);
	} variables[] = {
		{"TEK_CRITICAL", tek__config_parse_critical},
		{"TEK_BUDGET", tek__config_parse_budget},
		{"TEK_RT_RANGE", tek__config_parse_range},
		{"TEK_FOLLOW_MARKED", parse_follow},
		{"TEK_GROUP", tek__config_parse_group},
		{"TEK_INHERIT", parse_inherit},
		{"TEK_SOCKET", tek__config_parse_socket},
	};

	/* The user of a set-user-id program must not choose the socket that it connects to. */
	if (!getauxval(AT_SECURE))
		strcpy(tek__config.socket, TEK_SOCKET_PATH);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *text = secure_getenv(variables[i].name);
		if (text && *text && !variables[i].parse(&tek__config, text))
			tek__report_bad_option(variables[i].name, text);
	}
}
