# SPDX-License-Identifier: MIT OR Apache-2.0
"""gdb shows user-level threads (tools/gdb/tek.py): the objects of their waits, and their calls."""
import re
import subprocess

import pytest

from conftest import BUILD, needs
from paths import TOP

SCRIPT = TOP / "tools" / "gdb" / "tek.py"
LIBRARY = BUILD / "lib" / "libtek-uthread.so"

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int waiting;

static __attribute__((noinline)) int wait_below(volatile int depth)
{
	if (depth)
		return wait_below(depth - 1) + depth;
	waiting++;
	pthread_cond_wait(&never, &lock);
	return 1;
}

static void *be_patient(void *argument)
{
	pthread_setname_np(pthread_self(), "patient");
	pthread_mutex_lock(&lock);
	wait_below(3);
	return argument;
}

static void *end_at_once(void *argument)
{
	return argument;
}

int main(void)
{
	pthread_t threads[3];

	pthread_create(&threads[0], NULL, be_patient, NULL);
	pthread_create(&threads[1], NULL, end_at_once, NULL);
	pthread_create(&threads[2], NULL, be_patient, NULL);
	for (int done = 0; done != 2;) {
		usleep(10000);
		pthread_mutex_lock(&lock);
		done = waiting;
		pthread_mutex_unlock(&lock);
	}
	usleep(50000);
	kill(getpid(), SIGTRAP);
	puts("goes on");
	fflush(stdout);
	_exit(0);
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    needs("gdb")
    needs("gcc")
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: run `make build`")
    directory = tmp_path_factory.mktemp("gdb")
    source = directory / "waits.c"
    source.write_text(PROGRAM)
    binary = directory / "waits"
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "-o", binary, source], check=True)
    return binary


def gdb(program, *commands, workers=1, preempt="defer"):
    """gdb's output for these commands where the program stops by itself."""
    options = f"workers={workers},quantum=200us,preempt={preempt}"
    command = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    wrapper = f"env LD_PRELOAD={LIBRARY} TEK_UTHREAD={options}"
    command += ["-ex", f"set exec-wrapper {wrapper}", "-ex", "run", "-ex", f"source {SCRIPT}"]
    for each in commands:
        command += ["-ex", f"echo \\n== {each}\\n", "-ex", each]
    command.append(str(program))
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    sections = re.split(r"^== .*\n", ended.stdout, flags=re.MULTILINE)
    assert len(sections) == len(commands) + 1, ended.stdout
    return [section.strip() for section in sections[1:]]


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_are_listed_with_what_they_wait_for(program, workers):
    (text,) = gdb(program, "tek uthreads", workers=workers)
    rows = [line for line in text.splitlines() if re.match(r" *\d+ ", line)]
    assert len(rows) == 4, text
    assert re.match(r" *1 .*worker \d+, LWP \d+", rows[0])
    for row in (rows[1], rows[3]):
        assert re.search(r"patient +waits: cond.* 0x[0-9a-f]+ \+ \d+ KiB", row), text
    assert "ended, not joined" in rows[2]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_backtrace_shows_from_where_a_thread_waits(program, workers):
    (text,) = gdb(program, "tek uthread 2 bt", workers=workers)
    functions = re.findall(r"^#\d+ .*?(?:in )?(\w+) \(", text, flags=re.MULTILINE)
    assert functions.count("wait_below") == 4, text
    assert functions.index("wait_below") < functions.index("be_patient")
    numbers = [int(number) for number in re.findall(r"^#(\d+)", text, flags=re.MULTILINE)]
    assert numbers == list(range(len(numbers)))
    assert "kill" not in functions and "main" not in functions


def test_a_command_runs_on_all_threads_each_in_its_own_frame(program):
    (text,) = gdb(program, "tek uthread apply all bt 50")
    parts = re.split(r"^User-level thread ", text, flags=re.MULTILINE)[1:]
    assert [part.split()[0] for part in parts] == ["1", "2", "3", "4"]
    assert "main (" in parts[0]
    assert "wait_below (" in parts[1] and "wait_below (" in parts[3]
    assert "It has ended." in parts[2]


def test_the_program_is_as_it_was_afterwards(program):
    before, _, after, frame, rest = gdb(
        program,
        "info registers",
        "tek uthread apply all bt full",
        "info registers",
        "bt 1",
        "continue",
    )
    assert before == after
    assert frame.startswith("#0")
    assert "goes on" in rest


ALTERNATES = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int turns, stop;

static void *work(void *number)
{
	while (!stop)
		if (turns % 2 == (number != NULL))
			turns++;
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	kill(getpid(), SIGTRAP);
	pthread_create(&threads[0], NULL, work, NULL);
	pthread_create(&threads[1], NULL, work, threads);
	while (turns < 100)
		usleep(1000);
	stop = 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	puts("all had their turns");
	return 0;
}
"""


@pytest.mark.parametrize("preempt", ["defer", "klt"])
def test_gdb_does_not_stop_at_ticks(preempt, tmp_path):
    source, binary = tmp_path / "turns.c", tmp_path / "turns"
    source.write_text(ALTERNATES)
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "-o", binary, source], check=True)
    (rest,) = gdb(binary, "continue", preempt=preempt)
    assert "all had their turns" in rest
    assert "exited normally" in rest and "signal" not in rest


def test_a_thread_that_is_not_there_is_an_error(program):
    text, _ = gdb(program, "tek uthread 99 bt", "tek uthread 1")
    assert "No user-level thread 99" in text
