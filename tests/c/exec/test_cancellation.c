/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions that are no cancellation points are none with TEK, although TEK reads files in them. */
#include "support.h"

#include <spawn.h>
#include <sys/wait.h>

struct call {
	void (*make)(void);
	_Atomic bool returned;
};

/* A cancellation is pending when it makes the call. */
static void *call_main(void *argument)
{
	struct call *call = argument;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	call->make();
	call->returned = true;
	pthread_testcancel();
	return NULL;
}

static void assert_returns(void (*make)(void))
{
	struct call call = {.make = make};
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, call_main, &call), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_true(call.returned);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

/* Without TEK, which with a sanitizer runs in no other program. */
static char *const no_environment[] = {NULL};
static pid_t spawned;

static void spawn(void)
{
	char *const arguments[] = {"true", NULL};

	spawned = 0;
	if (posix_spawn(&spawned, "/bin/true", NULL, NULL, arguments, no_environment))
		spawned = 0;
}

static void spawn_by_name(void)
{
	char *const arguments[] = {"true", NULL};

	spawned = 0;
	if (posix_spawnp(&spawned, "true", NULL, NULL, arguments, no_environment))
		spawned = 0;
}

/* The kernel refuses it: no file of the system that every user may read, and none execute. */
static void execute_in_vain(void)
{
	char *const arguments[] = {"in-vain", NULL};

	execve("/etc/passwd", arguments, environ);
	execvp("/etc/passwd", arguments);
}

static void execute_after_vfork(void)
{
	spawned = vfork();
	if (spawned == 0) {
		execle("/bin/true", "true", NULL, no_environment);
		_exit(1);
	}
}

static void *do_nothing(void *unused)
{
	(void)unused;
	return NULL;
}

static void create(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
		pthread_detach(thread);
}

static void become_fast_and_back(void)
{
	set_tek(pthread_self(), 0);
	set_other(pthread_self());
	pthread_setname_np(pthread_self(), "renamed");
}

static void assert_child_ends_well(void)
{
	int status;

	assert_true(spawned > 0);
	assert_int_equal(waitpid(spawned, &status, 0), spawned);
	assert_int_equal(status, 0);
}

static void posix_spawn_is_no_cancellation_point(void **state)
{
	(void)state;
	assert_returns(spawn);
	assert_child_ends_well();
	assert_returns(spawn_by_name);
	assert_child_ends_well();
}

static void exec_is_no_cancellation_point(void **state)
{
	(void)state;
	assert_returns(execute_in_vain);
}

static void exec_after_vfork_is_no_cancellation_point(void **state)
{
	(void)state;
	assert_returns(execute_after_vfork);
	assert_child_ends_well();
}

static void functions_of_threads_are_no_cancellation_points(void **state)
{
	(void)state;
	assert_returns(create);
	assert_returns(become_fast_and_back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(posix_spawn_is_no_cancellation_point),
		cmocka_unit_test(exec_is_no_cancellation_point),
		cmocka_unit_test(exec_after_vfork_is_no_cancellation_point),
		cmocka_unit_test(functions_of_threads_are_no_cancellation_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
