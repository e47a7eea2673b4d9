/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attributes of threads of other processes, read from their tables. */
#include "attributes_support.h"
#include "rounds.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* A process to be read: it reports that it is ready and waits to be ended. */
static pid_t start_other(void (*prepare)(void))
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prepare();
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end_other(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void with_a_role(void)
{
	set_role(pthread_self(), "other process");
}

static void a_thread_of_another_process_is_read_but_not_set(void **state)
{
	struct tek_attributes attributes = {.role = "mine"};

	(void)state;
	pid_t pid = start_other(with_a_role);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), 0);
	assert_string_equal(attributes.role, "other process");
	assert_int_equal(attributes.tid, pid);
	assert_true(attributes.vm_bytes > 1000000);
	assert_int_equal(tek_tid_set_attributes(pid, TEK_ATTRIBUTES_ALL, &attributes), EPERM);
	kill(pid, SIGSTOP);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), 0);
	end_other(pid);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), ESRCH);
}

static void nothing(void) {}

static void a_process_without_a_table_has_no_attributes(void **state)
{
	struct tek_attributes attributes;

	(void)state;
	assert_int_equal(tek_tid_get_attributes(2, &attributes), ENODATA); /* kthreadd */
	pid_t pid = start_other(nothing);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), ENODATA);
	end_other(pid);
}

/* A table file of that process, in the directory of this one's own. */
static void write_table(pid_t pid, const struct tek_table_header *header,
			const struct tek_record *record, size_t size)
{
	static char bytes[TEK_TABLE_HEADER_BYTES + TEK_TABLE_CHUNK_BYTES];
	const char *directory = getenv("TEK_RUN_DIR");
	char path[128];

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, header, sizeof(*header));
	memcpy(bytes + TEK_TABLE_HEADER_BYTES, record, sizeof(*record));
	snprintf(path, sizeof(path), "%s/%d.table", directory ? directory : "/run/tek", (int)pid);
	unlink(path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static void remove_table(pid_t pid)
{
	const char *directory = getenv("TEK_RUN_DIR");
	char path[128];
	snprintf(path, sizeof(path), "%s/%d.table", directory ? directory : "/run/tek", (int)pid);
	unlink(path);
}

static void a_table_that_makes_no_sense_is_refused(void **state)
{
	enum { WHOLE = TEK_TABLE_HEADER_BYTES + TEK_TABLE_CHUNK_BYTES };
	struct tek_attributes attributes;

	(void)state;
	pid_t pid = start_other(nothing);
	const struct tek_table_header good = {
		.magic = TEK_TABLE_MAGIC,
		.version = TEK_ABI_VERSION,
		.pid = (tek_u32)pid,
		.record_bytes = sizeof(struct tek_record),
		.side_bytes = sizeof(struct tek_side),
		.page_bytes = 4096,
		.chunks = 1,
		.slots = 1,
	};
	struct tek_record record = {
		.tid = (tek_u32)pid, .start_ns = UINT64_MAX, .role_bytes = 65535};
	struct tek_table_header header = good;

	write_table(pid, &header, &record, WHOLE);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), 0);
	assert_string_equal(attributes.role, "");
	record.seq = 1;
	write_table(pid, &header, &record, WHOLE);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), EBUSY);
	record = (struct tek_record){.tid = (tek_u32)pid, .start_ns = 1};
	write_table(pid, &header, &record, WHOLE);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), ENODATA); /* an earlier one's */
	write_table(pid, &header, &record, TEK_TABLE_HEADER_BYTES + 8);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), EBADMSG);
	header.slots = UINT32_MAX;
	write_table(pid, &header, &record, WHOLE);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), EBADMSG);
	header = good;
	header.page_bytes = 4095;
	write_table(pid, &header, &record, WHOLE);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), EBADMSG);
	header = good;
	header.pid = 1;
	write_table(pid, &header, &record, WHOLE);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), ENODATA);
	remove_table(pid);
	end_other(pid);
}

static void a_table_in_tmp_counts_only_in_a_directory_of_its_user(void **state)
{
	char above[] = "/tmp/tek-test-XXXXXX", directory[64], elsewhere[64], before[128] = "";
	struct tek_attributes attributes;

	(void)state;
	assert_non_null(mkdtemp(above));
	snprintf(directory, sizeof(directory), "%s/tek-%u", above, geteuid());
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", above);
	assert_int_equal(mkdir(directory, 0755), 0);
	if (getenv("TEK_RUN_DIR"))
		snprintf(before, sizeof(before), "%s", getenv("TEK_RUN_DIR"));
	pid_t pid = start_other(nothing);
	const struct tek_table_header header = {
		.magic = TEK_TABLE_MAGIC,
		.version = TEK_ABI_VERSION,
		.pid = (tek_u32)pid,
		.record_bytes = sizeof(struct tek_record),
		.side_bytes = sizeof(struct tek_side),
		.page_bytes = 4096,
		.chunks = 1,
		.slots = 1,
	};
	const struct tek_record record = {.tid = (tek_u32)pid, .start_ns = UINT64_MAX};
	setenv("TEK_RUN_DIR", directory, 1);
	write_table(pid, &header, &record, TEK_TABLE_HEADER_BYTES + TEK_TABLE_CHUNK_BYTES);
	setenv("TEK_RUN_DIR", before, 1);
	setenv("TMPDIR", above, 1);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), 0);
	assert_int_equal(chmod(directory, 0777), 0);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), ENODATA);
	assert_int_equal(chmod(directory, 0755) || rename(directory, elsewhere) ||
				 symlink(elsewhere, directory),
			 0);
	assert_int_equal(tek_tid_get_attributes(pid, &attributes), ENODATA);
	unsetenv("TMPDIR");
	setenv("TEK_RUN_DIR", elsewhere, 1);
	remove_table(pid);
	if (before[0])
		setenv("TEK_RUN_DIR", before, 1);
	else
		unsetenv("TEK_RUN_DIR");
	assert_int_equal(unlink(directory) || rmdir(elsewhere) || rmdir(above), 0);
	end_other(pid);
}

static int try_as_nobody(void)
{
	struct tek_attributes attributes = {.role = "x"};
	return setuid(65534) == 0 &&
	       tek_tid_set_attributes(getppid(), TEK_ATTRIBUTE_ROLE, &attributes) == EPERM;
}

static void another_users_thread_is_not_set(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("# needs root, to become another user\n");
		skip();
	}
	set_role(pthread_self(), "root's");
	assert_int_equal(in_child(try_as_nobody), 1);
	assert_string_equal(attributes_of(pthread_self()).role, "root's");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_of_another_process_is_read_but_not_set),
		cmocka_unit_test(a_process_without_a_table_has_no_attributes),
		cmocka_unit_test(a_table_that_makes_no_sense_is_refused),
		cmocka_unit_test(a_table_in_tmp_counts_only_in_a_directory_of_its_user),
		cmocka_unit_test(another_users_thread_is_not_set),
	};
	return cmocka_run_group_tests_name("attributes_foreign", tests, NULL, NULL);
}
