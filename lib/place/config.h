/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The configuration of placement: the variable TEK_PLACE of libtek(7), as `tek run --place` makes
 * it. Read once at the start, and not at all in a set-user-id program.
 */
#ifndef TEK_PLACE_CONFIG_H
#define TEK_PLACE_CONFIG_H

#include "tek_options.h"

#include <stdbool.h>

struct tek_place_config {
	unsigned short cpus[TEK_PLACE_MOST_CPUS]; /* in the order in which they are dealt */
	unsigned int count;                       /* 0: threads are left alone */
	unsigned char fifo_priority;              /* 0: the policy is left alone */
	bool numa; /* there are several nodes: stacks are to be local */
};

/* Constant once the process has started. */
extern struct tek_place_config tek__place_config;

static inline bool tek__place_is_on(void)
{
	return tek__place_config.count > 0;
}

/*
 * The parser, for tests and fuzzers: items separated by commas, as in "rtfifo=1,numa,cpus=0:2:1:3",
 * of which `cpus` has to be there.  False, with *config as it was, if the text is not wholly
 * understood.
 */
bool tek__place_config_parse(struct tek_place_config *config, const char *text);

/* At the start. */
void tek__place_config_read(void);

#endif
