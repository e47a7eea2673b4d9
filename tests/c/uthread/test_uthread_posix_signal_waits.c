/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals of a process and of a timer find the thread that awaits them, or that they are for. */
#include "patience.h"
#include "posix_signals_support.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void *wait_for_signal(void *argument)
{
	sigset_t set = set_of(SIGUSR2);
	siginfo_t info;
	atomic_store(&reached, 1);
	int number = sigwaitinfo(&set, &info);
	(void)argument;
	return (void *)(intptr_t)(number == SIGUSR2 ? info.si_value.sival_int : -1);
}

static void a_signal_of_the_process_or_the_thread_ends_a_wait_for_it(void **state)
{
	sigset_t set = set_of(SIGUSR2);
	(void)state;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int to_process = 0; to_process < 2; to_process++) {
		for (int late = 0; late < 2; late++) {
			reset(NULL);
			pthread_t thread = start(wait_for_signal, NULL);
			if (late) {
				assert_true(becomes(&reached, 1));
				nap(20);
			}
			const union sigval value = {.sival_int = 4711};
			if (to_process)
				assert_int_equal(sigqueue(getpid(), SIGUSR2, value), 0);
			else
				assert_int_equal(pthread_sigqueue(thread, SIGUSR2, value), 0);
			assert_int_equal((intptr_t)result_of(thread), 4711);
		}
	}
	struct timespec soon = {.tv_nsec = 10000000};
	assert_int_equal(sigtimedwait(&set, NULL, &soon), -1);
	assert_int_equal(errno, EAGAIN);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void a_signal_of_the_process_finds_a_thread_that_waits(void **state)
{
	(void)state;
	handle(SIGALRM, 0);
	for (int i = 0; i < 20; i++) {
		/* Again and again: the first may come before the thread waits. */
		const struct itimerval soon = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
		atomic_store(&handled, 0);
		setitimer(ITIMER_REAL, &soon, NULL);
		struct timespec time = {.tv_sec = 50};
		assert_int_equal(nanosleep(&time, NULL), -1);
		assert_int_equal(errno, EINTR);
		setitimer(ITIMER_REAL, &never, NULL);
		assert_true(atomic_load(&handled) >= 1);
	}
	/* The handler stays: one on its way would end the process. */
}

/* Waits of the first thread, for ever: each returns what the call does. */

static int no_byte[2]; /* a pipe into which nothing is written */

static int wait_in_read(void)
{
	char byte;
	return (int)read(no_byte[0], &byte, 1);
}

static int wait_in_poll(void)
{
	struct pollfd file = {.fd = no_byte[0], .events = POLLIN};
	return poll(&file, 1, -1);
}

static int wait_in_select(void)
{
	fd_set files;
	FD_ZERO(&files);
	FD_SET(no_byte[0], &files);
	return select(no_byte[0] + 1, &files, NULL, NULL, NULL);
}

static int wait_in_epoll(void)
{
	struct epoll_event event;
	int set = epoll_create1(EPOLL_CLOEXEC);
	int result = epoll_wait(set, &event, 1, -1);
	int error = errno;
	close(set);
	errno = error;
	return result;
}

static int wait_in_sigsuspend(void)
{
	sigset_t none;
	sigemptyset(&none);
	return sigsuspend(&none);
}

static int wait_in_nanosleep(void)
{
	const struct timespec hour = {.tv_sec = 3600};
	return nanosleep(&hour, NULL);
}

static int wait_in_sem_wait(void)
{
	sem_t semaphore;
	sem_init(&semaphore, 0, 0);
	return sem_wait(&semaphore);
}

static int wait_in_msgrcv(void)
{
	struct {
		long type;
		char byte;
	} message;
	int queue = msgget(IPC_PRIVATE, 0600);
	int result = (int)msgrcv(queue, &message, 1, 0, 0);
	int error = errno;
	msgctl(queue, IPC_RMID, NULL);
	errno = error;
	return result;
}

/* Signals to the process, again and again: the first may come before the thread waits. */

enum { EACH_MS = 20 };

static void end_child(pid_t child)
{
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static pid_t by_interval_timer(bool begins)
{
	const struct itimerval each = {{0, EACH_MS * 1000}, {0, EACH_MS * 1000}}, never = {0};
	setitimer(ITIMER_REAL, begins ? &each : &never, NULL);
	return 0;
}

static pid_t by_kill(bool begins)
{
	const pid_t parent = getpid();
	pid_t child = begins ? fork() : 0;
	if (begins && child == 0) {
		while (getppid() == parent) {
			kill(parent, SIGUSR1);
			nap(EACH_MS);
		}
		_exit(0);
	}
	return child;
}

static pid_t by_timer(bool begins)
{
	static timer_t timer;
	if (!begins) {
		timer_delete(timer);
		return 0;
	}
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
	const struct itimerspec each = {{0, EACH_MS * 1000000}, {0, EACH_MS * 1000000}};
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &each, NULL), 0);
	return 0;
}

/* One soon, the last one much later: then the first thread waits, however busy the machine is. */
static pid_t by_children_that_end(bool begins)
{
	enum { CHILDREN = 9 };
	static pid_t children[CHILDREN];
	for (int i = 0; i < CHILDREN; i++) {
		if (!begins) {
			end_child(children[i]);
		} else if ((children[i] = fork()) == 0) {
			nap(EACH_MS << i);
			_exit(0);
		}
	}
	return 0;
}

static void *compute(void *argument)
{
	while (!atomic_load(&reached))
		;
	return argument;
}

static void a_signal_of_the_process_ends_the_first_threads_wait_while_threads_compute(void **state)
{
	static int (*const waits[])(void) = {
		wait_in_read,     wait_in_poll,       wait_in_select,
		wait_in_epoll,    wait_in_sigsuspend, wait_in_nanosleep,
		wait_in_sem_wait, wait_in_msgrcv,     pause};
	const struct {
		pid_t (*send)(bool begins);
		int number;
	} senders[] = {{by_interval_timer, SIGALRM},
		       {by_kill, SIGUSR1},
		       {by_children_that_end, SIGCHLD},
		       {by_timer, SIGRTMIN + 2}};
	(void)state;
	NEEDS_PREEMPTION();
	assert_int_equal(pipe(no_byte), 0);
	pthread_t threads[2] = {start(compute, NULL), start(compute, NULL)};
	for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++) {
		/* Since Linux 6.3 a timer's signal is for the thread that its interrupt meets. */
		if (senders[i].send == by_timer && !on_user_level())
			continue;
		handle(senders[i].number, 0);
		for (size_t j = 0; j < sizeof(waits) / sizeof(waits[0]); j++) {
			atomic_store(&handled, 0);
			atomic_store(&handled_by_first, false);
			const pid_t sender = senders[i].send(true);
			const int result = waits[j]();
			const int error = errno;
			if (sender)
				end_child(sender);
			else
				senders[i].send(false);
			assert_int_equal(result, -1);
			assert_int_equal(error, EINTR);
			assert_true(atomic_load(&handled) >= 1);
			/* Another thread may handle the next one before its sender ends. */
			assert_true(atomic_load(&handled_by_first));
		}
		/* The others' handlers stay: one on its way would end the process. */
		if (senders[i].number == SIGCHLD)
			signal(SIGCHLD, SIG_DFL);
	}
	atomic_store(&reached, 1);
	for (int i = 0; i < 2; i++)
		result_of(threads[i]);
	close(no_byte[0]);
	close(no_byte[1]);
}

static void the_first_thread_awaits_a_signal_of_the_process_while_threads_compute(void **state)
{
	(void)state;
	NEEDS_PREEMPTION();
	handle(SIGUSR1, 0);
	pthread_t threads[2] = {start(compute, NULL), start(compute, NULL)};
	sigset_t set = set_of(SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	const pid_t sender = by_kill(true);
	/*
	 * While this thread does not wait yet, the other threads take it.  The kernel fails with
	 * EINTR if one of them takes the signal that woke this thread.
	 */
	int number;
	do
		number = sigwaitinfo(&set, NULL);
	while (number == -1 && errno == EINTR && !on_user_level());
	assert_int_equal(number, SIGUSR1);
	end_child(sender);
	atomic_store(&reached, 1);
	for (int i = 0; i < 2; i++)
		result_of(threads[i]);
	const struct timespec at_once = {0};
	while (sigtimedwait(&set, NULL, &at_once) == SIGUSR1)
		;
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGUSR1, SIG_DFL);
}

/* By then the first thread waits, and uses no CPU, also where that takes an emulated CPU long. */
static void *profile_itself(void *argument)
{
	const struct itimerval each = {{0, 10000}, {0, 10000}}, never = {0};

	usleep(100000);
	setitimer(ITIMER_PROF, &each, NULL);
	spin_until_handled(argument);
	setitimer(ITIMER_PROF, &never, NULL);
	return argument;
}

static void a_profilers_signal_stays_with_the_thread_that_uses_the_cpu(void **state)
{
	(void)state;
	NEEDS_PREEMPTION();
	handle(SIGPROF, 0);
	result_of(start(profile_itself, NULL));
	assert_false(pthread_equal(atomic_load(&handled_by), pthread_self()));
	signal(SIGPROF, SIG_IGN); /* discards one that is on its way */
	signal(SIGPROF, SIG_DFL);
}

static void *have_a_timer(void *argument)
{
	timer_t timer;
	const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 2};
	/* With a nice value of its own it keeps its kernel thread, and so its thread id. */
	if (setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) != 0)
		return argument;
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
		return argument;
	for (int i = 0; i < 20; i++) {
		const int before = atomic_load(&handled);
		timer_settime(timer, 0, &soon, NULL);
		while (atomic_load(&handled) == before)
			;
		if (!pthread_equal(atomic_load(&handled_by), pthread_self()))
			atomic_fetch_add(&reached, 1);
	}
	timer_delete(timer);
	return NULL;
}

static void the_signal_of_a_timer_for_one_thread_comes_to_that_thread(void **state)
{
	(void)state;
	NEEDS_PREEMPTION();
	handle(SIGRTMIN + 2, 0);
	/* The first thread waits, and would take a signal of the process. */
	assert_null(result_of(start(have_a_timer, &reached)));
	assert_int_equal(atomic_load(&reached), 0);
	signal(SIGRTMIN + 2, SIG_DFL);
}

int main(void)
{
	limit_to(100); /* until a test has a timer for SIGALRM */
	first_thread = pthread_self();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_signal_of_the_process_or_the_thread_ends_a_wait_for_it,
				       reset),
		cmocka_unit_test_setup(a_signal_of_the_process_finds_a_thread_that_waits, reset),
		cmocka_unit_test_setup(
			a_signal_of_the_process_ends_the_first_threads_wait_while_threads_compute,
			reset),
		cmocka_unit_test_setup(
			the_first_thread_awaits_a_signal_of_the_process_while_threads_compute,
			reset),
		cmocka_unit_test_setup(a_profilers_signal_stays_with_the_thread_that_uses_the_cpu,
				       reset),
		cmocka_unit_test_setup(the_signal_of_a_timer_for_one_thread_comes_to_that_thread,
				       reset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
