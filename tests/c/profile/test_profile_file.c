/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The profiler's file: where there is no room for it, and in a child. */
#include "support.h"

#include "profile/account.h"
#include "profile/modules.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/tek-test-profile-XXXXXX";
static bool is_full, is_old_kernel;

/* The result on a full file system, or of MADV_POPULATE_WRITE on a kernel before 5.14. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arguments[6];
	va_list more;

	va_start(more, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(more, long);
	va_end(more);
	if (number == SYS_madvise && (is_full || is_old_kernel)) {
		errno = is_old_kernel ? EINVAL : EFAULT;
		return -1;
	}
	if (number == SYS_fallocate && is_full) {
		errno = ENOSPC;
		return -1;
	}
	return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
			      arguments[4], arguments[5]);
}

static struct tek_profile_thread *self(void)
{
	return tek_prof__thread();
}

static void *adopt(void *unused)
{
	(void)unused;
	return tek_prof__thread();
}

/* The record that another thread finds for itself. */
static void *adopted(void)
{
	pthread_t thread;
	void *found;

	assert_int_equal(pthread_create(&thread, NULL, adopt, NULL), 0);
	assert_int_equal(pthread_join(thread, &found), 0);
	return found;
}

static int begin(void **state)
{
	char variable[128];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(variable, sizeof(variable), "MONOTONIC:0:%s", directory);
	assert_null(tek_prof__file_make(variable));
	/*
	* Such a thread of a library's constructor may come before: there is no key for its end yet,
	* nor a first thread.
	*/
	assert_null(adopted());
	assert_int_equal(tek_prof__thread_new(), 0);
	tek_prof__threads_prepare();
	tek_prof__thread_begin(tek_prof__file_take_thread());
	assert_int_equal(tek_prof__self.number, 1);
	tek_prof__threads_open();
	return 0;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static void threads_without_room_are_counted_and_nobody_reads_what_is_not_there(void **state)
{
	(void)state;
	uint32_t given = __atomic_load_n(&tek_prof__file->threads, __ATOMIC_RELAXED);
	is_full = true;
	is_old_kernel = false;
	assert_int_equal(tek_prof__thread_new(), 0);
	is_old_kernel = true;
	assert_int_equal(tek_prof__thread_new(), 0);
	assert_null(adopted());
	assert_int_equal(tek_prof__file->lost_threads, 1);
	is_full = false;
	/* A number is given once. */
	uint32_t number = tek_prof__thread_new();
	assert_int_equal(number, given + 4);
	assert_true(tek_prof__file_has(number));
	tek_prof__file_thread(number)->tid = 1;
	for (uint32_t none = given + 1; none < number; none++)
		assert_false(tek_prof__file_has(none));
	tek_prof__threads_last();
	is_old_kernel = false;
}

static void a_thread_that_asks_for_another_thread_does_not_count_for_it(void **state)
{
	struct tek_profile_thread *other = tek_prof__file_thread(tek_prof__thread_new());
	uint64_t own = self()->timed[0];

	(void)state;
	other->tid = (tek_u32)getpid();
	tek_prof__ask_scheduler(other);
	assert_true(other->run_ns > 0);
	assert_int_equal(other->timed[0], 0);
	tek_prof__ask_scheduler(self());
	assert_int_equal(self()->timed[0], own + 1);
}

static void a_child_has_its_own_file_and_what_its_parent_knew_of_modules(void **state)
{
	struct tek_profile_thread *before = self();
	uint64_t calls = before->calls[TEK_PROFILE_IDLE];
	int status;

	(void)state;
	tek_prof__modules_note();
	tek_u32 modules = tek_prof__file->modules;
	pid_t child = fork();
	if (child == 0) {
		struct tek_profile_header *parents = tek_prof__file;
		struct tek_profile_waiting waiting = {.thread = before};
		memset(&tek_prof__self, 0, sizeof(tek_prof__self));
		tek_prof__file_forked();
		/* A call that a signal handler forked in returns. */
		before->calls[TEK_PROFILE_IDLE]++;
		tek_prof__waited(&waiting, TEK_PROFILE_IDLE, TEK_PROFILE_SLEEP, NULL, NULL);
		_exit(tek_prof__file && tek_prof__file != parents &&
		      tek_prof__file->modules == modules && !tek_prof__self.thread);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(before->calls[TEK_PROFILE_IDLE], calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			threads_without_room_are_counted_and_nobody_reads_what_is_not_there),
		cmocka_unit_test(a_thread_that_asks_for_another_thread_does_not_count_for_it),
		cmocka_unit_test(a_child_has_its_own_file_and_what_its_parent_knew_of_modules),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
