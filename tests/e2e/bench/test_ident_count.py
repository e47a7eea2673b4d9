# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads are counted: none is lost, doubled or left, however they and their processes end."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import pytest

from conftest import BUILD, eventually
from paths import PROGRAMS

pytestmark = pytest.mark.spread

ABI = PROGRAMS.parents[2] / "abi"
HELD, TOGETHER = 100, 10  # as in churn.c
SWEPT = 128  # slots in use at a second search for gone threads: lib/threads/thread.c
MIB = 1 << 20


@pytest.fixture(scope="session")
def churn(compile_c):
    return compile_c((PROGRAMS / "churn.c").read_text(), "cc", "-O1", "-D_GNU_SOURCE", "-pthread")


@pytest.fixture(scope="session")
def forks(compile_c):
    return compile_c((PROGRAMS / "forks.c").read_text(), "cc", "-O1", "-D_GNU_SOURCE", "-pthread",
                     f"-I{ABI}")


@pytest.fixture
def under_tek(tmp_path):
    """Starts a program with libtek.so and its table in tmp_path; ends those that a test leaves."""
    environment = {"LD_PRELOAD": str(BUILD / "lib" / "libtek.so"), "TEK_RUN_DIR": str(tmp_path)}
    started = []

    def start(*command, **options):
        process = subprocess.Popen([str(word) for word in command], text=True,
                                   env=dict(os.environ, **environment), **options)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def table_of(tek, directory, process):
    ended = tek("debug", "table", directory / f"{process.pid}.table", "--json", timeout=60)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def tasks_of(process):
    return sorted(int(task) for task in os.listdir(f"/proc/{process.pid}/task"))


def memory_of(process):
    """Resident and virtual memory in bytes, and the number of mappings."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    resident, virtual = (1024 * int(re.search(rf"{field}:\s*(\d+)", status)[1])
                         for field in ("VmRSS", "VmSize"))
    mappings = pathlib.Path(f"/proc/{process.pid}/maps").read_text().count("\n")
    return resident, virtual, mappings


# 10,000 and 100,000 threads, or the percentage in TEK_TEST_ROUNDS, where creating one takes long.
ROUNDS = int(os.environ.get("TEK_TEST_ROUNDS", "100"))
FEW, MANY = 100 * ROUNDS, 1000 * ROUNDS


class Churn:
    """The program churn, stop by stop."""

    def __init__(self, process):
        self.process = process

    def wait_for(self, word):
        assert self.process.stdout.readline().strip() == word

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def check_while_held(tek, directory, process):
    """Every living thread has one record, and there are no other records."""
    # A thread that was joined, or has reported its end, may still exist for a moment.
    eventually(lambda: len(tasks_of(process)) == HELD + 1)
    # A thread has a record once it has begun, which takes a moment too on a busy machine.
    eventually(lambda: {record["tid"] for record in table_of(tek, directory, process)["records"]}
               == set(tasks_of(process)))
    table = table_of(tek, directory, process)
    tids = sorted(record["tid"] for record in table["records"])
    assert len(set(tids)) == len(tids), "a thread has two records"
    assert table["threads"] == len(tids)
    assert table["lost"] == 0
    assert tids == tasks_of(process)


def check_after_the_end(tek, directory, process, way):
    eventually(lambda: len(tasks_of(process)) == 1)
    table = table_of(tek, directory, process)
    if way == "sys_exit":  # found to be gone at the next search for them
        assert table["threads"] <= HELD + 1
    else:
        assert [record["tid"] for record in table["records"]] == [process.pid]
        assert table["threads"] == 1
    return table["slots"]


@pytest.mark.parametrize("way", ["returned", "pthread_exit", "cancelled", "detached", "sys_exit",
                                 "thrd_create"])
def test_of_100000_threads_no_record_is_lost_doubled_or_left(tek, churn, under_tek, tmp_path, way):
    process = under_tek(churn, way, FEW, MANY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    program, memory, slots = Churn(process), [], []
    for _ in range(2):
        program.wait_for("held")
        check_while_held(tek, tmp_path, process)
        program.go_on()
        program.wait_for("ended")
        slots.append(check_after_the_end(tek, tmp_path, process, way))
        memory.append(memory_of(process))
        program.go_on()
    assert process.wait(timeout=60) == 0
    assert slots[1] <= max(slots[0], SWEPT) + TOGETHER, "ten times as many threads took more slots"
    grown = [after - before for before, after in zip(*memory)]
    assert grown[0] < MIB, "resident memory grew"
    assert grown[1] < 48 * MIB, "virtual memory grew beyond the C library's cache of stacks"
    assert grown[2] < 16, "mappings were left"
    assert not list(tmp_path.glob("*.table"))


def tracked(tek, directory):
    """The pids of the threads in `tek ps`, by the tables in a directory."""
    ended = tek("ps", "--json", "--tracked", timeout=60,
                env=dict(os.environ, TEK_RUN_DIR=str(directory)))
    return [thread["pid"] for thread in json.loads(ended.stdout)["threads"]]


def test_programs_killed_while_they_create_threads_leave_nothing(tek, churn, under_tek, tmp_path):
    generator = random.Random(1)
    tables = []
    for _ in range(20):
        process = under_tek(churn, "returned", 0)
        table = tmp_path / f"{process.pid}.table"
        eventually(table.exists)
        time.sleep(generator.uniform(0, 0.02))
        process.kill()
        process.wait(timeout=60)
        assert process.pid not in tracked(tek, tmp_path)
        tables.append(table)
    survivor = under_tek(churn, "returned", 0)
    own = tmp_path / f"{survivor.pid}.table"
    eventually(own.exists)
    eventually(lambda: not any(table.exists() for table in tables))
    assert list(tmp_path.glob("*.table")) == [own]


@pytest.mark.parametrize("way", ["returned", "detached"])
def test_a_program_stopped_while_it_creates_threads_is_read_at_once(tek, churn, under_tek,
                                                                    tmp_path, way):
    process = under_tek(churn, way, 0)
    table = tmp_path / f"{process.pid}.table"
    eventually(lambda: process.pid in tracked(tek, tmp_path))
    generator = random.Random(2)
    for _ in range(20):
        time.sleep(generator.uniform(0, 0.01))
        process.send_signal(signal.SIGSTOP)
        # It goes on only after this: a reader that waited for it would wait until the timeout.
        ended = tek("debug", "table", table, "--json", timeout=60)
        # It may have been stopped in the middle of a write, and then the reader reports that.
        assert ended.returncode == 0 or "being written" in ended.stderr, ended.stderr
        assert process.pid in tracked(tek, tmp_path)
        process.send_signal(signal.SIGCONT)


def test_children_of_every_kind_of_fork_have_tables_of_their_own_or_none(churn, forks, under_tek,
                                                                         tmp_path):
    process = under_tek(forks, max(5, ROUNDS), stderr=subprocess.PIPE)
    _, seen = process.communicate(timeout=90)
    assert (process.returncode, seen) == (0, "")
    # Tables of children that ended by _exit() go when the next process makes its table.
    next_one = under_tek(churn, "returned", 0)
    own = tmp_path / f"{next_one.pid}.table"
    eventually(own.exists)
    eventually(lambda: list(tmp_path.glob("*.table")) == [own])
