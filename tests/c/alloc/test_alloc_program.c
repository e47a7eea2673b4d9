/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that allocates with any allocator: the C library's or libtek-alloc.so, on kernel
 * threads or user-level threads.
 */
#include "patience.h"
#include "support.h"

#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>

/* So that the compiler knows nothing about the numbers. */
static volatile size_t huge = SIZE_MAX, half = PTRDIFF_MAX, zero;

static void memory_beyond_all_bounds_is_refused_with_enomem(void **state)
{
	void *memory = &memory;

	(void)state;
	errno = 0;
	assert_null(malloc(huge));
	assert_int_equal(errno, ENOMEM);
	errno = 0;
	assert_null(malloc(half - 10));
	assert_int_equal(errno, ENOMEM);
	errno = 0;
	assert_null(calloc(huge / 2, 3));
	assert_int_equal(errno, ENOMEM);
	errno = 0;
	assert_null(reallocarray(NULL, huge / 2, 3));
	assert_int_equal(errno, ENOMEM);
	assert_null(aligned_alloc(4096, huge - 100));
	assert_null(memalign(huge / 2 + 1, huge / 2));
	assert_null(pvalloc(huge - 5));
	assert_int_equal(posix_memalign(&memory, 64, huge), ENOMEM);
	assert_ptr_equal(memory, &memory);
}

static void alignments_are_what_was_asked_for(void **state)
{
	void *memory;

	(void)state;
	assert_int_equal(posix_memalign(&memory, 24, 10), EINVAL);
	assert_int_equal(posix_memalign(&memory, zero, 10), EINVAL);
	for (size_t alignment = sizeof(void *); alignment <= 1 << 20; alignment *= 2) {
		assert_int_equal(posix_memalign(&memory, alignment, 100), 0);
		assert_int_equal((uintptr_t)memory % alignment, 0);
		memset(memory, 1, malloc_usable_size(memory));
		free(memory);
		memory = memalign(alignment, 3);
		assert_int_equal((uintptr_t)memory % alignment, 0);
		free(memory);
		memory = aligned_alloc(alignment, alignment);
		assert_int_equal((uintptr_t)memory % alignment, 0);
		memory = realloc(memory, 3 * alignment);
		assert_non_null(memory);
		free(memory);
	}
	memory = valloc(10);
	assert_int_equal((uintptr_t)memory % (size_t)sysconf(_SC_PAGESIZE), 0);
	free(memory);
	for (size_t bytes = 0; bytes < 300; bytes++) {
		memory = malloc(bytes);
		assert_non_null(memory);
		assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
		assert_true(malloc_usable_size(memory) >= bytes);
		free(memory);
	}
	assert_int_equal(malloc_usable_size(NULL), 0);
	free(NULL);
}

static void memory_of_calloc_is_zero_also_where_somebody_wrote(void **state)
{
	(void)state;
	for (int round = 0; round < 100; round++) {
		unsigned char *memory = calloc(1000, 7);
		for (int i = 0; i < 7000; i++)
			assert_int_equal(memory[i], 0);
		memset(memory, 0xff, 7000);
		free(memory);
	}
}

static void realloc_keeps_what_is_there_and_frees_with_zero_bytes(void **state)
{
	unsigned char *memory = realloc(NULL, 10);

	(void)state;
	memset(memory, 9, 10);
	for (size_t bytes = 10; bytes < 3000000; bytes = bytes * 3 / 2) {
		memory = realloc(memory, bytes);
		assert_non_null(memory);
		for (int i = 0; i < 10; i++)
			assert_int_equal(memory[i], 9);
	}
	assert_null(realloc(memory, huge));
	assert_int_equal(memory[9], 9);
	memory = realloc(memory, 5);
	assert_int_equal(memory[4], 9);
	assert_null(realloc(memory, zero));
}

/* Numerical programs do so for huge pages.  The kernel does not move such a block in one piece. */
static void a_large_block_grows_though_the_kernel_was_advised_about_a_part(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 8 << 20;
	char *memory = malloc(bytes);

	(void)state;
	assert_non_null(memory);
	memset(memory, 7, bytes);
	char *second = (char *)(((uintptr_t)memory + 2 * page) & ~(page - 1));
	assert_int_equal(madvise(second, bytes / 2, MADV_DONTDUMP), 0);
	memory = realloc(memory, 2 * bytes);
	assert_non_null(memory);
	for (size_t i = 0; i < bytes; i += page)
		assert_int_equal(memory[i], 7);
	free(memory);
}

static void errno_stays_where_nothing_fails(void **state)
{
	(void)state;
	for (size_t bytes = 1; bytes < 8 << 20; bytes *= 2) {
		errno = 4711;
		void *memory = malloc(bytes);
		assert_int_equal(errno, 4711);
		free(memory);
		assert_int_equal(errno, 4711);
	}
}

/* Blocks that go from hand to hand. */
enum { PLACES = 512 };
static _Atomic(unsigned char *) places[PLACES];

/* Makes a block that begins with its size, and has one value in all other bytes. */
static unsigned char *new_block(unsigned int *seed)
{
	size_t bytes = 8 + (size_t)rand_r(seed) % (rand_r(seed) % 20 ? 400 : 20000);
	unsigned char *block = malloc(bytes);

	if (!block)
		abort();
	memset(block, (int)(bytes % 251), bytes);
	memcpy(block, &bytes, sizeof(bytes));
	return block;
}

static void check_and_free(unsigned char *block)
{
	size_t bytes;

	memcpy(&bytes, block, sizeof(bytes));
	for (size_t i = sizeof(bytes); i < bytes; i++)
		if (block[i] != bytes % 251)
			abort();
	free(block);
}

static void *exchange(void *number)
{
	unsigned int seed = (unsigned int)(uintptr_t)number;

	for (int i = 0; i < 10000; i++) {
		unsigned char *other = atomic_exchange(&places[rand_r(&seed) % PLACES],
						       rand_r(&seed) % 3 ? new_block(&seed) : NULL);
		if (other)
			check_and_free(other);
	}
	return NULL;
}

static void free_places(void)
{
	for (int i = 0; i < PLACES; i++) {
		unsigned char *block = atomic_exchange(&places[i], NULL);
		if (block)
			check_and_free(block);
	}
}

static void blocks_that_other_threads_free_have_one_owner_before(void **state)
{
	enum { THREADS = 6 };
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	free_places();
}

static void *end_at_once(void *unused)
{
	(void)unused;
	free(malloc(100));
	return malloc(50);
}

static void threads_that_end_leave_their_memory_to_other_threads(void **state)
{
	(void)state;
	for (int i = 0; i < 500; i++) {
		pthread_t thread;
		void *left;
		assert_int_equal(pthread_create(&thread, NULL, end_at_once, NULL), 0);
		pthread_join(thread, &left);
		free(left);
	}
}

static atomic_bool stop;

static void *allocate_until_stopped(void *number)
{
	unsigned int seed = (unsigned int)(uintptr_t)number;

	while (!atomic_load(&stop))
		check_and_free(new_block(&seed));
	return NULL;
}

static void a_child_can_allocate_although_other_threads_did_at_the_fork(void **state)
{
	enum { THREADS = 3, FORKS = 30 };
	pthread_t threads[THREADS];

	(void)state;
	atomic_store(&stop, false);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, allocate_until_stopped, (void *)(i + 1)),
			0);
	for (int i = 0; i < FORKS; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			unsigned int seed = 5;
			limit_to(60);
			for (int j = 0; j < 100; j++)
				check_and_free(new_block(&seed));
			_exit(0);
		}
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void *flush_until_stopped(void *unused)
{
	while (!atomic_load(&stop))
		fflush(NULL);
	return unused;
}

/* Holds a stream's lock, and wants memory under it. */
static void *read_until_stopped(void *unused)
{
	while (!atomic_load(&stop)) {
		FILE *stream = fopen("/proc/self/maps", "r"), *in_memory;
		char *line = NULL, *text = NULL;
		size_t room = 0, bytes;

		if (stream) {
			while (getline(&line, &room, stream) > 0)
				;
			fclose(stream);
		}
		free(line);
		in_memory = open_memstream(&text, &bytes);
		for (int i = 0; in_memory && i < 2000; i++)
			fputs("longer and longer", in_memory);
		if (in_memory)
			fclose(in_memory);
		free(text);
	}
	return unused;
}

static void forks_and_streams_do_not_wait_for_each_other(void **state)
{
	enum { FORKS = 300, FEWEST = 50, MOST_SECONDS = 2 };
	const time_t end = time(NULL) + MOST_SECONDS;
	pthread_t threads[4];

	(void)state;
	atomic_store(&stop, false);
	limit_to(120);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i % 2 ? flush_until_stopped : read_until_stopped,
						NULL),
				 0);
	for (int i = 0; i < FORKS && (i < FEWEST || time(NULL) <= end); i++) {
		int status;
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	alarm(0);
}

/* A handler that allocates nothing, as in a correct program. */
static void on_signal(int number)
{
	(void)number;
}

static void signals_in_the_midst_do_no_harm(void **state)
{
	const struct sigaction action = {.sa_handler = on_signal};
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
	unsigned int seed = 3;

	(void)state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 100000; i++)
		check_and_free(new_block(&seed));
	setitimer(ITIMER_REAL, &never, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_beyond_all_bounds_is_refused_with_enomem),
		cmocka_unit_test(alignments_are_what_was_asked_for),
		cmocka_unit_test(memory_of_calloc_is_zero_also_where_somebody_wrote),
		cmocka_unit_test(realloc_keeps_what_is_there_and_frees_with_zero_bytes),
		cmocka_unit_test(a_large_block_grows_though_the_kernel_was_advised_about_a_part),
		cmocka_unit_test(errno_stays_where_nothing_fails),
		cmocka_unit_test(blocks_that_other_threads_free_have_one_owner_before),
		cmocka_unit_test(threads_that_end_leave_their_memory_to_other_threads),
		cmocka_unit_test(a_child_can_allocate_although_other_threads_did_at_the_fork),
		cmocka_unit_test(forks_and_streams_do_not_wait_for_each_other),
		cmocka_unit_test(signals_in_the_midst_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
