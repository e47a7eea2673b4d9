/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests of the engine: each runs in a process of its own, for an engine starts once. */
#ifndef UTHREAD_SUPPORT_H
#define UTHREAD_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "patience.h"

#include "base/clock.h"
#include "uthread/engine.h"
#include "uthread/thread.h"
#include "uthread/tls.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends a child whose condition does not hold; cmocka's own assertions cannot leave it. */
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

static inline void option_is_wrong(const char *text, size_t size, const char *why)
{
	fprintf(stderr, "%.*s: %s\n", (int)size, text, why);
	_exit(1);
}

/*
 * Starts the engine with these options, as in TEK_UTHREAD, beside the defaults of one worker.
 * "own:" before them gives each thread thread-local storage of its own.
 */
static inline void start_engine(const char *list)
{
	struct tek_engine_options options = tek_ut__engine_defaults();

	if (strncmp(list, "own:", 4) == 0) {
		CHECK(tek_ut__tls_available());
		options.own_tls = true;
		list += 4;
	}
	options.workers = 1;
	options.foreign = true;
	tek_ut__engine_parse(&options, list, option_is_wrong);
	CHECK(tek_ut__engine_start(&options) == 0);
}

/* Runs body() as the first thread of an engine with these options, for 30 s at most. */
static inline void with_engine(const char *list, void (*body)(void))
{
	if (strncmp(list, "own:", 4) == 0 && !tek_ut__tls_available()) {
		print_message("# %s left out: threads can have no storage of their own here\n",
			      list);
		return;
	}
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		limit_to(30);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is given up leaves nobody behind */
		start_engine(list);
		body();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		print_message("# with %s: status %#x\n", list, (unsigned int)status);
	assert_int_equal(status, 0);
}

static inline struct tek_uthread *spawn_with(const struct tek_uthread_creation *request,
					     void *(*routine)(void *), void *argument)
{
	tek_ut__enter();
	struct tek_uthread *thread = tek_ut__new(request, routine, argument);
	CHECK(thread);
	tek_ut__launch(thread);
	tek_ut__leave();
	return thread;
}

static inline struct tek_uthread *spawn(void *(*routine)(void *), void *argument)
{
	return spawn_with(NULL, routine, argument);
}

static inline void *join(struct tek_uthread *thread)
{
	void *result;
	CHECK(tek_ut__join(thread, &result, NULL) == 0);
	return result;
}

static inline void yield_once(void)
{
	tek_ut__enter();
	tek_ut__yield(TEK_READY_YIELDED);
	tek_ut__leave();
}

static inline void sleep_ms(unsigned int ms)
{
	struct timespec deadline = tek__timespec_of(tek__now(CLOCK_MONOTONIC) + ms * 1000000ull);
	struct tek_waiter waiter;

	tek_ut__waiter_init(&waiter);
	CHECK(tek_ut__wait(&waiter, &deadline, TEK_WAITS_SLEEP) == TEK_TIMED_OUT);
}

#endif
