/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait by futex(2) past the C library.  OpenMP does so with an instruction of its own,
 * C++20 and Rust by syscall(2).  The engine cannot see the first kind, but other threads must run
 * all the same.
 */
#include "uthread_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { ROUNDS = 60, THREADS = 5, STEPS = 20 };

static long by_instruction(uint32_t *word, int operation, uint32_t value)
{
#if defined(__x86_64__)
	register const void *limit __asm__("r10") = NULL;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(SYS_futex), "D"(word), "S"(operation), "d"(value), "r"(limit)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_futex;
	register uint32_t *a __asm__("x0") = word;
	register long b __asm__("x1") = operation;
	register long c __asm__("x2") = value;
	register const void *d __asm__("x3") = NULL;
	__asm__ volatile("svc #0" : "+r"(a) : "r"(number), "r"(b), "r"(c), "r"(d) : "memory");
	return (long)a;
#else
	return syscall(SYS_futex, word, operation, value, NULL);
#endif
}

static long by_function(uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL);
}

static long (*futex)(uint32_t *word, int operation, uint32_t value);
static uint32_t iteration;

static void wait_for(uint32_t mine)
{
	for (uint32_t now; (now = __atomic_load_n(&iteration, __ATOMIC_ACQUIRE)) != mine;)
		futex(&iteration, FUTEX_WAIT_PRIVATE, now);
}

static void set(uint32_t next)
{
	__atomic_store_n(&iteration, next, __ATOMIC_RELEASE);
	futex(&iteration, FUTEX_WAKE_PRIVATE, 100);
}

static void *answer(void *unused)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		wait_for(2 * i + 1);
		set(2 * i + 2);
	}
	return unused;
}

/* In ms, from the test's environment; 0: another length. */
static long quantum(void)
{
	const char *options = getenv("TEK_UTHREAD");
	const char *found = on_user_level() && options ? strstr(options, "quantum=") : NULL;
	return found && strstr(found, "ms") ? atol(found + strlen("quantum=")) : 0;
}

static void play(long (*how)(uint32_t *, int, uint32_t))
{
	struct timespec begin, end;

	futex = how;
	iteration = 0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	pthread_t thread = start(answer, NULL);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		set(2 * i + 1);
		wait_for(2 * i + 2);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	result_of(thread);
	/* Each of the two waits once a round. */
	const long ms = (end.tv_sec - begin.tv_sec) * 1000 +
			(end.tv_nsec - begin.tv_nsec) / 1000000;
	if (quantum())
		assert_true(ms < ROUNDS * quantum());
}

static void threads_that_wait_by_an_instruction_of_their_own_answer_before_a_quantum(void **unused)
{
	(void)unused;
	NEEDS_PREEMPTION();
	play(by_instruction);
}

static void threads_that_wait_by_syscall_answer_before_a_quantum(void **unused)
{
	(void)unused;
	play(by_function);
}

/* ---- a barrier, as a team of OpenMP has it ---- */

static atomic_uint arrived;

static void *step(void *unused)
{
	for (uint32_t i = 0; i < STEPS; i++) {
		if (atomic_fetch_add(&arrived, 1) + 1 == THREADS) {
			atomic_store(&arrived, 0);
			set(i + 1);
		} else {
			wait_for(i + 1);
		}
	}
	return unused;
}

static void all_of_a_team_come_through_their_barrier(void **unused)
{
	pthread_t threads[THREADS];

	(void)unused;
	NEEDS_PREEMPTION();
	futex = by_instruction;
	iteration = 0;
	atomic_store(&arrived, 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(step, NULL);
	for (int i = 0; i < THREADS; i++)
		result_of(threads[i]);
}

/* ---- other calls ---- */

static char path[80];

static void *open_to_read(void *unused)
{
	FILE *file = fopen(path, "re");
	(void)unused;
	return file;
}

static void a_thread_that_opens_a_stream_of_a_fifo_waits_for_another_thread(void **unused)
{
	char directory[] = "/tmp/tek-test-XXXXXX";

	(void)unused;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/it", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	pthread_t thread = start(open_to_read, NULL);
	nap(20);
	const int file = open(path, O_WRONLY | O_CLOEXEC);
	FILE *stream = result_of(thread);
	assert_true(file >= 0);
	assert_non_null(stream);
	fclose(stream);
	close(file);
	unlink(path);
	rmdir(directory);
}

static void a_futex_that_has_changed_is_reported_at_once(void **unused)
{
	uint32_t word = 1;

	(void)unused;
	assert_int_equal(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL), -1);
	assert_int_equal(errno, EAGAIN);
}

static void a_wait_for_a_futex_ends_at_its_time(void **unused)
{
	const struct timespec limit = {.tv_nsec = 20000000};
	uint32_t word = 1;

	(void)unused;
	assert_int_equal(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &limit), -1);
	assert_int_equal(errno, ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			threads_that_wait_by_an_instruction_of_their_own_answer_before_a_quantum),
		cmocka_unit_test(threads_that_wait_by_syscall_answer_before_a_quantum),
		cmocka_unit_test(all_of_a_team_come_through_their_barrier),
		cmocka_unit_test(a_thread_that_opens_a_stream_of_a_fifo_waits_for_another_thread),
		cmocka_unit_test(a_futex_that_has_changed_is_reported_at_once),
		cmocka_unit_test(a_wait_for_a_futex_ends_at_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
