/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests run in a process without privilege, beside a daemon that behaves as it is told. */
#ifndef TEK_TESTS_DAEMON_SUPPORT_H
#define TEK_TESTS_DAEMON_SUPPORT_H

#include "fake_daemon.h"

#include "mediate/config.h"
#include "threads/report.h"

#include <grp.h>

enum { USER = 54321 };

/* In the process under test, where cmocka's own assertions would lead back into main(). */
static inline void expect_at(bool fulfilled, const char *what, int line)
{
	if (fulfilled)
		return;
	printf("# line %d: %s\n", line, what);
	fflush(NULL);
	_exit(1);
}
#define expect(condition) expect_at(condition, #condition, __LINE__)

static inline uint64_t now_ms(void)
{
	return fake_now() / 1000000;
}

static inline unsigned int asked(unsigned int kind)
{
	return fake->requests[kind];
}

static inline bool fast_after(pid_t tid, bool wanted)
{
	for (int i = 0; i < 300 && is_fast(tid) != wanted; i++)
		sleep_ms(10);
	return is_fast(tid) == wanted;
}

static inline int policy_of(pthread_t thread)
{
	struct sched_param param;
	int policy = -1;
	pthread_getschedparam(thread, &policy, &param);
	return policy;
}

static inline void restart_daemon(void)
{
	fake->restart = true;
	for (int i = 0; i < 300 && fake->restart; i++)
		sleep_ms(10);
	expect(!fake->restart);
}

static inline void drop_privilege(void)
{
	const struct rlimit none = {0, 0};

	expect(setrlimit(RLIMIT_RTPRIO, &none) == 0 && setgroups(0, NULL) == 0 &&
	       setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
}

static void (*test_body)(void);

static inline int run_unprivileged(void)
{
	strcpy(tek__config.socket, fake->path);
	setpriority(PRIO_PROCESS, 0, 0); /* so that it can rise */
	drop_privilege();
	test_body();
	return 0;
}

/*
 * The fake daemon must be able to switch others' threads.  TEK is not asked: this process shall
 * have no guard, whose traces ThreadSanitizer would see in the children.
 */
static inline void need_privilege(void)
{
	bool can = geteuid() == 0 && fake_switch(0, SCHED_RR, 1) == 0;

	if (can && fake_switch(0, SCHED_OTHER, 0) == 0)
		return;
	print_message("# needs root and CAP_SYS_NICE\n");
	skip();
}

static inline void run_under_daemon(enum conduct conduct, int (*run)(void), void (*body)(void))
{
	need_privilege();
	fake_start(conduct);
	test_body = body;
	int status = in_child(run);
	fake_stop();
	assert_int_equal(status, 0);
}

static inline void with_daemon(enum conduct conduct, void (*body)(void))
{
	run_under_daemon(conduct, run_unprivileged, body);
}

/* What the process says on its standard error meanwhile. */
static char printed[4096];

static inline void listen_to_stderr(void (*body)(void))
{
	char path[] = "/tmp/tek-daemon-said-XXXXXX";
	int file = mkstemp(path);

	/* TEK speaks to what standard error was at the start only. */
	expect(file >= 0 && unlink(path) == 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
	tek__report_start();
	body();
	ssize_t length = pread(file, printed, sizeof(printed) - 1, 0);
	expect(length >= 0);
	printed[length] = '\0';
}

#endif
