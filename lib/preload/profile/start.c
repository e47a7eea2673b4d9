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

static void say(const char *why)
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

	if (!tek__profile_is_found)
		tek__profile_find_real(0);
	if (!variable || !*variable)
		return;
	tek__target_start();
	uint64_t began = tek__profile_monotonic_ns();
	const char *why = tek__profile_file_make(variable);
	if (why) {
		say(why);
		return;
	}
	if (!tek__profile_file)
		return;
	tek__profile_modules_note();
	tek__profile_process_start();
	tek__profile_threads_prepare();
	tek__profile_thread_begin_first();
	/* A library's constructor may have started threads, which go on without us until here. */
	tek__profile_threads_open();
	tek__profile_measure_cost();
	/* In ns: at its beginning it was not known which clock there is. */
	tek__profile_file->start_cost = tek__profile_monotonic_ns() - began;
}

void tek__profile_last(void)
{
	tek__profile_threads_last();
	tek__profile_file_times();
}

void tek__profile_over(void)
{
	struct tek_profile_header *file = tek__profile_file;

	/* A child by vfork() or _Fork() ends, and not the process that owns its memory or file. */
	if (!file || file->end_ticks || file->pid != (tek_u32)getpid())
		return;
	tek__profile_last();
	__atomic_store_n(&file->end_ticks, tek__profile_ticks(), __ATOMIC_RELEASE);
}

__attribute__((destructor)) static void end(void)
{
	tek__profile_modules_note();
	tek__profile_over();
}
