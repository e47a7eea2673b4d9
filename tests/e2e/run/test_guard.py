# SPDX-License-Identifier: MIT OR Apache-2.0
"""A thread that overruns its budget is sent back, named, and taken back by its rule later."""
import re

BURSTS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int is_real_time(void)
{
	return (syscall(SYS_sched_getscheduler, 0) & 0xff) == 2;
}

static void *burst(void *unused)
{
	pthread_setname_np(pthread_self(), "burst");
	printf("%d\n", is_real_time());
	for (long start = now_ms(); is_real_time() && now_ms() - start < 3000;)
		;
	printf("%d\n", is_real_time());
	for (long start = now_ms(); !is_real_time() && now_ms() - start < 3000;)
		usleep(10000);
	printf("%d\n", is_real_time());
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, burst, NULL);
	pthread_join(thread, NULL);
	return 0;
}
"""


def test_a_runaway_thread_is_named_and_its_rule_takes_it_back_later(tek, compile_c, real_time):
    program = compile_c(BURSTS, "cc", "-pthread")
    ended = tek("run", "--critical=burst", "--budget=100ms/1s", program)
    assert ended.returncode == 0
    # Real-time by its name, sent back, real-time again.
    assert ended.stdout.split() == ["1", "0", "1"]
    # More than the budget where the budget guard lost its CPU for a while.
    used, = re.findall(r"thread burst .* used ([0-9.]+) ?(m?s) of CPU time", ended.stderr)
    assert float(used[0]) * (1 if used[1] == "ms" else 1000) >= 100
