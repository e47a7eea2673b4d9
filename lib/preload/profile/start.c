/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/profile/start.h"

#include "exec/target.h"
#include "preload/profile/real.h"
#include "profile/account.h"
#include "profile/modules.h"
#include "profile/process.h"
#include "profile/thread.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void report(const char *why)
{
	char line[256] = "tek: this program runs, but is not profiled: ";

	strncat(line, why, sizeof(line) - strlen(line) - 2);
	strcat(line, "\n");
	(void)!syscall(SYS_write, STDERR_FILENO, line, strlen(line));
}

/* Before the program's own constructors; calls that come even earlier are not counted. */
__attribute__((constructor)) static void begin(void)
{
	const char *variable = getenv("TEK_PROFILE");

	if (!tek_prof__is_found)
		tek_prof__find_real(0);
	if (!variable || !*variable)
		return;
	tek__target_start();
	uint64_t began = tek_prof__monotonic_ns();
	const char *why = tek_prof__file_make(variable);
	if (why) {
		report(why);
		return;
	}
	if (!tek_prof__file)
		return;
	tek_prof__modules_note();
	tek_prof__process_start();
	tek_prof__threads_prepare();
	tek_prof__thread_begin_first();
	/* A library's constructor may have started threads, which go on without us until here. */
	tek_prof__threads_open();
	tek_prof__measure_cost();
	/* In ns: at its beginning it was not known which clock there is. */
	tek_prof__file->start_cost = tek_prof__monotonic_ns() - began;
}

void tek_prof__last(void)
{
	tek_prof__threads_last();
	tek_prof__file_times();
}

void tek_prof__over(void)
{
	struct tek_profile_header *file = tek_prof__file;

	/* A child by vfork() or _Fork() ends, and not the process that owns its memory or file. */
	if (!file || file->end_ticks || file->pid != (tek_u32)getpid())
		return;
	tek_prof__last();
	__atomic_store_n(&file->end_ticks, tek_prof__ticks(), __ATOMIC_RELEASE);
}

__attribute__((destructor)) static void end(void)
{
	tek_prof__modules_note();
	tek_prof__over();
}
