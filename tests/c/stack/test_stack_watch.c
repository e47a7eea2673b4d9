/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The helper that measures the stacks of running threads: its results are in the table. */
#include "patience.h"
#include "stack_support.h"

#include "stack/config.h"
#include "stack/watch.h"
#include "threads/process.h"
#include "threads/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>

enum { KIB = 1024, PATIENCE_MS = 5000 };

/* The kernel id of our helper in a process; 0: there is none. */
static pid_t helper_of(pid_t pid)
{
	char path[64], name[32];
	struct dirent *entry;
	pid_t found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", (int)pid, entry->d_name);
		FILE *file = fopen(path, "re");
		if (file && fgets(name, sizeof(name), file) && strcmp(name, "tek-stack\n") == 0)
			found = atoi(entry->d_name);
		if (file)
			fclose(file);
	}
	if (directory)
		closedir(directory);
	return found;
}

/* Once it has begun, and taken its name. */
static pid_t helper_soon(void)
{
	pid_t helper = helper_of(getpid());

	for (int i = 0; !helper && i < PATIENCE_MS; i += 5) {
		sleep_ms(5);
		helper = helper_of(getpid());
	}
	return helper;
}

static atomic_uint asked_with_lock;

/* It allocates memory, by the program's allocator, which may be waiting for TEK's lock. */
int __real_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	if (tek__lock())
		tek__unlock();
	else
		asked_with_lock++;
	return __real_pthread_getattr_np(thread, attr);
}

struct user {
	struct waiter waiter;
	size_t bytes;
	size_t truth;
};

static void *user_main(void *argument)
{
	struct user *user = argument;
	user->truth = stack_end() - use_stack(user->bytes);
	return waiter_main(&user->waiter);
}

static void user_start(struct user *user, size_t bytes)
{
	user->bytes = bytes;
	user->waiter.end = false;
	pthread_barrier_init(&user->waiter.ready, NULL, 2);
	pthread_mutex_init(&user->waiter.lock, NULL);
	pthread_cond_init(&user->waiter.changed, NULL);
	assert_int_equal(pthread_create(&user->waiter.thread, NULL, user_main, user), 0);
	pthread_barrier_wait(&user->waiter.ready);
}

static bool is_in_table_soon(const struct user *user)
{
	struct tek_attributes attributes;

	for (int i = 0; i < PATIENCE_MS; i += 5) {
		if (tek_thread_get_attributes(user->waiter.thread, &attributes) == 0 &&
		    attributes.peak_bytes == user->truth)
			return true;
		sleep_ms(5);
	}
	print_message("# it used %zu bytes; the table has %u\n", user->truth,
		      (unsigned)attributes.peak_bytes);
	return false;
}

static void what_running_threads_use_comes_into_the_table_by_itself(void **state)
{
	(void)state;
	struct user users[5];
	struct tek_attributes attributes;

	for (size_t i = 0; i < 5; i++)
		user_start(&users[i], (i + 1) * 33333);
	for (size_t i = 0; i < 5; i++)
		assert_true(is_in_table_soon(&users[i]));
	/* The first thread too. */
	assert_int_equal(tek_thread_get_attributes(pthread_self(), &attributes), 0);
	assert_true(attributes.peak_bytes > 0);
	for (size_t i = 0; i < 5; i++)
		waiter_end(&users[i].waiter);
}

static void the_c_library_is_not_asked_under_the_lock(void **state)
{
	(void)state;
	assert_int_equal(asked_with_lock, 0);
}

static void the_helper_is_no_thread_of_the_program(void **state)
{
	(void)state;
	struct tek_attributes attributes;
	struct user user;
	sigset_t all;
	char path[64], line[256];
	unsigned long long blocked = 0;

	user_start(&user, 20 * KIB);
	pid_t helper = helper_soon();
	assert_true(helper > 0);
	assert_int_not_equal(tek_tid_get_attributes(helper, &attributes), 0);
	assert_int_equal(kernel_policy(helper), SCHED_OTHER);
	/* It blocks all signals. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)helper);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "SigBlk: %llx", &blocked);
	fclose(file);
	sigfillset(&all);
	for (int signal = 1; signal < 32; signal++)
		if (signal != SIGKILL && signal != SIGSTOP)
			assert_true(blocked & 1ull << (signal - 1));
	waiter_end(&user.waiter);
}

static void once_all_threads_but_one_are_gone_it_goes_and_comes_again(void **state)
{
	(void)state;
	struct user user;

	user_start(&user, 20 * KIB);
	waiter_end(&user.waiter);
	for (int i = 0; helper_of(getpid()) && i < PATIENCE_MS; i += 5)
		sleep_ms(5);
	assert_int_equal(helper_of(getpid()), 0);
	user_start(&user, 30 * KIB);
	assert_true(is_in_table_soon(&user));
	assert_int_not_equal(helper_of(getpid()), 0);
	waiter_end(&user.waiter);
}

static int find_helper(void)
{
	return helper_of(getpid()) != 0;
}

static int start_thread_and_examine(void)
{
	struct user user;
	user_start(&user, 50 * KIB);
	bool found = is_in_table_soon(&user);
	return found && helper_of(getpid()) ? 0 : 1;
}

static void the_child_of_a_fork_has_its_own_once_it_has_threads(void **state)
{
	(void)state;
	assert_int_equal(in_child(find_helper), 0);
	assert_int_equal(in_child(start_thread_and_examine), 0);
}

static void *die(void *argument)
{
	struct user *user = argument;
	user->truth = stack_end() - use_stack(user->bytes);
	user->waiter.tid = own_tid();
	pthread_barrier_wait(&user->waiter.ready);
	sleep_ms(100);
	syscall(SYS_exit, 0);
	return NULL;
}

static void a_thread_that_left_by_the_system_call_exit_is_found_gone(void **state)
{
	(void)state;
	struct user user = {.bytes = 90 * KIB};
	pthread_attr_t attr;
	struct tek_thread *known = &(struct tek_thread){0};

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_barrier_init(&user.waiter.ready, NULL, 2);
	assert_int_equal(pthread_create(&user.waiter.thread, &attr, die, &user), 0);
	pthread_barrier_wait(&user.waiter.ready);
	for (int i = 0; known && i < PATIENCE_MS; i += 5) {
		sleep_ms(5);
		assert_true(tek__lock());
		known = tek__thread_known_tid(user.waiter.tid);
		tek__unlock();
	}
	assert_null(known);
	pthread_attr_destroy(&attr);
}

/* Reads the table of a process that did not end in order. */
static size_t peak_in(const char *directory, pid_t pid, size_t truth)
{
	char path[128];
	struct tek_record records[TEK_CHUNK_SLOTS];

	snprintf(path, sizeof(path), "%s/%d.table", directory, (int)pid);
	int fd = open(path, O_RDONLY);
	ssize_t bytes = pread(fd, records, sizeof(records), TEK_TABLE_HEADER_BYTES);
	close(fd);
	unlink(path);
	assert_int_equal(bytes, sizeof(records));
	for (size_t i = 0; i < TEK_CHUNK_SLOTS; i++)
		if (records[i].tid && records[i].peak_bytes == truth)
			return truth;
	return 0;
}

/* A process of its own: it reports the use of its thread, then ends as `how` names. */
static int use_and_end(const char *how)
{
	struct user user;
	user_start(&user, 44444);
	if (!is_in_table_soon(&user))
		return 1;
	if (write(STDOUT_FILENO, &user.truth, sizeof(user.truth)) != sizeof(user.truth))
		return 2;
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	_exit(7);
}

static void assert_survives(const char *how)
{
	char directory[] = "/tmp/tek-test-XXXXXX";
	int ends[2], status;
	size_t truth = 0;

	assert_non_null(mkdtemp(directory));
	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		setenv("TEK_RUN_DIR", directory, 1);
		execl("/proc/self/exe", "test_stack_watch", how, NULL);
		_exit(126);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &truth, sizeof(truth)), sizeof(truth));
	close(ends[0]);
	waitpid(pid, &status, 0);
	assert_int_equal(peak_in(directory, pid, truth), truth);
	rmdir(directory);
}

static void what_is_in_the_table_survives_the_death_of_the_process(void **state)
{
	(void)state;
	assert_survives("kill");
}

static void what_is_in_the_table_survives_an_end_without_exit(void **state)
{
	(void)state;
	assert_survives("_exit");
}

static void *leave_last(void *argument)
{
	sleep_ms(50);
	return argument;
}

/* exit() runs in the last thread of the program's, with status 0: the helper is gone before. */
static int end_with_last_thread(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, leave_last, NULL);
	pthread_detach(thread);
	limit_to(10);
	pthread_exit(NULL);
}

static void a_process_whose_main_left_ends_with_its_last_thread(void **state)
{
	(void)state;
	fflush(NULL);
	pid_t pid = fork();
	int status;
	if (pid == 0) {
		execl("/proc/self/exe", "test_stack_watch", "last", NULL);
		_exit(126);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

int main(int count, char **arguments)
{
	measure_in(arguments, "report,period=10");
	if (cannot_measure())
		return 0;
	if (count > 1)
		return strcmp(arguments[1], "last") == 0 ? end_with_last_thread()
							 : use_and_end(arguments[1]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_running_threads_use_comes_into_the_table_by_itself),
		cmocka_unit_test(the_c_library_is_not_asked_under_the_lock),
		cmocka_unit_test(the_helper_is_no_thread_of_the_program),
		cmocka_unit_test(once_all_threads_but_one_are_gone_it_goes_and_comes_again),
		cmocka_unit_test(the_child_of_a_fork_has_its_own_once_it_has_threads),
		cmocka_unit_test(a_thread_that_left_by_the_system_call_exit_is_found_gone),
		cmocka_unit_test(what_is_in_the_table_survives_the_death_of_the_process),
		cmocka_unit_test(what_is_in_the_table_survives_an_end_without_exit),
		cmocka_unit_test(a_process_whose_main_left_ends_with_its_last_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
