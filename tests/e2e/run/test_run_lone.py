# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program with one thread that is time-critical by a rule: it gets no second thread for that."""
import subprocess

import pytest

from conftest import PATIENCE

LONE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int is_real_time(void)
{
	return (syscall(SYS_sched_getscheduler, 0) & 0xff) == 2;
}

static int has_guard(void)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[32];
	int found = 0;

	for (struct dirent *task; (task = readdir(tasks));) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		FILE *file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file))
			found |= strcmp(name, "tek-guard\n") == 0;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return found;
}

static int threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = -2;

	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count;
}

static void tell(const char *when)
{
	printf("%s: %s, %s\n", when, is_real_time() ? "critical" : "ordinary",
	       has_guard() ? "guard" : threads() == 1 ? "alone" : "more threads");
	fflush(stdout);
}

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* In its longest time it would be sent back several times. */
static void burn(void)
{
	for (double end = now(CLOCK_THREAD_CPUTIME_ID) + 2;
	     is_real_time() && now(CLOCK_THREAD_CPUTIME_ID) < end;)
		;
}

static void rest(void)
{
	for (double end = now(CLOCK_MONOTONIC) + 20; !is_real_time() && now(CLOCK_MONOTONIC) < end;)
		usleep(1000);
}

static void *tell_in_thread(void *unused)
{
	tell("thread");
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	tell("start");
	if (strcmp(arguments[1], "thread") == 0) {
		pthread_create(&thread, NULL, tell_in_thread, NULL);
		pthread_join(thread, NULL);
	} else if (strcmp(arguments[1], "fork") == 0) {
		if (fork() == 0) {
			prctl(PR_SET_NAME, "child");
			tell("child");
			_exit(0);
		}
		wait(NULL);
	} else if (strcmp(arguments[1], "burn") == 0) {
		burn();
		tell("burnt");
		rest();
		tell("rested");
	} else if (strcmp(arguments[1], "deadline") == 0) {
		int (*critical_for)(uint64_t) = dlsym(RTLD_DEFAULT, "tek_critical_for");
		printf("%d\n", critical_for(1000000000));
		tell("deadline");
	} else if (strcmp(arguments[1], "condition") == 0) {
		pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
		pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
		struct timespec soon;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_sec++;
		pthread_mutex_lock(&mutex);
		printf("%d\n", pthread_cond_timedwait(&cond, &mutex, &soon));
		tell("waited");
	} else if (strcmp(arguments[1], "unshare") == 0) {
		printf("%d\n", unshare(CLONE_NEWUSER));
	}
	return count != 2;
}
"""


@pytest.fixture(scope="session")
def lone(compile_c):
    return compile_c(LONE, "gcc", "-O1", "-Wall", "-pthread")


def text(tek, *command):
    ended = tek("run", *command)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines(), ended.stderr


@pytest.mark.parametrize("then, expected", [
    ("thread", ["thread: ordinary, guard"]),
    ("fork", ["child: critical, alone"]),
    ("deadline", ["0", "deadline: critical, guard"]),
    ("condition", ["110", "waited: critical, alone"]),  # ETIMEDOUT
])
def test_a_program_with_one_thread_gets_the_guard_when_it_needs_one(tek, lone, real_time, then,
                                                                    expected):
    # A thread that the first one joins is time-critical meanwhile, but for the option.
    option = ["--no-inherit"] if then == "thread" else []
    ended = text(tek, "--critical=*", *option, lone, then)
    assert ended == (["start: critical, alone", *expected], "")


def test_a_program_with_one_thread_may_enter_a_user_namespace(tek, lone, real_time):
    alone = subprocess.run([lone, "unshare"], capture_output=True, text=True, check=True,
                           timeout=60 * PATIENCE)
    if not alone.stdout.endswith("\n0\n"):
        pytest.skip("this user may make no user namespaces")
    assert text(tek, "--critical=*", lone, "unshare")[0] == ["start: critical, alone", "0"]


def test_the_only_thread_is_sent_back_and_is_time_critical_again(tek, lone, real_time):
    lines, errors = text(tek, "--critical=*", "--budget=50ms/200ms", lone, "burn")
    assert lines == ["start: critical, alone", "burnt: ordinary, alone", "rested: critical, alone"]
    assert "more than its budget" in errors


def test_the_only_thread_has_the_budget_of_its_rule(tek, lone, real_time, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nmatch = { thread = "*" }\n'
                     'set = { critical = true, budget = "50ms/200ms" }\n')
    lines, errors = text(tek, "--rules", rules, lone, "burn")
    assert lines[:2] == ["start: critical, alone", "burnt: ordinary, alone"]
    assert "more than its budget" in errors
