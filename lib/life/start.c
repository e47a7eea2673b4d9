/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/start.h"

#include "base/owner.h"
#include "base/program.h"
#include "base/real.h"
#include "base/sanitizer.h"
#include "exec/target.h"
#include "inherit/mutex.h"
#include "life/end.h"
#include "life/fork.h"
#include "life/keys.h"
#include "mediate/attr.h"
#include "mediate/config.h"
#include "mediate/region.h"
#include "mediate/rules.h"
#include "place/place.h"
#include "stack/config.h"
#include "stack/stack.h"
#include "threads/inversions.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/table.h"
#include "threads/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The state of the start: 0 before it, the tid of the thread that performs it, STARTED after it. */
#define STARTED (-1)
static atomic_int started;

/* These have allocators of their own, beside which another one crashes. */
static void know_allocators(void)
{
	const char *alloc = secure_getenv("TEK_ALLOC");

	if (alloc && *alloc && strcmp(alloc, "glibc") != 0)
		tek__target_add_sanitizers();
}

static const struct tek_owner owner = {
	.pid = tek__pid,
	.lock = tek__lock,
	.unlock = tek__unlock,
	.bad_option = tek__report_bad_option,
	.list_modules = tek__table_list_modules,
	.describe_stacks = tek__stack_config_describe,
};

static void start(void)
{
	tek__owner = &owner;
	tek__process_begin();
	tek__sanitizer_start();
	tek__real_find();
	tek__keys_start();
	tek__attr_start();
	tek__target_start();
	know_allocators();
	if (!tek__end_start())
		tek__process_stand_down();
	tek__threads_start();
	tek__report_start();
	tek__config_read();
	tek__rules_read();
	tek__place_start();
	tek__stack_start();
	tek__inherit_start(tek__config.inherit);
	if (tek__sanitizer_in_program()) {
		tek__process_stand_down();
		tek__report_not_covered(__progname_full, "is built with a sanitizer");
	}
	tek__fork_start();
}

/*
 * Waits a moment for the thread that performs the start.  A child of fork() does not have that
 * thread, and starts anew.
 */
static void await_start(int starter)
{
	const struct timespec moment = {.tv_nsec = 100000};
	const int saved = errno;

	if (syscall(SYS_tgkill, getpid(), starter, 0) == 0)
		syscall(SYS_nanosleep, &moment, NULL);
	else
		atomic_compare_exchange_strong(&started, &starter, 0);
	errno = saved;
}

__attribute__((cold, noinline)) static bool begin_or_wait(void)
{
	const int self = (int)syscall(SYS_gettid);

	for (;;) {
		int found = 0;
		if (atomic_compare_exchange_strong(&started, &found, self)) {
			start();
			atomic_store_explicit(&started, STARTED, memory_order_release);
			return true;
		}
		if (found == STARTED)
			return true;
		if (found == self)
			return false;
		await_start(found);
	}
}

bool tek__start(void)
{
	return atomic_load_explicit(&started, memory_order_acquire) == STARTED || begin_or_wait();
}

/* The program's own constructors and main() come later. */
__attribute__((constructor)) static void constructor(void)
{
	tek__start();
	tek__table_remove_stale();
	tek__place_main();
	tek__rules_main_thread();
}

__attribute__((destructor)) static void destructor(void)
{
	/* A program that never needed TEK ends without it, in whatever sandbox it is by now. */
	if (!tek__table_header() || !tek__lock())
		return;
	tek__region_summarise();
	tek__inversions_report();
	tek__stack_finish();
	tek__table_end();
	tek__unlock();
}
