/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "patience.h"
#include "posix_signals_support.h"

#include <errno.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void a_signal_interrupts_the_thread_it_is_sent_to(void **state)
{
	(void)state;
	NEEDS_PREEMPTION();
	handle(SIGUSR1, 0);
	pthread_t thread = start(spin_until_handled, NULL);
	assert_true(becomes(&reached, 1));
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	assert_true(becomes(&handled, 1));
	assert_true(pthread_equal(atomic_load(&handled_by), thread));
	result_of(thread);
}

static void *sleep_and_report(void *argument)
{
	struct timespec time = {.tv_sec = 100}, left = {0};
	atomic_store(&reached, 1);
	int result = nanosleep(&time, &left);
	*(int *)argument = result ? errno : 0;
	return (void *)(intptr_t)left.tv_sec;
}

static void a_signal_ends_the_sleep_of_the_thread_it_is_sent_to(void **state)
{
	int error = 0;
	(void)state;
	handle(SIGUSR1, SA_RESTART);
	pthread_t thread = start(sleep_and_report, &error);
	assert_true(becomes(&reached, 1));
	nap(20);
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	assert_in_range((intptr_t)result_of(thread), 90, 100);
	assert_int_equal(error, EINTR);
	assert_true(pthread_equal(atomic_load(&handled_by), thread));
}

static void *read_and_report(void *argument)
{
	char byte = 0;
	atomic_store(&reached, 1);
	ssize_t got = read(*(int *)argument, &byte, 1);
	return (void *)(intptr_t)(got < 0 ? -errno : byte);
}

static void a_read_fails_or_is_begun_again_as_the_handler_wants(void **state)
{
	int ends[2];
	(void)state;
	for (int restarts = 0; restarts < 2; restarts++) {
		reset(NULL);
		assert_int_equal(pipe(ends), 0);
		handle(SIGUSR1, restarts ? SA_RESTART : 0);
		pthread_t thread = start(read_and_report, &ends[0]);
		assert_true(becomes(&reached, 1));
		nap(20);
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
		assert_true(becomes(&handled, 1));
		nap(20);
		assert_int_equal(write(ends[1], "A", 1), 1);
		assert_int_equal((intptr_t)result_of(thread), restarts ? 'A' : -EINTR);
		close(ends[0]);
		close(ends[1]);
	}
}

static void a_blocked_signal_waits_until_it_is_unblocked(void **state)
{
	sigset_t set = set_of(SIGUSR1), old, pending;
	(void)state;
	handle(SIGUSR1, 0);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	assert_int_equal(raise(SIGUSR1), 0);
	nap(5);
	assert_int_equal(atomic_load(&handled), 0);
	assert_int_equal(sigpending(&pending), 0);
	assert_int_equal(sigismember(&pending, SIGUSR1), 1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	assert_int_equal(atomic_load(&handled), 1);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGUSR1), 0);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define USR1_BIT (1 << (SIGUSR1 - 1))

/* The mask is the thread's: the kernel's mask changes when other threads run, or when it sleeps. */
static void masks_of_4_3bsd_stay_when_other_threads_have_run(void **state)
{
	(void)state;
	sigset_t all, now;
	handle(SIGUSR1, 0);
	sigfillset(&all);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	assert_int_not_equal(sigsetmask(0) & USR1_BIT, 0);
	nap(1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
	assert_int_equal(sigismember(&now, SIGUSR1), 0);
	assert_int_equal(sigblock(USR1_BIT), 0);
	nap(1);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	assert_int_equal(atomic_load(&handled), 0);
	assert_int_equal(sigsetmask(0), USR1_BIT);
	assert_true(becomes(&handled, 1));
}

static void raise_runs_the_handler_before_it_returns(void **state)
{
	(void)state;
	handle(SIGUSR1, 0);
	for (int i = 1; i <= 100; i++) {
		assert_int_equal(raise(SIGUSR1), 0);
		assert_int_equal(atomic_load(&handled), i);
	}
	assert_true(pthread_equal(atomic_load(&handled_by), pthread_self()));
}

static void *have_mask(void *argument)
{
	sigset_t now;
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	for (int i = 0; i < 100; i++) {
		sigset_t again;
		nap(1);
		pthread_sigmask(SIG_SETMASK, NULL, &again);
		if (memcmp(&now, &again, 8) != 0)
			return NULL;
	}
	return sigismember(&now, SIGUSR2) == 1 ? argument : NULL;
}

static void a_thread_has_the_mask_of_its_creator_and_keeps_its_own(void **state)
{
	sigset_t set = set_of(SIGUSR2), now;
	(void)state;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_t thread = start(have_mask, &set);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	assert_ptr_equal(result_of(thread), &set);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	assert_int_equal(sigismember(&now, SIGUSR2), 0);
}

static void queued_signals_come_in_order_with_their_values(void **state)
{
	sigset_t set = set_of(SIGRTMIN + 1);
	siginfo_t info;
	(void)state;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 20; i++) {
		const union sigval value = {.sival_int = i};
		assert_int_equal(pthread_sigqueue(pthread_self(), SIGRTMIN + 1, value), 0);
	}
	for (int i = 0; i < 20; i++) {
		assert_int_equal(sigwaitinfo(&set, &info), SIGRTMIN + 1);
		assert_int_equal(info.si_value.sival_int, i);
	}
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static sigjmp_buf back;

static void jump(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void a_handler_can_be_left_by_a_jump(void **state)
{
	volatile int jumps = 0;
	(void)state;
	NEEDS_PREEMPTION();
	signal(SIGUSR1, jump);
	while (jumps < 100) {
		if (sigsetjmp(back, 1) == 0)
			raise(SIGUSR1);
		else
			jumps++;
	}
	/* Threads are preempted afterwards as before. */
	handle(SIGUSR2, 0);
	pthread_t thread = start(spin_until_handled, NULL);
	assert_true(becomes(&reached, 1));
	pthread_kill(thread, SIGUSR2);
	result_of(thread);
}

static sem_t posted;

static void post(int number)
{
	(void)number;
	sem_post(&posted);
}

static atomic_int stop;

/* By the kernel, for the calling thread. */
static bool is_blocked(int number)
{
	uint64_t mask = 0;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask >> (number - 1) & 1;
}

/* Returns NULL if it could not be interrupted any more: handlers are over here. */
static void *make_work(void *argument)
{
	while (!atomic_load(&stop)) {
		if (is_blocked(32))
			argument = NULL;
		void *memory = malloc(100 + (size_t)rand() % 1000);
		memset(memory, 1, 100);
		free(memory);
		if (rand() % 10 == 0)
			sched_yield();
	}
	return argument;
}

static void handlers_may_post_semaphores_whatever_they_interrupt(void **state)
{
	pthread_t workers[4];
	(void)state;
	NEEDS_PREEMPTION();
	atomic_store(&stop, 0);
	assert_int_equal(sem_init(&posted, 0, 0), 0);
	struct sigaction action = {.sa_handler = post, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 4; i++)
		workers[i] = start(make_work, workers);
	for (int i = 0; i < 2000; i++) {
		if (i % 2)
			assert_int_equal(kill(getpid(), SIGUSR1), 0);
		else
			assert_int_equal(pthread_kill(workers[i / 2 % 4], SIGUSR1), 0);
		while (sem_wait(&posted) != 0)
			assert_int_equal(errno, EINTR);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		assert_ptr_equal(result_of(workers[i]), workers);
	signal(SIGUSR1, SIG_DFL);
	sem_destroy(&posted);
}

/* As with the C library and its own signals. */
static void the_engines_own_signal_is_not_the_programs(void **state)
{
	enum { TICK = 32 };
	sigset_t all, now;
	(void)state;
	assert_true(signal(TICK, jump) == SIG_ERR);
	assert_int_equal(errno, EINVAL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &now);
	sigset_t blocked;
	pthread_sigmask(SIG_SETMASK, &now, &blocked);
	assert_int_equal(sigismember(&blocked, TICK), 0);
	assert_int_equal(sigismember(&blocked, SIGUSR1), 1);
	assert_int_equal(pthread_kill(pthread_self(), TICK), EINVAL);
}

static void all_signals_that_have_a_name_are_the_programs(void **state)
{
	const int numbers[] = {SIGSTKFLT, SIGURG, SIGPROF, SIGVTALRM, SIGRTMIN, SIGRTMAX};
	(void)state;
	sem_init(&posted, 0, 0);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		assert_true(signal(numbers[i], post) == SIG_DFL);
		assert_int_equal(kill(getpid(), numbers[i]), 0);
		while (sem_wait(&posted) != 0)
			assert_int_equal(errno, EINTR);
		assert_true(signal(numbers[i], SIG_DFL) == post);
	}
	sem_destroy(&posted);
}

static void handlers_are_returned_as_they_were_installed(void **state)
{
	struct sigaction action, old;
	(void)state;
	memset(&action, 0, sizeof(action));
	action.sa_handler = post;
	action.sa_flags = (int)SA_RESETHAND;
	sigaddset(&action.sa_mask, SIGUSR2);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, NULL, &old), 0);
	assert_true(old.sa_handler == post);
	assert_int_equal(old.sa_flags & (int)~0x04000000, (int)SA_RESETHAND);
	assert_int_equal(sigismember(&old.sa_mask, SIGUSR2), 1);
	assert_int_equal(sigismember(&old.sa_mask, 32), 0);
	raise(SIGUSR1);
	assert_int_equal(sigaction(SIGUSR1, NULL, &old), 0);
	assert_true(old.sa_handler == SIG_DFL);
}

static void a_signal_without_a_handler_ends_the_process(void **state)
{
	int status;
	(void)state;
	pid_t child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, make_work, NULL);
		for (;;)
			pause();
	}
	nap(50);
	assert_int_equal(kill(child, SIGTERM), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

int main(void)
{
	limit_to(100); /* until a test has a timer for SIGALRM */
	first_thread = pthread_self();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_signal_interrupts_the_thread_it_is_sent_to, reset),
		cmocka_unit_test_setup(a_signal_ends_the_sleep_of_the_thread_it_is_sent_to, reset),
		cmocka_unit_test_setup(a_read_fails_or_is_begun_again_as_the_handler_wants, reset),
		cmocka_unit_test_setup(a_blocked_signal_waits_until_it_is_unblocked, reset),
		cmocka_unit_test_setup(masks_of_4_3bsd_stay_when_other_threads_have_run, reset),
		cmocka_unit_test_setup(raise_runs_the_handler_before_it_returns, reset),
		cmocka_unit_test_setup(a_thread_has_the_mask_of_its_creator_and_keeps_its_own,
				       reset),
		cmocka_unit_test_setup(queued_signals_come_in_order_with_their_values, reset),
		cmocka_unit_test_setup(a_handler_can_be_left_by_a_jump, reset),
		cmocka_unit_test_setup(handlers_may_post_semaphores_whatever_they_interrupt, reset),
		cmocka_unit_test_setup(the_engines_own_signal_is_not_the_programs, reset),
		cmocka_unit_test_setup(all_signals_that_have_a_name_are_the_programs, reset),
		cmocka_unit_test_setup(handlers_are_returned_as_they_were_installed, reset),
		cmocka_unit_test_setup(a_signal_without_a_handler_ends_the_process, reset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
