/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The configuration from the process's environment, its rules apart (mediate/rules.h); libtek(7)
 * describes the variables. Read once at the start, and not at all in a set-user-id program.
 */
#ifndef TEK_MEDIATE_CONFIG_H
#define TEK_MEDIATE_CONFIG_H

#include "base/parse.h"
#include "tek_options.h"

#include <stdbool.h>
#include <sys/un.h>

/* Threads by name that become Fast. */
struct tek_critical {
	char glob[TEK_PATTERN_BYTES + 1]; /* fnmatch(3) */
	signed char nice;
};

struct tek_config {
	struct tek_critical critical[TEK_MAX_CRITICAL];
	unsigned int critical_count;
	bool follow_marked;
	bool inherit; /* a thread that a Fast one waits for is lifted */
	struct tek_budget budget;
	bool budget_given;   /* it was asked for, and is not just the usual one */
	unsigned char group; /* in which the process begins: TEK_GROUP_* */
	unsigned char rt_low, rt_high;
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* the daemon's; "": none */
};

extern struct tek_config tek__config;

void tek__config_read(void);

/*
 * The parsers, for tests and fuzzers: from text into *config.  False, with
 * *config as it was, if the text is not wholly understood.
 */
bool tek__config_parse_critical(struct tek_config *config, const char *text);
bool tek__config_parse_budget(struct tek_config *config, const char *text);
bool tek__config_parse_range(struct tek_config *config, const char *text);
bool tek__config_parse_group(struct tek_config *config, const char *text);
bool tek__config_parse_socket(struct tek_config *config, const char *text);

#endif
