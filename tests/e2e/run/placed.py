# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs under tek run --place, and the CPUs and policies of their threads."""
import os
import pathlib
import subprocess

import pytest
from conftest import BUILD

ALLOWED = sorted(os.sched_getaffinity(0))

# Threads that wait, some more than there are CPUs, until their standard input ends. So does the
# program that they execute.
CROWD = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *live(void *unused)
{
	pause();
	return unused;
}

int main(void)
{
	pthread_t thread;
	alarm(60);
	for (int i = 1; i < 7; i++)
		pthread_create(&thread, NULL, live, NULL);
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}
"""
GCC = ("gcc", "-O1", "-Wall", "-pthread")


@pytest.fixture(scope="session")
def crowd(compile_c):
    return compile_c(CROWD, *GCC)


@pytest.fixture(scope="session")
def two_cpus():
    if len(ALLOWED) < 2:
        pytest.skip("needs two CPUs")
    return ALLOWED[:2]


def real_time_is_allowed():
    # In a child: this process might have no right to restore its policy.
    script = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    return subprocess.run(["python3", "-c", script], capture_output=True, timeout=60,
                          check=False).returncode == 0


def needs_real_time():
    if not real_time_is_allowed():
        pytest.skip("needs leave to use real-time policies")


def threads_of(pid):
    """CPUs and policy of each thread, in the order in which they were created."""
    tasks = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]  # not sorted: tids wrap around
    return [(sorted(os.sched_getaffinity(tid)),
             os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK)
            for tid in tasks]


class Running:
    """A program under tek run, until the end of the block."""

    def __init__(self, *command):
        self.command = [str(BUILD / "bin" / "tek"), "run", "--no-rules", *map(str, command)]

    def __enter__(self):
        self.tek = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        assert self.tek.stdout.readline() == "ready\n"
        children = pathlib.Path(f"/proc/{self.tek.pid}/task/{self.tek.pid}/children").read_text()
        self.pid = int(children.split()[0])
        return self

    def __exit__(self, *unused):
        _, self.seen = self.tek.communicate("", timeout=60)
        assert self.tek.returncode == 0, self.seen
