/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What parts that several libraries share ask of the library that they are linked into: libtek.so
 * (life/start.c) or one of those with user-level threads (uthread/table_process.c).
 */
#ifndef TEK_BASE_OWNER_H
#define TEK_BASE_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

struct tek_module;
struct tek_table_header;

struct tek_owner {
	/* The process id. */
	pid_t (*pid)(void);
	/* The lock of table and modules. False: it cannot be had, and nothing is changed. */
	bool (*lock)(void);
	void (*unlock)(void);
	/* A variable of the environment was not understood and is not followed. */
	void (*bad_option)(const char *variable, const char *value);
	/* tek__table_list_modules() (threads/table.h). Under the lock. */
	void (*list_modules)(const struct tek_module *modules, unsigned int count,
			     unsigned int program);
	/* The settings of the Stack Tuner, for the header of a new table. Under the lock. */
	void (*describe_stacks)(struct tek_table_header *header);
};

/* Set first thing at the start of the library; constant afterwards. */
extern const struct tek_owner *tek__owner;

#endif
