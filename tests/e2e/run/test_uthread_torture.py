# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that are interrupted every 200 us in the C library go on, and get correct results.

TEK_TORTURE_SECONDS sets the duration, where 20 s are not enough.
"""
import os
import platform
import re
import subprocess

import pytest

from conftest import BUILD, needs
from paths import PROGRAMS

pytestmark = pytest.mark.spread

LIBRARY = BUILD / "lib" / "libtek-uthread.so"
SOURCE = PROGRAMS / "torture.cpp"
SECONDS = int(os.environ.get("TEK_TORTURE_SECONDS", "20"))
THREADS = 100
TIME_TO_END = 120

SPINNERS = r"""
#include <pthread.h>
#include <stdio.h>
static volatile int turn;
static void *spin(void *number)
{
	for (int i = 0; i < 50; i++) {
		while (turn != (number != NULL))
			;
		turn = !turn;
	}
	return NULL;
}
int main(void)
{
	pthread_t threads[2];
	pthread_create(&threads[0], NULL, spin, NULL);
	pthread_create(&threads[1], NULL, spin, &turn);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	puts("both have ended");
}
"""


@pytest.fixture(scope="session", autouse=True)
def library():
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: run `make build`")


@pytest.fixture(scope="session")
def torture(tmp_path_factory):
    compiler = needs("g++")
    program = tmp_path_factory.mktemp("torture") / "torture"
    subprocess.run([compiler, "-std=gnu++17", "-O1", "-g", "-pthread", "-o", program, SOURCE],
                   check=True, timeout=120)
    return program


def run(program, options, seconds=0):
    """Its output; fails if it does not end well, with its messages."""
    environment = dict(os.environ)
    if options is not None:
        environment |= {"LD_PRELOAD": str(LIBRARY), "TEK_UTHREAD": options}
    arguments = [str(seconds), str(THREADS)] if seconds else []
    ended = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True,
                           timeout=seconds + TIME_TO_END, check=False)
    # TEK reports once that waits past TEK are slower, as those in the C library's own locks. This
    # is no failure.
    complaints = [line for line in ended.stderr.splitlines()
                  if "its threads wait by futex(2) past TEK" not in line]
    assert (ended.returncode, complaints) == (0, []), ended.stdout
    return ended.stdout


def assert_all_have_worked(seen):
    print(seen)
    threads, rounds = map(int, re.findall(r"(\d+) (?:threads|rounds)", seen))
    assert threads == THREADS
    assert rounds >= 6 * THREADS  # many threads did each job


def test_the_torture_is_passed_by_threads_of_the_kernel(torture):
    assert_all_have_worked(run(torture, None, 5))


def test_a_hundred_threads_interrupted_each_200_us_get_what_they_asked_for(torture):
    assert_all_have_worked(run(torture, "workers=1,quantum=200us", SECONDS))


@pytest.mark.parametrize("options", [
    "workers=1,quantum=200us,preempt=klt",
    "workers=2,quantum=200us,sched=steal",
    "workers=2,quantum=200us,preempt=klt",
])
def test_they_do_so_under_other_models(torture, options):
    assert_all_have_worked(run(torture, options, max(SECONDS // 6, 5)))


@pytest.mark.parametrize("options",
                         ["workers=1", "workers=1,quantum=200us,preempt=klt", "workers=2"])
def test_two_threads_that_wait_for_each_other_in_a_loop_end(compile_c, options):
    assert run(compile_c(SPINNERS, "cc", "-O1", "-pthread"), options) == "both have ended\n"
