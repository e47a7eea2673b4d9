# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek profile beside children: made in any way, they and their parents run as without it."""
import pytest
from test_profile_robust import profile

assert profile  # which pytest finds by their names

# _Fork() runs no handlers: its child ends as a process of its own, and the parent goes on.
PLAIN_FORK = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	pid_t child = _Fork();
	if (child == 0)
		exit(0);
	waitpid(child, NULL, 0);
	usleep(300000);
	_exit(0);
}
"""

# A child without the C library's fork handlers, made in each possible way.  Meanwhile its parent
# creates threads, and the child cannot access their parts of the parent's file.
CHILDREN = r"""
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int go[2];
static void *work(void *unused)
{
	pthread_setname_np(pthread_self(), "worker");
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&gate);
		pthread_mutex_unlock(&gate);
	}
	return unused;
}
static void threads(int count)
{
	pthread_t made[16];
	for (int i = 0; i < count; i++)
		pthread_create(&made[i], NULL, work, NULL);
	for (int i = 0; i < count; i++)
		pthread_join(made[i], NULL);
}
static pid_t make(const char *way)
{
	struct clone_args more = {.exit_signal = SIGCHLD};
	char *const words[] = {"sh", "-c", "exit 3", NULL};
	pid_t pid;
	if (strcmp(way, "_Fork") == 0)
		return _Fork();
	if (strcmp(way, "clone") == 0)
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (strcmp(way, "clone3") == 0)
		return (pid_t)syscall(SYS_clone3, &more, sizeof(more));
	if (strcmp(way, "spawn") == 0)
		return posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ) ? -1 : pid;
	if (strcmp(way, "vfork") == 0) {
		if ((pid = vfork()) == 0) {
			execv("/bin/sh", words);
			_exit(9);
		}
		return pid;
	}
	if (strcmp(way, "twice") == 0) {
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		return pid ? pid : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	}
	return fork();
}
int main(int argc, char **argv)
{
	int status = 0;
	char byte;
	(void)argc;
	(void)!pipe(go);
	threads(3);
	const pid_t self = getpid(), child = make(argv[1]);
	if (getpid() != self) {
		if (child) /* of "twice" */
			exit(waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 8);
		/* Until the parent has created more threads than it had. */
		if (read(go[0], &byte, 1) != 1)
			_exit(7);
		pthread_setname_np(pthread_self(), "child");
		if (strcmp(argv[2], "threads") == 0)
			threads(4);
		if (strcmp(argv[2], "program") == 0)
			execl("/bin/sh", "sh", "-c", "exit 3", NULL);
		if (strcmp(argv[2], "_exit") == 0)
			_exit(3);
		exit(3);
	}
	threads(9);
	(void)!write(go[1], "x", 1);
	waitpid(child, &status, 0);
	threads(9);
	printf("%d\n", status);
	return 0;
}
"""


def test_a_child_by_plain_fork_does_not_end_its_parent(profile, compile_c):
    [process], _ = profile(compile_c(PLAIN_FORK, "cc"))
    assert process["threads"][0]["parts"]["idle"] > 250_000_000


@pytest.mark.parametrize("does", ["threads", "program", "_exit", "exit"])
@pytest.mark.parametrize("way", ["fork", "_Fork", "clone", "clone3", "twice", "vfork", "spawn"])
def test_a_child_made_in_any_way_runs_as_without(profile, compile_c, way, does):
    processes, result = profile(compile_c(CHILDREN, "cc", "-pthread"), way, does,
                                options=["--follow"])
    assert (result.returncode, int(result.stdout)) == (0, 3 << 8), result
    parent = processes[0]
    assert [thread["role"] for thread in parent["threads"]].count("work [worker]") == 21
    if does == "threads" and way not in ("vfork", "spawn"):
        counted = [[thread["role"] for thread in process["threads"]].count("work [worker]")
                   for process in processes[1:]]
        assert 4 in counted
