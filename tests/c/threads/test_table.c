/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The thread information table as other processes see it. */
#include "support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Another process's view: the file, mapped read-only. */
struct view {
	const char *base;
	size_t size;
};

static void table_path(char *path, size_t size, pid_t pid)
{
	const char *directory = getenv("TEK_RUN_DIR");
	snprintf(path, size, "%s/%d.table", directory ? directory : "/run/tek", (int)pid);
}

static struct view open_view(pid_t pid)
{
	struct view view = {NULL, 0};
	struct stat status;
	char path[128];

	table_path(path, sizeof(path), pid);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return view;
	fstat(fd, &status);
	view.size = (size_t)status.st_size;
	view.base = mmap(NULL, view.size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return view;
}

static const struct tek_table_header *header_of(struct view view)
{
	return (const struct tek_table_header *)view.base;
}

static const struct tek_record *record_at(struct view view, unsigned int slot)
{
	return (const struct tek_record *)(view.base + TEK_TABLE_HEADER_BYTES +
					   slot / TEK_CHUNK_SLOTS * TEK_TABLE_CHUNK_BYTES) +
	       slot % TEK_CHUNK_SLOTS;
}

static const struct tek_side *side_at(struct view view, unsigned int slot)
{
	return (const struct tek_side *)(view.base + TEK_TABLE_HEADER_BYTES +
					 slot / TEK_CHUNK_SLOTS * TEK_TABLE_CHUNK_BYTES +
					 TEK_CHUNK_SIDE_OFFSET) +
	       slot % TEK_CHUNK_SLOTS;
}

static void copy_words(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		((tek_u64 *)to)[i] = __atomic_load_n((const tek_u64 *)from + i, __ATOMIC_ACQUIRE);
}

/* The protocol of abi/tek_table.h. False: being written. */
static bool read_slot(struct view view, unsigned int slot, struct tek_record *record,
		      struct tek_side *side)
{
	const struct tek_record *from = record_at(view, slot);
	tek_u32 seq = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);
	if (seq & 1)
		return false;
	copy_words(record, from, sizeof(*record));
	copy_words(side, side_at(view, slot), sizeof(*side));
	return __atomic_load_n(&from->seq, __ATOMIC_RELAXED) == seq;
}

static bool find_tid(struct view view, pid_t tid, struct tek_record *record, struct tek_side *side)
{
	unsigned int slots = __atomic_load_n(&header_of(view)->slots, __ATOMIC_ACQUIRE);
	for (unsigned int i = 0; i < slots; i++)
		if (read_slot(view, i, record, side) && record->tid == (tek_u32)tid)
			return true;
	return false;
}

static void a_record_describes_what_a_thread_is(void **state)
{
	struct tek_record record;
	struct tek_side side;
	struct waiter waiter;
	pthread_attr_t attr;

	(void)state;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	waiter_start(&waiter, &attr);
	pthread_attr_destroy(&attr);
	pthread_setname_np(waiter.thread, "gas-sensor");
	tek_thread_set_group(waiter.thread, TEK_SERVICE);
	tek_thread_mark(waiter.thread, 1);

	struct view view = open_view(getpid());
	assert_non_null(view.base);
	assert_int_equal(header_of(view)->pid, getpid());
	assert_int_equal(header_of(view)->record_bytes, 40);
	assert_string_equal((const char *)header_of(view)->program, "test_table");
	assert_true(find_tid(view, waiter.tid, &record, &side));
	assert_true(record.start_routine == (tek_u64)(uintptr_t)waiter_main);
	assert_in_range(record.stack_pages, 256 * 1024 / sysconf(_SC_PAGESIZE),
			(4 << 20) / sysconf(_SC_PAGESIZE));
	assert_int_equal(record.place & TEK_PLACE_GROUP_MASK, TEK_GROUP_SERVICE);
	assert_int_equal(record.flags, TEK_FLAG_MARKED | TEK_FLAG_NAMED);
	assert_string_equal((const char *)side.name, "gas-sensor");

	if (tek_check() == 0) {
		set_tek(waiter.thread, -2);
		assert_true(find_tid(view, waiter.tid, &record, &side));
		assert_int_equal(record.policy, SCHED_TEK);
		assert_int_equal(record.priority, -2);
		assert_int_equal(record.place >> TEK_PLACE_REGION_SHIFT & 3, TEK_REGION_FAST);
		assert_int_equal(side.base_policy, SCHED_OTHER);
		assert_int_equal(side.rt_priority, 31);
		assert_int_equal(header_of(view)->fast, 1);
		set_other(waiter.thread);
		assert_int_equal(header_of(view)->fast, 0);
	}
	waiter_end(&waiter);
	assert_false(find_tid(view, waiter.tid, &record, &side));
	munmap((void *)view.base, view.size);
}

/* /proc's start time of a thread, in ns, rounded down to a clock tick. */
static tek_u64 proc_start_ns(pid_t tid)
{
	char path[64], text[1024] = "";
	unsigned long long ticks = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	sscanf(strrchr(text, ')'),
	       ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
	       "%*d %*d %*d %*d %llu",
	       &ticks);
	return ticks * (1000000000u / (unsigned int)sysconf(_SC_CLK_TCK));
}

static void tid_and_start_time_identify_a_thread(void **state)
{
	struct tek_record record;
	struct tek_side side;
	struct waiter waiter;

	(void)state;
	waiter_start(&waiter, NULL);
	struct view view = open_view(getpid());
	assert_true(find_tid(view, waiter.tid, &record, &side));
	assert_true(proc_start_ns(waiter.tid) <= record.start_ns);
	assert_true(record.start_ns - proc_start_ns(waiter.tid) < 10000000000u);
	waiter_end(&waiter);
	munmap((void *)view.base, view.size);
}

static bool begun_writing, stop_writing;

/* Writes records with equal fields: name, group and mark have the same number. */
static void *write_at_full_speed(void *argument)
{
	pthread_t target = *(pthread_t *)argument;
	static const char *const names[] = {"000000000000000", "111111111111111", "222222222222222",
					    "333333333333333"};
	for (unsigned int i = 0; !__atomic_load_n(&stop_writing, __ATOMIC_RELAXED); i++) {
		tek_thread_set_group(target, (enum tek_group)(i % 4));
		pthread_setname_np(target, names[i % 4]);
		__atomic_store_n(&begun_writing, true, __ATOMIC_RELEASE);
	}
	return NULL;
}

enum { READS = 2000000 };

/* In another process: every stable copy must equal a written record. */
static int read_at_full_speed(void)
{
	struct view view = open_view(getppid());
	unsigned int good = 0, busy = 0;

	if (!view.base)
		return 1;
	/* More, if the writer lost its CPU in the midst of a record. */
	for (unsigned int i = 0; i < READS || (good <= READS / 100 && i < 50 * READS); i++) {
		struct tek_record record;
		struct tek_side side;
		if (!read_slot(view, 1, &record, &side)) {
			busy++;
			continue;
		}
		good++;
		if (!(record.flags & TEK_FLAG_NAMED))
			return 5;
		/* A name is all of one digit, and at most one step behind the group. */
		for (int j = 1; j < 15; j++)
			if (side.name[j] != side.name[0])
				return 2;
		unsigned int group = record.place & TEK_PLACE_GROUP_MASK;
		unsigned int name = side.name[0] - (unsigned int)'0';
		if (group != name && group != (name + 1) % 4)
			return 3;
	}
	print_message("# %u reads, %u consistent, %u met a writer\n", good + busy, good, busy);
	return good > READS / 100 ? 0 : 4;
}

static void another_process_reads_at_full_speed_without_a_torn_record(void **state)
{
	struct waiter waiter;
	pthread_t writer;

	(void)state;
	tek_thread_mark(pthread_self(), 0); /* slot 0 */
	waiter_start(&waiter, NULL);        /* slot 1 */
	__atomic_store_n(&stop_writing, false, __ATOMIC_RELAXED);
	pthread_create(&writer, NULL, write_at_full_speed, &waiter.thread);
	/* A sanitizer that is just starting a thread would have the child hang. */
	while (!__atomic_load_n(&begun_writing, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	int result = in_child(read_at_full_speed);
	__atomic_store_n(&stop_writing, true, __ATOMIC_RELAXED);
	pthread_join(writer, NULL);
	waiter_end(&waiter);
	assert_int_equal(result, 0);
}

static void *wait_for_end(void *argument)
{
	pthread_barrier_wait(argument);
	pthread_barrier_wait(argument);
	return NULL;
}

static void two_thousand_threads_have_two_thousand_records_of_40_bytes(void **state)
{
	enum { THREADS = 2000 };
	static pthread_t threads[THREADS];
	pthread_barrier_t barrier;
	pthread_attr_t attr;
	struct tek_record record;
	struct tek_side side;
	unsigned int found = 0;

	(void)state;
	need_threads(THREADS);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	/* A reader that came before the table grew still reads all of it. */
	struct view view = open_view(getpid());
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], &attr, wait_for_end, &barrier), 0);
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < header_of(view)->slots; i++)
		found += read_slot(view, i, &record, &side) && record.tid &&
			 record.start_routine == (tek_u64)(uintptr_t)wait_for_end;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(found, THREADS);
	assert_int_equal(sizeof(record), 40);
	munmap((void *)view.base, view.size);
	pthread_barrier_destroy(&barrier);
	pthread_attr_destroy(&attr);
}

static int run_without_a_place_for_the_table(void)
{
	/* The child starts a table of its own, and cannot make the file. */
	setenv("TEK_RUN_DIR", "/proc/nowhere", 1);
	if (tek_thread_mark(pthread_self(), 1))
		return 1;
	return tek_check() == 0 && (tek_critical_enter() || tek_critical_leave()) ? 2 : 0;
}

static int run_with_a_file_size_limit(void)
{
	const struct rlimit limit = {4096, 4096};
	setrlimit(RLIMIT_FSIZE, &limit);
	return tek_thread_mark(pthread_self(), 1);
}

static void a_process_without_a_place_for_its_table_works_with_private_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(run_without_a_place_for_the_table), 0);
	assert_int_equal(in_child(run_with_a_file_size_limit), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_process_reads_at_full_speed_without_a_torn_record),
		cmocka_unit_test(a_record_describes_what_a_thread_is),
		cmocka_unit_test(tid_and_start_time_identify_a_thread),
		cmocka_unit_test(two_thousand_threads_have_two_thousand_records_of_40_bytes),
		cmocka_unit_test(a_process_without_a_place_for_its_table_works_with_private_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
