/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that are created without pthread_create(): the C library's own for a timer and for
 * asynchronous input, and one made by clone(2).  They live until a line arrives.  Then the
 * process makes one more thread with pthread_create(), and waits for the end of its input.
 */
#include <aio.h>
#include <err.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static sem_t timer_runs, timer_may_end;
static atomic_uint clone_may_end;
static char clone_stack[64 * 1024] __attribute__((aligned(64)));

static void on_timer(union sigval unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "timer");
	sem_post(&timer_runs);
	while (sem_wait(&timer_may_end))
		;
}

static void start_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
	const struct itimerspec once = {.it_value.tv_nsec = 1000000};
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &once, NULL))
		err(EXIT_FAILURE, "timer");
	while (sem_wait(&timer_runs))
		;
}

/* It has the thread-local memory of its creator: system calls only. */
static int cloned(void *unused)
{
	(void)unused;
	while (!atomic_load(&clone_may_end))
		syscall(SYS_futex, &clone_may_end, FUTEX_WAIT, 0, NULL, NULL, 0);
	return 0;
}

static void start_clone(void)
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		    CLONE_SYSVSEM;
	if (clone(cloned, clone_stack + sizeof(clone_stack), flags, NULL) < 0)
		err(EXIT_FAILURE, "clone");
}

static void *nothing(void *argument)
{
	return argument;
}

int main(void)
{
	static char byte;
	static struct aiocb read_from_pipe = {.aio_buf = &byte, .aio_nbytes = 1};
	int fd[2];
	pthread_t thread;

	alarm(60); /* it must end by itself */
	sem_init(&timer_runs, 0, 0);
	sem_init(&timer_may_end, 0, 0);
	if (pipe(fd))
		err(EXIT_FAILURE, "pipe");
	read_from_pipe.aio_fildes = fd[0];
	start_timer();
	start_clone();
	if (aio_read(&read_from_pipe))
		err(EXIT_FAILURE, "aio_read");
	puts("ready");
	fflush(stdout);
	while (getchar() != '\n')
		;
	sem_post(&timer_may_end);
	atomic_store(&clone_may_end, 1);
	syscall(SYS_futex, &clone_may_end, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (write(fd[1], "", 1) != 1)
		err(EXIT_FAILURE, "write");
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		errx(EXIT_FAILURE, "pthread_create");
	puts("over");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return EXIT_SUCCESS;
}
