# SPDX-License-Identifier: MIT OR Apache-2.0
"""A lifted thread never keeps out a thread that is critical by itself."""
import errno
import os
import subprocess
import threading

from tekd_client import ENTER, LEAVE, LEFT, LIFT, is_fast
from tekd_daemon import USUAL, daemon, pytestmark, thread
from test_daemon_client import NOBODY, tekd

assert daemon and pytestmark and tekd and thread  # which pytest finds by their names

# One thread waits for a mutex that another one holds; then a third one becomes critical.
HOLDER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int tids[2];

static void *hold(void *arg)
{
	pthread_mutex_lock(&mutex);
	__atomic_store_n(&tids[0], gettid(), __ATOMIC_RELEASE);
	pause();
	return arg;
}

static void *wait_for_it(void *arg)
{
	__atomic_store_n(&tids[1], gettid(), __ATOMIC_RELEASE);
	pthread_setschedparam(pthread_self(), 84, &(struct sched_param){0});
	pthread_mutex_lock(&mutex);
	return arg;
}

static int policy(int tid)
{
	return (int)syscall(SYS_sched_getscheduler, tid) & ~SCHED_RESET_ON_FORK;
}

static int start(void *(*run)(void *), int *tid)
{
	pthread_t thread;
	pthread_create(&thread, NULL, run, NULL);
	while (!__atomic_load_n(tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	return *tid;
}

int main(void)
{
	alarm(60);
	int holder = start(hold, &tids[0]);
	int waiter = start(wait_for_it, &tids[1]);
	while (policy(waiter) != SCHED_RR || policy(holder) != SCHED_RR)
		usleep(1000);
	int error = pthread_setschedparam(pthread_self(), 84, &(struct sched_param){0});
	printf("%d %d %d %d\n", error, policy(0), policy(waiter), policy(holder));
	return 0;
}
"""


def own():
    return threading.get_native_id()


def test_a_lifted_thread_gives_its_place_to_one_that_is_critical_by_itself(daemon, thread):
    client = daemon.start(USUAL + "threads = 1\n").client()
    assert client.ask(ENTER, thread, flags=LIFT).error == 0
    assert is_fast(thread)
    assert client.ask(ENTER, own()).error == 0
    assert not is_fast(thread)
    notice = client.notice()
    assert (notice.kind, notice.tid, notice.error) == (LEFT, thread, errno.EAGAIN)
    assert client.ask(ENTER, thread, flags=LIFT).error == errno.EAGAIN
    assert client.ask(LEAVE, own()).error == 0


def test_a_lifted_thread_that_becomes_critical_by_itself_keeps_its_place(daemon, thread):
    client = daemon.start(USUAL + "threads = 1\n").client()
    assert client.ask(ENTER, thread, flags=LIFT).error == 0
    assert client.ask(ENTER, thread).error == 0
    assert client.ask(ENTER, own()).error == errno.EAGAIN
    assert is_fast(thread)


def test_lifts_leave_half_of_the_burst_for_other_switches(daemon, thread):
    client = daemon.start('[[grant]]\nusers = [0]\nrate = 1\nburst = 20\n').client()
    while (error := client.ask(ENTER, thread, flags=LIFT).error) == 0:
        pass
    assert error == errno.EBUSY
    assert all(client.ask(ENTER, thread).error == 0 for _ in range(10))


def test_a_request_with_an_unknown_flag_is_refused(daemon, thread):
    client = daemon.start(USUAL).client()
    client.send(ENTER, thread, flags=LIFT << 1)
    assert client.receive().error != 0
    assert not is_fast(thread)


def test_a_program_whose_threads_are_as_many_as_granted_can_still_lift(
        tekd, compile_c, open_build, as_nobody):
    # Once tekd has loaded its programs, it would lift the holder by itself.
    tekd.start(f"[[grant]]\nusers = [{NOBODY}]\nrate = 10000\nthreads = 2\n"
               "[inherit]\nlocks = false\n")
    program = compile_c(HOLDER, "cc", "-pthread")
    done = subprocess.run([*as_nobody, open_build / "bin" / "tek", "run", program],
                          capture_output=True, text=True, timeout=90, check=False)
    # The thread that became critical took the place of the lifted one.
    assert done.stdout.split() == ["0", str(os.SCHED_RR), str(os.SCHED_RR), "0"], done.stderr
    assert "refused" not in done.stderr and "EPERM" not in done.stderr
