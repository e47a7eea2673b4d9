/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tables that processes leave for `tek` to learn from: the process is this program, run again with
 * a word.
 */
#include "profile_support.h"

#include <dirent.h>
#include <fcntl.h>

static void leave_a_kind(void)
{
	struct tek_thread thread = made_up(0x5000, 1);
	take_lock(NULL);
	note(&thread, USED);
	give_lock(NULL);
}

static pthread_barrier_t is_deep;

/* Deeper than at any measurement, and it does not end before its process. */
static void *go_deep(void *unused)
{
	volatile char frame[USED];

	for (size_t i = 0; i < sizeof(frame); i += 512)
		frame[i] = 'x';
	pthread_barrier_wait(&is_deep);
	pause();
	return frame[0] ? unused : NULL;
}

static void leave_a_deep_thread(void)
{
	pthread_t thread;

	pthread_barrier_init(&is_deep, NULL, 2);
	pthread_create(&thread, NULL, go_deep, NULL);
	pthread_barrier_wait(&is_deep);
}

static int left_behind(const char *word)
{
	if (strncmp(word, "deep", 4) == 0) {
		leave_a_deep_thread();
		if (strcmp(word, "deep-exec") == 0)
			execl("/proc/self/exe", program_invocation_short_name, "nothing", NULL);
		return 0;
	}
	if (strcmp(word, "nothing") == 0)
		return 0;
	if (strcmp(word, "quiet") != 0)
		leave_a_kind();
	else if (take_lock(NULL) == 0)
		give_lock(NULL);
	if (strcmp(word, "clearenv") == 0)
		clearenv();
	if (strcmp(word, "exec") == 0)
		execl("/proc/self/exe", program_invocation_short_name, "nothing", NULL);
	if (strcmp(word, "exec-unseen") == 0)
		syscall(SYS_execve, "/proc/self/exe",
			(char *[]){program_invocation_short_name, "nothing", NULL}, environ);
	if (strcmp(word, "exec-fails") == 0)
		execl(directory, program_invocation_short_name, NULL);
	if (strcmp(word, "fork") == 0) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0)
			exit(0);
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	if (strcmp(word, "child") == 0) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			leave_a_kind();
			exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

/* How many files of this process, or, with 0, of all are there with this ending. */
static unsigned int files(pid_t pid, const char *ending, char *path, size_t size)
{
	DIR *entries = opendir(directory);
	unsigned int count = 0;

	assert_non_null(entries);
	for (struct dirent *entry; (entry = readdir(entries));) {
		const char *at = strstr(entry->d_name, ending);
		if (!at || at[strlen(ending)] || (pid && atoi(entry->d_name) != pid))
			continue;
		count++;
		if (path)
			snprintf(path, size, "%s/%s", directory, entry->d_name);
	}
	closedir(entries);
	return count;
}

/* Run with that word, by another user if it is not 0. */
static pid_t leaves_as(const char *word, uid_t user)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (user && setuid(user))
			_exit(98);
		execl("/proc/self/exe", program_invocation_short_name, word, NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return pid;
}

static pid_t leaves(const char *word)
{
	return leaves_as(word, 0);
}

/* The entry of the only kind in the table that is left. */
static struct tek_kind check_kind(const char *word)
{
	struct tek_table_header header;
	struct tek_kind kind;
	char path[320];

	pid_t pid = leaves(word);
	assert_int_equal(files(pid, ".ended", path, sizeof(path)), 1);
	assert_int_equal(files(pid, ".table", NULL, 0), 0);
	assert_int_equal(files(pid, ".table~", NULL, 0), 0);
	int fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(header.magic, TEK_TABLE_MAGIC);
	assert_int_equal(header.pid, pid);
	assert_int_equal(header.kinds, 1);
	assert_int_equal(pread(fd, &kind, sizeof(kind), TEK_KINDS_OFFSET), sizeof(kind));
	close(fd);
	unlink(path);
	return kind;
}

static void check_ended(const char *word)
{
	const struct tek_kind kind = check_kind(word);

	assert_int_equal(kind.function, 0x5000);
	assert_int_equal(kind.peak_bytes, USED);
}

static void threads_that_outlive_exit_or_exec_are_measured_before(void **state)
{
	static const char *const words[] = {"deep-exit", "deep-exec"};

	(void)state;
	need_tuner();
	for (size_t i = 0; i < 2; i++) {
		const struct tek_kind kind = check_kind(words[i]);
		assert_int_equal(kind.threads, 1);
		assert_in_range(kind.peak_bytes, USED, USED + 16 * KIB);
		assert_in_range(kind.bound_bytes, kind.peak_bytes, USED + 16 * KIB);
	}
}

static void a_process_that_ends_leaves_its_table_as_ended(void **state)
{
	(void)state;
	check_ended("exit");
	check_ended("clearenv");
}

static void a_program_that_is_replaced_leaves_its_table_as_ended(void **state)
{
	(void)state;
	check_ended("exec");
	check_ended("exec-unseen");
	check_ended("exec-fails");
}

static void without_kinds_nothing_is_left(void **state)
{
	(void)state;
	pid_t pid = leaves("quiet");
	assert_int_equal(files(pid, "", NULL, 0), 0);
}

static void the_child_of_a_fork_leaves_nothing_of_its_parent_s(void **state)
{
	char path[320];

	(void)state;
	pid_t pid = leaves("fork"); /* the parent is as if killed */
	assert_int_equal(files(0, ".ended", NULL, 0), 0);
	assert_int_equal(files(pid, ".table", path, sizeof(path)), 1);
	unlink(path);
}

static void a_child_with_kinds_of_its_own_leaves_a_table_of_its_own(void **state)
{
	struct tek_table_header header;
	char path[320];

	(void)state;
	pid_t pid = leaves("child");
	assert_int_equal(files(0, ".ended", NULL, 0), 2);
	assert_int_equal(files(pid, ".ended", path, sizeof(path)), 1);
	unlink(path);
	assert_int_equal(files(0, ".ended", path, sizeof(path)), 1);
	int fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
	unlink(path);
	assert_int_not_equal(header.pid, pid);
	assert_int_equal(header.kinds, 1);
}

static void where_nobody_learns_nothing_is_left(void **state)
{
	char xdg[] = "/tmp/tek-test-XXXXXX", within[sizeof(xdg) + 4];
	/* All users may write to the default directory of root. */
	uid_t nobody = geteuid() == 0 ? 65534 : 0;

	(void)state;
	assert_non_null(mkdtemp(xdg));
	assert_true(!nobody || chown(xdg, nobody, nobody) == 0);
	setenv("XDG_RUNTIME_DIR", xdg, 1);
	unsetenv("TEK_RUN_DIR");
	leaves_as("exit", nobody);
	setenv("TEK_RUN_DIR", directory, 1);
	snprintf(within, sizeof(within), "%s/tek", xdg);
	assert_int_equal(rmdir(within), 0); /* empty */
	assert_int_equal(rmdir(xdg), 0);
}

static void print_none(FILE *profile)
{
	(void)profile;
}

int main(int count, char **words)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_ends_leaves_its_table_as_ended),
		cmocka_unit_test(a_program_that_is_replaced_leaves_its_table_as_ended),
		cmocka_unit_test(threads_that_outlive_exit_or_exec_are_measured_before),
		cmocka_unit_test(without_kinds_nothing_is_left),
		cmocka_unit_test(the_child_of_a_fork_leaves_nothing_of_its_parent_s),
		cmocka_unit_test(a_child_with_kinds_of_its_own_leaves_a_table_of_its_own),
		cmocka_unit_test(where_nobody_learns_nothing_is_left),
	};

	if (!has_profile())
		return run_with_profile(print_none);
	if (count > 1)
		return left_behind(words[1]);
	return cmocka_run_group_tests_name("stack_left", tests, NULL, NULL);
}
