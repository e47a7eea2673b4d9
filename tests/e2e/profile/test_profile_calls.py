# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls that tek profile sees: of C11, of several names, left by jumps, and with wrong clocks."""
import pathlib
import re
import subprocess

import pytest
from paths import TOP
from test_profile_robust import profile

assert profile  # which pytest finds by their names

# threads.h, with locks that are waited for.
C11 = r"""
#include <threads.h>
static mtx_t gate;
static volatile unsigned long sink;
static int run(void *unused)
{
	(void)unused;
	for (int k = 0; k < 40; k++) {
		mtx_lock(&gate);
		for (int i = 0; i < 500000; i++)
			sink++;
		mtx_unlock(&gate);
	}
	return 0;
}
int main(void)
{
	thrd_t threads[2];
	mtx_init(&gate, mtx_plain);
	for (int i = 0; i < 2; i++)
		thrd_create(&threads[i], run, NULL);
	for (int i = 0; i < 2; i++)
		thrd_join(threads[i], NULL);
	return 0;
}
"""

# A read that a signal handler jumps out of, after the printed ns; then locks in deeper frames.
JUMP = r"""
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static sigjmp_buf before;
static struct timespec begun, over;
static volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void jump(int number) { (void)number; siglongjmp(before, 1); }
__attribute__((noinline)) static void work(void)
{
	for (int k = 0; k < 300; k++) {
		pthread_mutex_lock(&lock);
		for (int i = 0; i < 1000000; i++)
			sink++;
		pthread_mutex_unlock(&lock);
	}
}
int main(void)
{
	int pipes[2];
	char byte;
	if (pipe(pipes) != 0)
		return 1;
	signal(SIGALRM, jump);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	if (!sigsetjmp(before, 1)) {
		ualarm(50000, 0);
		(void)!read(pipes[0], &byte, 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &over);
	work();
	printf("%ld\n", (over.tv_sec - begun.tv_sec) * 1000000000 + over.tv_nsec - begun.tv_nsec);
	return 0;
}
"""

# Sleeps in calls that have several names.
SLEEPS = r"""
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
int main(int argc, char **argv)
{
	struct pollfd fds[4];
	(void)argv;
	for (int i = 0; i < 4; i++)
		fds[i].fd = -1;
	poll(fds, argc, 200);
	return system("sleep 0.2");
}
"""

# The C library's results for invalid clocks and times, and for free locks.
CLOCKS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
int main(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec good = {1, 0}, bad = {1, 2000000000};
	sem_t semaphore;
	sem_init(&semaphore, 0, 9);
	printf("%d ", pthread_mutex_clocklock(&mutex, 77, &good));
	printf("%d ", pthread_rwlock_clockrdlock(&rwlock, 77, &good));
	printf("%d ", pthread_rwlock_timedrdlock(&rwlock, &bad));
	errno = 0;
	printf("%d ", sem_clockwait(&semaphore, 77, &good));
	printf("%d ", errno);
	printf("%d ", sem_timedwait(&semaphore, &bad));
	printf("%d\n", sem_timedwait(&semaphore, &good));
	return 0;
}
"""


def test_threads_and_locks_of_c11_are_seen(profile, compile_c):
    for _ in range(3):
        [process], _ = profile(compile_c(C11, "cc", "-O1"))
        assert [thread["role"] for thread in process["threads"]].count("run") == 2
        gate = next(entry for entry in process["objects"] if entry["name"] == "gate")
        assert gate["kind"] == "mutex" and gate["count"] == 80
        # Unless one of them began when the other was done.
        if process["parts"]["sync"] > 0.2 * process["threads_ns"]:
            return
    raise AssertionError(process["parts"])


def test_what_comes_behind_a_jump_is_not_in_the_call_that_was_left(profile, compile_c):
    [process], result = profile(compile_c(JUMP, "cc", "-O1"))
    [main] = process["threads"]
    assert main["locks"] == 300
    left_after = int(result.stdout)
    assert main["parts"]["file"] < left_after + 0.5 * (main["life_ns"] - left_after)


@pytest.mark.parametrize("flags", [[], ["-D_FORTIFY_SOURCE=2"]])
def test_sleep_in_calls_of_several_names_is_idle(profile, compile_c, flags):
    [process], _ = profile(compile_c(SLEEPS, "cc", "-O1", *flags))
    assert process["parts"]["idle"] > 350_000_000


def test_clocks_that_make_no_sense_are_refused_as_without(profile, compile_c):
    program = compile_c(CLOCKS, "cc", "-pthread")
    plain = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=60,
                           check=True).stdout
    assert profile(program)[1].stdout == plain


def test_calls_that_wait_in_the_c_library_are_known_by_all_their_names():
    listed = re.findall(r"FUNCTION\((\w+)\)",
                        (TOP / "lib/preload/profile/functions.h").read_text())
    [library] = [line.split()[-1]
                 for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
                 if re.search(r"/libc[.-]\S*so\S*$", line)][:1]
    names = {line.split()[-1].split("@")[0]
             for line in subprocess.run(["nm", "-D", "--defined-only", library],
                                        stdout=subprocess.PIPE, text=True,
                                        check=True).stdout.splitlines()}
    # A known call can have a fortified form, one without stream lock, and one for large files.
    forms = [form for name in listed
             for form in (f"__{name}_chk", f"{name}_unlocked", f"{name}64", f"__{name}64_chk")]
    # These only copy bytes in memory.
    known = {"__realpath_chk", "__readlink_chk", "__readlinkat_chk"}
    assert [form for form in forms if form in names and form not in listed
            and form not in known] == []
