/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The next process that makes a table file removes those of ended processes. */
#include "life/start.h"
#include "support.h"

#include "base/procfs.h"
#include "base/time_namespace.h"
#include "threads/process.h"
#include "threads/rundir.h"

#include <fcntl.h>

static char above[] = "/tmp/tek-test-XXXXXX";
static char directory[sizeof(above) + 4]; /* the default of users other than root */

static int make_directory(void **state)
{
	enum { NOBODY = 65534 };

	(void)state;
	tek__start();
	unsetenv("TEK_RUN_DIR");
	if (!mkdtemp(above) || setenv("XDG_RUNTIME_DIR", above, 1))
		return 1;
	snprintf(directory, sizeof(directory), "%s/tek", above);
	return (geteuid() == 0 && (chown(above, NOBODY, NOBODY) || seteuid(NOBODY))) ||
	       !tek__rundir_prepare();
}

static int remove_directory(void **state)
{
	(void)state;
	int left = rmdir(directory);
	return seteuid(getuid()) || rmdir(above) || left;
}

static const char *path_of(pid_t pid)
{
	static char path[64];
	snprintf(path, sizeof(path), "%s/%d.table", directory, (int)pid);
	return path;
}

static void write_file(pid_t pid, const void *bytes, size_t size)
{
	int fd = open(path_of(pid), O_CREAT | O_WRONLY | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

/* A table of that process, with a start this many ticks later. */
static struct tek_table_header header_of(pid_t pid, uint64_t later_by)
{
	uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	struct tek_time_offsets offsets;

	assert_true(tek__time_offsets(&offsets));
	return (struct tek_table_header){
		.magic = TEK_TABLE_MAGIC,
		.version = TEK_ABI_VERSION,
		.pid = (tek_u32)pid,
		.start_ns = tek__start_ns(pid, &offsets) + later_by * tick_ns,
		.pid_namespace = tek__procfs_pid_namespace(),
	};
}

static bool is_left(pid_t pid)
{
	assert_true(tek__rundir_prepare());
	bool left = access(path_of(pid), F_OK) == 0;
	unlink(path_of(pid));
	return left;
}

static pid_t dead_pid(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void the_table_of_a_dead_process_goes(void **state)
{
	pid_t pid = dead_pid();
	struct tek_table_header header = header_of(pid, 0);

	(void)state;
	write_file(pid, &header, sizeof(header));
	assert_false(is_left(pid));
	write_file(pid, "", 0); /* killed before it wrote anything */
	assert_false(is_left(pid));
}

static void the_table_of_a_living_process_stays(void **state)
{
	struct tek_table_header header = header_of(getppid(), 0);

	(void)state;
	write_file(getppid(), &header, sizeof(header));
	assert_true(is_left(getppid()));
	write_file(getppid(), "", 0); /* it is just making it */
	assert_true(is_left(getppid()));
}

static void a_table_goes_when_its_pid_is_another_process_by_now(void **state)
{
	struct tek_table_header header = header_of(getppid(), 1);

	(void)state;
	write_file(getppid(), &header, sizeof(header));
	assert_false(is_left(getppid()));
}

static void the_table_of_another_pid_namespace_stays(void **state)
{
	pid_t pid = dead_pid();
	struct tek_table_header header = header_of(pid, 0);

	(void)state;
	header.pid_namespace++;
	write_file(pid, &header, sizeof(header));
	assert_true(is_left(pid));
}

static void files_that_are_no_tables_stay(void **state)
{
	static const char *const names[] = {"events", "12x.table", "table", "-5.table",
					    "1.table.old"};
	char path[96];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		close(open(path, O_CREAT | O_WRONLY, 0644));
		assert_true(tek__rundir_prepare());
		assert_int_equal(unlink(path), 0);
	}
}

static void what_can_be_learnt_from_in_a_given_directory_is_for_its_owner(void **state)
{
	pid_t pid = dead_pid();
	struct tek_table_header header = header_of(pid, 0);

	(void)state;
	setenv("TEK_RUN_DIR", directory, 1);
	assert_true(tek__rundir_is_given());
	write_file(pid, &header, sizeof(header));
	assert_false(is_left(pid));
	header.kinds = 1;
	write_file(pid, &header, sizeof(header));
	assert_true(is_left(pid));
	unsetenv("TEK_RUN_DIR");
	assert_false(tek__rundir_is_given());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_of_a_dead_process_goes),
		cmocka_unit_test(the_table_of_a_living_process_stays),
		cmocka_unit_test(a_table_goes_when_its_pid_is_another_process_by_now),
		cmocka_unit_test(the_table_of_another_pid_namespace_stays),
		cmocka_unit_test(files_that_are_no_tables_stay),
		cmocka_unit_test(what_can_be_learnt_from_in_a_given_directory_is_for_its_owner),
	};
	return cmocka_run_group_tests_name("rundir", tests, make_directory, remove_directory);
}
