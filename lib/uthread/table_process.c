/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The owner (base/owner.h) of the table's parts of libtek.so, threads/table*.c, threads/rundir.c
 * and base/module.c, in a process with user-level threads.
 */
#include "base/owner.h"
#include "base/page.h"
#include "stack/config.h"
#include "threads/table.h"
#include "uthread/spin.h"
#include "uthread/table.h"
#include "uthread/worker.h"

#include <stdio.h>
#include <unistd.h>

static struct tek_spin spin;

static pid_t pid(void)
{
	return getpid();
}

/* No part collects these messages: the line is as the engine's own. */
static void report_bad_option(const char *variable, const char *value)
{
	char line[256];
	int bytes = snprintf(line, sizeof(line), "tek: %s: not understood: %s\n", variable, value);
	if (bytes > 0)
		(void)!write(STDERR_FILENO, line,
			     (size_t)bytes < sizeof(line) ? (size_t)bytes : sizeof(line) - 1);
}

/* For a few instructions, or a system call. */
static bool lock(void)
{
	tek_ut__enter();
	tek_ut__spin_lock(&spin);
	return true;
}

static void unlock(void)
{
	tek_ut__spin_unlock(&spin);
	tek_ut__leave();
}

static const struct tek_owner owner = {
	.pid = pid,
	.lock = lock,
	.unlock = unlock,
	.bad_option = report_bad_option,
	.list_modules = tek__table_list_modules,
	.describe_stacks = tek__stack_config_describe,
};

void tek_ut__table_process_start(void)
{
	tek__owner = &owner;
	tek__page_start();
}

/*
 * Earlier than the engine's constructor, which needs it. A function of its own: the link-time
 * optimizer of gcc 12 loses a constructor that is called by name, too.
 */
__attribute__((constructor(101))) static void start(void)
{
	tek_ut__table_process_start();
}
