/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The configuration of the Stack Tuner: the variables TEK_STACK and TEK_STACK_PROFILES of
 * libtek(7). Read once at the start, and not at all in a set-user-id program.
 */
#ifndef TEK_STACK_CONFIG_H
#define TEK_STACK_CONFIG_H

#include "tek_options.h"

#include <stdbool.h>
#include <stddef.h>

struct tek_stack_config {
	unsigned char mode; /* TEK_STACK_MODE_* */
	bool override;      /* sizes that the program chose may be changed too */
	bool grow;          /* a reserve below each fitted stack */
	bool exact;         /* paint fitted stacks, so that their peaks are exact */
	unsigned char low_percent, high_percent; /* zones: struct tek_table_header */
	unsigned int margin_percent; /* of the learnt bound that a stack gets; 0: the mode's own */
	size_t floor_bytes;          /* no stack is made smaller; 0: the mode's own */
	unsigned int period_ms; /* between two looks at the stacks of running threads; 0: none */
	char profiles[TEK_STACK_PROFILES_MOST_BYTES + 1]; /* directories, separated by `:` */
};

/* Constant once the process has started. */
extern struct tek_stack_config tek__stack_config;

static inline bool tek__stack_is_on(void)
{
	return tek__stack_config.mode != 0;
}

/* At the start. */
void tek__stack_config_read(void);

/* The settings in the header of a new table. By tek__owner. */
struct tek_table_header;
void tek__stack_config_describe(struct tek_table_header *header);

/*
 * The parser of TEK_STACK, for tests and fuzzers: items separated by commas, as in
 * "auto,override,low=25,high=80,margin=150,floor=65536,period=1000".  False, with *config as it
 * was, if the text is not wholly understood.
 */
bool tek__stack_config_parse(struct tek_stack_config *config, const char *text);

#endif
