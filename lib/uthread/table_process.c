/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process's functions that the table's parts of libtek.so (threads/table.c, module.c, rundir.c)
 * need: here of a process with user-level threads.
 */
#include "base/page.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/table.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <stdio.h>
#include <unistd.h>

static struct tek_spin lock;

pid_t tek__pid(void)
{
	return getpid();
}

/* No part collects these messages: the line is as the engine's own. */
void tek__report_bad_option(const char *variable, const char *value)
{
	char line[256];
	int bytes = snprintf(line, sizeof(line), "tek: %s: not understood: %s\n", variable, value);
	if (bytes > 0)
		(void)!write(STDERR_FILENO, line,
			     (size_t)bytes < sizeof(line) ? (size_t)bytes : sizeof(line) - 1);
}

/* For a few instructions, or a system call. */
bool tek__lock(void)
{
	tek__enter();
	tek__spin_lock(&lock);
	return true;
}

void tek__unlock(void)
{
	tek__spin_unlock(&lock);
	tek__leave();
}

/* Earlier than the engine's constructor, which needs it. */
__attribute__((constructor(101))) static void start(void)
{
	tek__page_start();
}
