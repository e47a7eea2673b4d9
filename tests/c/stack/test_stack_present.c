/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds the pages that are present, however the program treats the descriptor that TEK keeps. */
#include "stack_support.h"

#include "threads/present.h"

#include <fcntl.h>
#include <sys/mman.h>

static uintptr_t page;
static char *memory;
enum { PAGES = 64 };

static int prepare(void **state)
{
	(void)state;
	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
	return memory == MAP_FAILED;
}

static int clean_up(void **state)
{
	(void)state;
	return munmap(memory, PAGES * page);
}

static bool is_found(unsigned int from, unsigned int low, unsigned int end)
{
	struct tek_run run;
	return tek__present_lowest((uintptr_t)memory + from * page,
				   (uintptr_t)memory + PAGES * page, PAGES, &run) &&
	       run.low == (uintptr_t)memory + low * page &&
	       run.end == (uintptr_t)memory + end * page;
}

static void assert_finds_runs(void)
{
	assert_true(is_found(0, PAGES, PAGES));
	memory[10 * page] = memory[11 * page] = memory[40 * page] = 1;
	assert_true(is_found(0, 10, 12));
	assert_true(is_found(11, 11, 12));
	assert_true(is_found(12, 40, 41));
	assert_true(is_found(41, PAGES, PAGES));
	madvise(memory, PAGES * page, MADV_DONTNEED);
}

static void the_lowest_run_of_present_pages_is_found_in_each_way(void **state)
{
	(void)state;
	unsigned int before = tek__present_ways;
	for (unsigned int way = first_way(); way <= TEK_PRESENT_MINCORE; way *= 2) {
		tek__present_ways = way;
		assert_finds_runs();
	}
	tek__present_ways = before;
}

static void a_range_that_is_mapped_in_part_is_examined_in_each_way(void **state)
{
	(void)state;
	unsigned int before = tek__present_ways;
	char *part = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct tek_run run;

	munmap(part, 20 * page);
	part[30 * page] = 1;
	for (unsigned int way = first_way(); way <= TEK_PRESENT_MINCORE; way *= 2) {
		tek__present_ways = way;
		assert_true(tek__present_lowest((uintptr_t)part + 10 * page,
						(uintptr_t)part + PAGES * page, 4, &run));
		assert_int_equal(run.low, (uintptr_t)part + 30 * page);
	}
	tek__present_ways = before;
	munmap(part + 20 * page, (PAGES - 20) * page);
}

static void the_descriptor_is_opened_again_if_the_program_closes_all(void **state)
{
	(void)state;
	assert_finds_runs();
	assert_true(tek__present_fd() > 2);
	close(tek__present_fd());
	assert_finds_runs();
	assert_true(fcntl(tek__present_fd(), F_GETFD) & FD_CLOEXEC);
}

static void a_file_that_the_program_puts_in_its_place_stays_as_it_is(void **state)
{
	(void)state;
	static const char *const files[] = {"/dev/zero", "/proc/self/maps", "/proc/self/exe", "/"};
	unsigned int before = tek__present_ways;
	for (unsigned int way = first_way(); way <= TEK_PRESENT_PAGEMAP; way *= 2) {
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			tek__present_ways = way;
			assert_finds_runs();
			int ours = tek__present_fd(), file = open(files[i], O_RDONLY);
			assert_int_equal(dup2(file, ours), ours);
			assert_finds_runs();
			assert_int_not_equal(tek__present_fd(), ours);
			assert_int_equal(lseek(ours, 0, SEEK_CUR), 0);
			assert_int_equal(close(ours), 0);
			close(file);
		}
	}
	tek__present_ways = before;
}

static void where_no_descriptor_is_left_mincore_is_asked(void **state)
{
	(void)state;
	struct rlimit before, none;

	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = 0;
	close(tek__present_fd());
	setrlimit(RLIMIT_NOFILE, &none);
	assert_finds_runs();
	assert_int_equal(tek__present_fd(), -1);
	setrlimit(RLIMIT_NOFILE, &before);
	/* There is room again. */
	assert_finds_runs();
	assert_true(tek__present_fd() > 2);
}

static void *examine_while_being_cancelled(void *reached)
{
	pthread_cancel(pthread_self());
	is_found(0, 0, 0);
	tek__present_ways = TEK_PRESENT_PAGEMAP;
	is_found(0, 0, 0);
	*(bool *)reached = true;
	pthread_testcancel();
	return NULL;
}

/* It is measured before the program's clean-up function runs, which may take long. */
static void a_thread_is_not_cancelled_by_being_examined(void **state)
{
	unsigned int before = tek__present_ways;
	bool reached = false;
	pthread_t thread;
	void *result;

	(void)state;
	tek__present_forget();
	assert_int_equal(pthread_create(&thread, NULL, examine_while_being_cancelled, &reached), 0);
	pthread_join(thread, &result);
	tek__present_ways = before;
	assert_true(reached);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static int examine_in_child(void)
{
	int before = tek__present_fd();

	/* The parent's descriptor is closed: it shows the parent's memory. */
	if (before >= 0 || fcntl(900, F_GETFD) >= 0)
		return 1;
	memory[7 * page] = 1;
	if (!is_found(0, 7, 8))
		return 2;
	memory[3 * page] = 1;
	return is_found(0, 3, 4) ? 0 : 3;
}

static void the_child_of_a_fork_has_none_and_opens_its_own(void **state)
{
	(void)state;
	memory[50 * page] = 1;
	assert_true(is_found(0, 50, 51));
	assert_int_equal(in_child(examine_in_child), 0);
	assert_true(is_found(0, 50, 51));
	madvise(memory, PAGES * page, MADV_DONTNEED);
}

static void a_child_that_tek_does_not_know_of_yet_asks_mincore(void **state)
{
	(void)state;
	int status;
	assert_finds_runs();
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		memory[5 * page] = 1;
		_exit(!is_found(0, 5, 6));
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_run_of_present_pages_is_found_in_each_way),
		cmocka_unit_test(a_range_that_is_mapped_in_part_is_examined_in_each_way),
		cmocka_unit_test(the_descriptor_is_opened_again_if_the_program_closes_all),
		cmocka_unit_test(a_file_that_the_program_puts_in_its_place_stays_as_it_is),
		cmocka_unit_test(where_no_descriptor_is_left_mincore_is_asked),
		cmocka_unit_test(a_thread_is_not_cancelled_by_being_examined),
		cmocka_unit_test(the_child_of_a_fork_has_none_and_opens_its_own),
		cmocka_unit_test(a_child_that_tek_does_not_know_of_yet_asks_mincore),
	};
	return cmocka_run_group_tests(tests, prepare, clean_up);
}
