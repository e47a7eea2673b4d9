/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the environment of the process asks for; libtek(7) describes the
 * variables.  Read once at the start, and not at all in a set-user-id program.
 */
#ifndef TEK_MEDIATE_CONFIG_H
#define TEK_MEDIATE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum { TEK_MAX_RULES = 64 };

struct tek_rule {
	char glob[64]; /* of thread names, fnmatch(3) */
	signed char nice;
};

struct tek_config {
	struct tek_rule rules[TEK_MAX_RULES];
	unsigned int rule_count;
	bool follow_marked;
	uint64_t budget_ns; /* 0: no limit */
	uint64_t window_ns;
	unsigned char rt_low, rt_high;
};

extern struct tek_config tek__config;

/* Limits of tek_set_budget() and TEK_BUDGET. */
#define TEK_WINDOW_MIN_NS UINT64_C(10000000)      /* 10 ms */
#define TEK_WINDOW_MAX_NS UINT64_C(3600000000000) /* 1 hour */

void tek__config_read(void);

/*
 * The parsers, for tests and fuzzers: from text into *config.  False, with
 * *config as it was, if the text is not wholly understood.
 */
bool tek__config_parse_rules(struct tek_config *config, const char *text);
bool tek__config_parse_budget(struct tek_config *config, const char *text);
bool tek__config_parse_range(struct tek_config *config, const char *text);

#endif
