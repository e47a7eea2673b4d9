/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/rule.h"

#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

enum { PATTERN = TEK_SETTINGS, INFORMATION };

struct field {
	const char *name;
	int kind;            /* TEK_SET_*, PATTERN or INFORMATION */
	size_t offset, size; /* where its text goes; size 0: it is more than text */
};

#define TEXT(member) offsetof(struct tek_rule, member), sizeof(((struct tek_rule *)0)->member)

static const struct field fields[] = {
	{"program", PATTERN, TEXT(program)},  {"thread", PATTERN, TEXT(thread)},
	{"role-is", PATTERN, TEXT(role_is)},  {"function", PATTERN, TEXT(function)},
	{"role", TEK_SET_ROLE, TEXT(role)},   {"group", TEK_SET_GROUP, 0, 0},
	{"critical", TEK_SET_CRITICAL, 0, 0}, {"mark", TEK_SET_MARK, 0, 0},
	{"priority", TEK_SET_PRIORITY, 0, 0}, {"budget", TEK_SET_BUDGET, 0, 0},
	{"source", INFORMATION, 0, 0},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 'a' - 'A';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A value up to its separator, with %XX made bytes; neither empty nor too long for `to`. */
static bool take_value(const char **text, char *to, size_t size)
{
	const char *p = *text;
	size_t length = 0;

	while (*p && *p != ',' && *p != ';') {
		int byte = (unsigned char)*p++;
		if (byte == '%') {
			int high = hex_digit(p[0]);
			int low = high < 0 ? -1 : hex_digit(p[1]);
			if (low < 0)
				return false;
			byte = high * 16 + low;
			p += 2;
		}
		if (byte < ' ' || byte == 127 || length + 1 == size)
			return false;
		to[length++] = (char)byte;
	}
	to[length] = '\0';
	*text = p;
	return length > 0;
}

static bool parse_switch(const char **text, bool *on)
{
	*on = **text == '1';
	return tek__parse_word(text, "0") || tek__parse_word(text, "1");
}

static bool parse_setting(const char **text, struct tek_rule *rule, int setting)
{
	switch (setting) {
	case TEK_SET_GROUP:
		return tek__parse_group(text, &rule->group);
	case TEK_SET_CRITICAL:
		return parse_switch(text, &rule->critical);
	case TEK_SET_MARK:
		return parse_switch(text, &rule->mark);
	case TEK_SET_PRIORITY:
		return tek__parse_nice(text, &rule->priority);
	case TEK_SET_BUDGET:
		return tek__parse_budget(text, &rule->budget);
	default:
		return false;
	}
}

/* A setting that is no text; its bytes may be escaped, too. */
static bool take_setting(const char **text, struct tek_rule *rule, int setting)
{
	char value[256];
	const char *rest = value;

	return take_value(text, value, sizeof(value)) && parse_setting(&rest, rule, setting) &&
	       !*rest;
}

/* FIELD=VALUE; a bit for the field in *seen, which must not be there already. */
static bool parse_field(const char **text, struct tek_rule *rule, unsigned int *seen)
{
	for (unsigned int i = 0; i < FIELDS; i++) {
		const struct field *field = &fields[i];
		const char *p = *text;
		if (!tek__parse_word(&p, field->name) || !tek__parse_word(&p, "="))
			continue;
		*text = p;
		if (*seen & 1u << i)
			return false;
		*seen |= 1u << i;
		if (field->kind < TEK_SETTINGS)
			rule->sets |= (unsigned char)(1u << field->kind);
		if (field->size)
			return take_value(text, (char *)rule + field->offset, field->size);
		if (field->kind != INFORMATION)
			return take_setting(text, rule, field->kind);
		*text += strcspn(*text, ",;");
		return true;
	}
	return false;
}

/* UTF-8 without control characters, U+0080 to U+009F too. take_value() has seen those of ASCII. */
static bool is_text(const char *value)
{
	const size_t length = strlen(value);

	for (size_t i = 0; i + 1 < length; i++)
		if (value[i] == '\xc2' && (value[i + 1] & 0xe0) == 0x80)
			return false;
	return tek__is_utf8(value, length);
}

static bool are_texts(const struct tek_rule *rule)
{
	for (unsigned int i = 0; i < FIELDS; i++)
		if (fields[i].size && !is_text((const char *)rule + fields[i].offset))
			return false;
	return true;
}

static bool parse_rule(const char **text, struct tek_rule *rule)
{
	unsigned int seen = 0;

	*rule = (struct tek_rule){.budget.window_ns = 1000000000};
	do {
		if (!parse_field(text, rule, &seen))
			return false;
	} while (tek__parse_word(text, ","));
	bool asks = rule->program[0] || rule->thread[0] || rule->role_is[0] || rule->function[0];
	return asks && rule->sets && are_texts(rule) && (!**text || **text == ';');
}

const char *tek__rules_parse(struct tek_rules *rules, const char *text)
{
	unsigned int count = 0;

	if (*text) {
		do {
			const char *start = text;
			if (count == TEK_MAX_RULES || !parse_rule(&text, &rules->rule[count]))
				return start;
			count++;
		} while (tek__parse_word(&text, ";"));
	}
	rules->count = count;
	return NULL;
}
