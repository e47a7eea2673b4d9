# SPDX-License-Identifier: MIT OR Apache-2.0
"""TEK's libraries start in the middle of other code: of an allocator, a constructor, a wrapper.

That code holds locks, and calls functions that TEK interposes.
"""
import os

import pytest

from conftest import PATIENCE, needs
from paths import PROGRAMS
from modes import MODES

pytestmark = pytest.mark.spread



@pytest.fixture
def library(compile_c):
    options = ["-fno-builtin", "-fPIC", "-shared", "-pthread"]
    return lambda name: str(compile_c((PROGRAMS / name).read_text(), "cc", *options))


@pytest.fixture
def all_right(tek, tmp_path):
    """Runs a program that prints "all right", twice: the second time with a stack profile."""
    def run(mode, program, **environment):
        for _ in range(2):
            done = tek(*mode, "--", program, timeout=60 * PATIENCE,
                       env={**os.environ, "TEK_STACK_PROFILES": str(tmp_path), **environment})
            assert (done.stdout, done.returncode) == ("all right\n", 0), done.stderr
    return run


@pytest.fixture
def locks(compile_c):
    """A program with threads that only allocate and lock."""
    return compile_c(r"""
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static int sum;
        static void *work(void *unused)
        {
            pthread_mutex_lock(&lock);
            sum++;
            pthread_mutex_unlock(&lock);
            free(malloc(5000));
            return unused;
        }
        int main(void)
        {
            pthread_t threads[3];
            for (int i = 0; i < 3; i++)
                pthread_create(&threads[i], NULL, work, NULL);
            for (int i = 0; i < 3; i++)
                pthread_join(threads[i], NULL);
            puts(sum == 3 ? "all right" : "wrong");
            return 0;
        }
        """, "cc", "-fno-builtin", "-pthread")


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_an_allocator_that_calls_functions_under_its_lock_is_not_re_entered(
        all_right, compile_c, library, mode):
    program = compile_c((PROGRAMS / "calling_malloc.c").read_text(),
                        "cc", "-fno-builtin", "-pthread", "-rdynamic")
    all_right(mode, program, LD_PRELOAD=library("early_thread.c"))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_constructor_waits_for_a_thread_of_its_own(all_right, locks, library, mode):
    all_right(mode, locks, LD_PRELOAD=library("early_thread.c"))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_wrappers_of_another_library_lock_a_mutex(all_right, locks, library, mode):
    all_right(mode, locks, LD_PRELOAD=library("locking_wrappers.c"))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_program_runs_under_fakeroot(tek, locks, mode):
    done = tek(*mode, "--", needs("fakeroot"), locks, timeout=60 * PATIENCE)
    assert (done.stdout, done.returncode) == ("all right\n", 0), done.stderr


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_tek_runs_under_fakeroot(tek, locks, mode):
    done = tek(*mode, "--", locks, prefix=[needs("fakeroot")], timeout=60 * PATIENCE)
    assert (done.stdout, done.returncode) == ("all right\n", 0), done.stderr
