/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads as TEK would have fitted them, in forked children that may die: their size is
 * given by the test, the rest is done as in stack/stack.c.
 */
#ifndef TEK_TESTS_FITTED_H
#define TEK_TESTS_FITTED_H

#include "patience.h"
#include "support.h"

#include "stack/config.h"
#include "stack/signal_stack.h"
#include "stack/stack.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/thread.h"

#include <fcntl.h>
#include <signal.h>

/* How a child ended, and what TEK said of it. */
struct ended {
	int status; /* of waitpid(2) */
	unsigned int events;
	struct tek_event event[64];
};

/* Run `body` in a child with an event file of its own. */
static inline void run_child(struct ended *ended, int (*body)(void))
{
	char path[] = "/tmp/tek-test-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	memset(ended, 0, sizeof(*ended));
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler */
		limit_to(60);
		setenv("TEK_EVENTS", path, 1);
		tek__report_start();
		tek__stack_config.mode = TEK_STACK_MODE_AUTO;
		tek__stack_config.period_ms = 0;
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &ended->status, 0), pid);
	ssize_t bytes = read(fd, ended->event, sizeof(ended->event));
	ended->events = bytes > 0 ? (unsigned int)((size_t)bytes / sizeof(ended->event[0])) : 0;
	close(fd);
	unlink(path);
}

static inline void assert_killed_by(const struct ended *ended, int signal)
{
	assert_true(WIFSIGNALED(ended->status));
	assert_int_equal(WTERMSIG(ended->status), signal);
}

static inline void assert_exited(const struct ended *ended, int status)
{
	assert_true(WIFEXITED(ended->status));
	assert_int_equal(WEXITSTATUS(ended->status), status);
}

/* The calling thread's stack is as if TEK had chosen its size, `reserve` bytes included. */
static inline struct tek_thread *fit_self(size_t reserve)
{
	struct tek_thread *thread = tek__thread_known_self();
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	if (!thread || pthread_getattr_np(pthread_self(), &attr) ||
	    pthread_attr_getstack(&attr, &low, &bytes))
		abort();
	pthread_attr_destroy(&attr);
	thread->stack.bytes = bytes;
	thread->stack.end = (uintptr_t)low + bytes;
	thread->stack.flags = TEK_STACK_TUNED;
	thread->stack.reserve_bytes = reserve;
	if (!tek__lock())
		abort();
	tek__signal_stack_take(thread);
	tek__unlock();
	tek__stack_prepare(thread);
	return thread;
}

/* Create a thread with so much stack. */
static inline pthread_t start_with_stack(size_t bytes, void *(*routine)(void *), void *argument)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_bytes(bytes));
	if (pthread_create(&thread, &attr, routine, argument))
		abort();
	pthread_attr_destroy(&attr);
	return thread;
}

/* Goes so deep, then comes back. */
ONE_COPY __attribute__((unused)) static int recurse(size_t bytes)
{
	char frame[256];

	for (size_t i = 0; i < sizeof(frame); i += 16)
		frame[i] = (char)bytes;
	__asm__ volatile("" : : "r"(frame) : "memory"); /* all of it is needed */
	if (bytes < sizeof(frame) + 64)
		return frame[0];
	return recurse(bytes - sizeof(frame) - 64) + frame[16];
}

enum { ENDLESS = 1 << 30 };

#endif
