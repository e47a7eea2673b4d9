/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of a library that the parts shared by several libraries call.  libtek.so fills the
 * table in life/start.c, the libraries of user-level threads fill it in uthread/table_process.c.
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
	/* Takes the lock of table and modules. False: not taken, so the caller changes nothing. */
	bool (*lock)(void);
	void (*unlock)(void);
	/* Reports a variable of the environment that is not understood and is ignored. */
	void (*bad_option)(const char *variable, const char *value);
	/* tek__table_list_modules() (threads/table.h). Under the lock. */
	void (*list_modules)(const struct tek_module *modules, unsigned int count,
			     unsigned int program);
	/* The settings of the Stack Tuner, for the header of a new table. Under the lock. */
	void (*describe_stacks)(struct tek_table_header *header);
};

/* The library sets it first at its start. It is constant afterwards. */
extern const struct tek_owner *tek__owner;

#endif
