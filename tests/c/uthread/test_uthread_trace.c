/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The trace: its file after the end of the writing process.  Workers are simulated. */
#include "patience.h"
#include "support.h"

#include "tek_trace.h"
#include "uthread/trace.h"
#include "uthread/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#define RECORDS ((TEK_TRACE_BLOCK_BYTES - sizeof(struct tek_trace_block)) / 32)

static char path[] = "/tmp/tek-trace-XXXXXX";
static struct tek_uthread carrier, ui = {.id = 1}, gas = {.id = 7, .name = "gas detection"};

static int make_file(void **state)
{
	(void)state;
	int fd = mkstemp(path);
	return fd < 0 || close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

/* Two workers, with threads that a process simulates.  Returns the exit status of that process. */
static int play(void (*part)(void))
{
	assert_int_equal(truncate(path, 0), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		limit_to(30);
		tek_ut__worker_count = 2;
		for (unsigned int i = 0; i < 2; i++)
			tek_ut__workers[i].number = i;
		tek_ut__trace_start(path);
		part();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void go(unsigned int number, enum tek_leaving leaving, enum tek_ready why,
	       const struct tek_uthread *from, const struct tek_uthread *next)
{
	struct tek_worker *worker = &tek_ut__workers[number];
	worker->left.leaving = leaving;
	worker->left.why = why;
	tek_ut__trace_switch(worker, from, next);
}

/* Reads the records of a worker from all its blocks in order; *lost is the greatest loss count. */
static size_t read_records(unsigned int worker, struct tek_trace_record *records, size_t most,
			   uint64_t *lost)
{
	static char bytes[TEK_TRACE_BLOCK_BYTES];
	struct tek_trace_header header;
	struct tek_trace_block block;
	size_t count = 0;
	uint64_t sequence = 0;
	int fd = open(path, O_RDONLY);

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	assert_true(header.magic == TEK_TRACE_MAGIC && header.version == TEK_TRACE_VERSION);
	*lost = 0;
	off_t at = TEK_TRACE_HEADER_BYTES;
	for (; pread(fd, bytes, sizeof(bytes), at) == (ssize_t)sizeof(bytes); at += sizeof(bytes)) {
		memcpy(&block, bytes, sizeof(block));
		assert_int_equal(block.magic, TEK_TRACE_BLOCK_MAGIC);
		if (block.worker != worker)
			continue;
		assert_int_equal(block.sequence, sequence++);
		assert_string_equal((char *)block.program, program_invocation_short_name);
		*lost = block.lost > *lost ? block.lost : *lost;
		for (size_t i = 0; i < RECORDS && count < most; i++) {
			memcpy(&records[count], bytes + sizeof(block) + i * 32, 32);
			if (!records[count].time_ns)
				break;
			count++;
		}
	}
	close(fd);
	return count;
}

static void wait_for_a_mutex(void)
{
	ui.waits_for = TEK_WAITS_MUTEX;
	go(0, TEK_LEFT_PARKED, TEK_READY_WOKEN, &ui, &gas);
	go(0, TEK_LEFT_READY, TEK_READY_PREEMPTED, &gas, &ui);
	go(0, TEK_LEFT_READY, TEK_READY_YIELDED, &ui, &gas);
	go(0, TEK_LEFT_ENDED, TEK_READY_WOKEN, &gas, &carrier);
	go(1, TEK_LEFT_NOBODY, TEK_READY_WOKEN, &carrier, &ui);
	go(1, TEK_LEFT_PARKED, TEK_READY_WOKEN, &ui, &carrier);
	kill(getpid(), SIGKILL);
}

static void a_process_that_is_killed_has_left_every_switch_in_the_file(void **state)
{
	struct tek_trace_record records[10];
	uint64_t lost;

	(void)state;
	assert_true(WIFSIGNALED(play(wait_for_a_mutex)));
	/* The text, then the switch that needed it. */
	assert_int_equal(read_records(0, records, 10, &lost), 5);
	assert_int_equal(lost, 0);
	assert_int_equal(records[0].kind, TEK_TRACE_TEXT);
	assert_memory_equal(&records[0].other, "mutex\0\0", 8);
	const uint8_t reasons[] = {(uint8_t)(TEK_TRACE_WAITS + records[0].thread),
				   TEK_TRACE_PREEMPTED, TEK_TRACE_YIELDED, TEK_TRACE_ENDED};
	const uint64_t left[] = {1, 7, 1, 7}, came[] = {7, 1, 7, 0};
	for (int i = 0; i < 4; i++) {
		const struct tek_trace_record *record = &records[i + 1];
		assert_int_equal(record->kind, TEK_TRACE_SWITCH);
		assert_int_equal(record->reason, reasons[i]);
		assert_int_equal(record->thread, left[i]);
		assert_int_equal(record->other, came[i]);
		assert_true(record->time_ns >= records[i].time_ns);
	}
	assert_int_equal(read_records(1, records, 10, &lost), 2);
	assert_int_equal(records[0].reason, TEK_TRACE_IDLE);
	assert_int_equal(records[1].reason, reasons[0]);
}

static void print_ready_threads(void)
{
	tek_ut__trace_named(&gas);
	tek_ut__trace_ready(&gas, TEK_READY_CREATED);
	tek_ut__trace_ready(&gas, TEK_READY_WOKEN);
	tek_ut__trace_ready(&gas, TEK_READY_YIELDED);
	tek_ut__trace_ready(&gas, TEK_READY_PREEMPTED);
}

static void what_a_thread_on_no_worker_does_has_a_block_of_its_own(void **state)
{
	struct tek_trace_record records[10];
	char name[16];
	uint64_t lost;

	(void)state;
	assert_int_equal(play(print_ready_threads), 0);
	assert_int_equal(read_records(0, records, 10, &lost), 0);
	/* A name in two parts.  The switch of a thread that yields shows that it is ready. */
	assert_int_equal(read_records(TEK_TRACE_NO_WORKER, records, 10, &lost), 4);
	for (size_t part = 0; part < 2; part++) {
		assert_int_equal(records[part].kind, TEK_TRACE_NAME);
		assert_int_equal(records[part].thread, 7);
		assert_int_equal(records[part].reason, part);
		memcpy(name + part * 8, &records[part].other, 8);
	}
	assert_string_equal(name, gas.name);
	assert_int_equal(records[2].kind, TEK_TRACE_READY);
	assert_int_equal(records[3].thread, 7);
}

static void fill(size_t count)
{
	for (size_t i = 0; i < count; i++)
		go(0, TEK_LEFT_READY, TEK_READY_YIELDED, &ui, &ui);
}

static void fill_three_blocks(void)
{
	for (int i = 0; i < 5; i++) {
		fill(RECORDS / 2);
		tek_ut__trace_supply();
	}
}

static void fill_four_blocks_without_the_monitor(void)
{
	fill(RECORDS + 100);
	tek_ut__trace_supply();
	fill(3 * RECORDS);
	tek_ut__trace_supply();
	fill(1);
}

static struct tek_trace_record many[4 * RECORDS];

static void a_block_follows_one_that_is_full(void **state)
{
	uint64_t lost;

	(void)state;
	assert_int_equal(play(fill_three_blocks), 0);
	assert_int_equal(read_records(0, many, 4 * RECORDS, &lost), RECORDS / 2 * 5);
	assert_int_equal(lost, 0);
	for (size_t i = 1; i < RECORDS / 2 * 5; i++)
		assert_true(many[i].time_ns >= many[i - 1].time_ns);
}

static void what_there_is_no_room_for_is_counted(void **state)
{
	uint64_t lost;

	(void)state;
	assert_int_equal(play(fill_four_blocks_without_the_monitor), 0);
	/* Two blocks, and the last record in a third one. */
	assert_int_equal(read_records(0, many, 4 * RECORDS, &lost), 2 * RECORDS + 1);
	assert_int_equal(lost, 2 * RECORDS + 100);
}

static void fork_and_switch(void)
{
	fill(3);
	if (fork() == 0) {
		tek_ut__worker_count = 1;
		tek_ut__trace_after_fork();
		fill(2);
		_exit(0);
	}
	int status;
	if (wait(&status) < 0 || status)
		_exit(1);
	fill(1);
}

static void the_child_of_a_fork_writes_nothing_between_the_records_of_its_parent(void **state)
{
	struct tek_trace_block block;
	uint64_t records_of[2] = {0};
	tek_u32 pids[2] = {0};

	(void)state;
	assert_int_equal(play(fork_and_switch), 0);
	int fd = open(path, O_RDONLY);
	off_t at = TEK_TRACE_HEADER_BYTES;
	for (; pread(fd, &block, sizeof(block), at) == (ssize_t)sizeof(block);
	     at += TEK_TRACE_BLOCK_BYTES) {
		int process = !pids[0] || pids[0] == block.pid ? 0 : 1;
		pids[process] = block.pid;
		struct tek_trace_record record;
		off_t next = at + (off_t)sizeof(block);
		for (; pread(fd, &record, 32, next) == 32 && record.time_ns; next += 32)
			records_of[process]++;
	}
	close(fd);
	assert_true(pids[1] != 0);
	assert_int_equal(records_of[0], 4);
	assert_int_equal(records_of[1], 2);
}

/* Its number is taken by a file of the program's. */
static void take_the_descriptor(void)
{
	char other[] = "/tmp/tek-other-XXXXXX";
	struct stat status;

	int mine = mkstemp(other);
	unlink(other);
	raise_limit_of_descriptors(); /* the trace's may be beyond it */
	for (int fd = 3; fd < 65536 + 16; fd++)
		if (fd != mine && fcntl(fd, F_GETFD) >= 0)
			dup2(mine, fd);
	fill(3 * RECORDS);
	tek_ut__trace_supply();
	fill(3 * RECORDS);
	tek_ut__trace_supply();
	if (fstat(mine, &status) || status.st_size != 0)
		_exit(1);
}

static void a_file_that_the_program_puts_in_its_place_stays_as_it_is(void **state)
{
	uint64_t lost;

	(void)state;
	assert_int_equal(play(take_the_descriptor), 0);
	assert_int_equal(read_records(0, many, 4 * RECORDS, &lost), RECORDS);
	assert_int_equal(lost, 5 * RECORDS);
}

static void limit_files(void)
{
	struct rlimit limit = {.rlim_cur = 4 << 20, .rlim_max = 4 << 20};

	setrlimit(RLIMIT_FSIZE, &limit);
	for (int i = 0; i < 10; i++) {
		fill(RECORDS);
		tek_ut__trace_supply();
	}
}

static void a_limit_on_the_size_of_files_ends_the_trace_and_not_the_program(void **state)
{
	uint64_t lost;

	(void)state;
	assert_int_equal(play(limit_files), 0);
	assert_true(read_records(0, many, 4 * RECORDS, &lost) >= RECORDS);
	assert_true(lost >= 6 * RECORDS);
}

static void switch_twice(void)
{
	fill(2);
}

static void a_file_that_is_no_trace_stays_as_it_is(void **state)
{
	char text[] = "my diary\n", now[sizeof(text)] = "";

	(void)state;
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	pid_t pid = fork();
	if (pid == 0) {
		close(STDERR_FILENO);
		tek_ut__worker_count = 1;
		tek_ut__trace_start(path);
		switch_twice();
		_exit(tek_ut__trace_on);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, now, sizeof(now)), strlen(text));
	close(fd);
	assert_string_equal(now, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_is_killed_has_left_every_switch_in_the_file),
		cmocka_unit_test(what_a_thread_on_no_worker_does_has_a_block_of_its_own),
		cmocka_unit_test(a_block_follows_one_that_is_full),
		cmocka_unit_test(what_there_is_no_room_for_is_counted),
		cmocka_unit_test(
			the_child_of_a_fork_writes_nothing_between_the_records_of_its_parent),
		cmocka_unit_test(a_file_that_the_program_puts_in_its_place_stays_as_it_is),
		cmocka_unit_test(a_limit_on_the_size_of_files_ends_the_trace_and_not_the_program),
		cmocka_unit_test(a_file_that_is_no_trace_stays_as_it_is),
	};
	return cmocka_run_group_tests_name("uthread trace", tests, make_file, remove_file);
}
