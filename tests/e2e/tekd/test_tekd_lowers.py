# SPDX-License-Identifier: MIT OR Apache-2.0
"""Under backend rt, real-time threads that are not critical wait below those that are."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from conftest import eventually
from tekd_client import ENTER, EXPLAIN, LEAVE, RR_RESET, STATUS, scheduling
from tekd_daemon import USUAL, Other, daemon, pytestmark, thread

__all__ = ["daemon", "pytestmark", "thread"]

# Starts `sleep` for each line that it gets, and a grandchild below it; prints their pids.
PARENT = """
import subprocess, sys
for line in sys.stdin:
    child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE,
                             text=True)
    print(child.pid, child.stdout.readline().strip(), flush=True)
"""


@pytest.fixture
def process():
    """A process that starts children on request."""
    parent = subprocess.Popen([sys.executable, "-u", "-c", PARENT], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, start_new_session=True)
    yield parent
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()


def have_children(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return [int(pid) for pid in process.stdout.readline().split()]


def real_time(tid, policy, priority):
    os.sched_setscheduler(tid, policy, os.sched_param(priority))


def has(tid, policy, priority):
    return scheduling(tid)[:2] == (policy, priority)


def wait_until_has(tid, policy, priority):
    eventually(lambda: has(tid, policy, priority))


@pytest.mark.parametrize(("policy", "priority", "lowered"), [
    (os.SCHED_FIFO, 60, 9), (os.SCHED_RR, 10, 9), (os.SCHED_RR, 9, 9), (os.SCHED_FIFO, 3, 3),
])
def test_a_real_time_thread_waits_beneath_the_critical_ones_and_gets_back_what_it_had(
        daemon, process, thread, policy, priority, lowered):
    real_time(process.pid, policy, priority)
    client = daemon.start(USUAL).client()
    assert has(process.pid, policy, priority)
    assert client.ask(ENTER, thread).error == 0
    wait_until_has(process.pid, policy, lowered)
    info = {its["tid"]: its for its in client.json(STATUS)["lowered"]}
    assert (process.pid in info) == (priority != lowered)
    if process.pid in info:
        assert (info[process.pid]["priority"], info[process.pid]["lowered_to"]) == (priority,
                                                                                    lowered)
        assert client.json(EXPLAIN, process.pid)["lowered"] == info[process.pid]
    assert client.ask(LEAVE, thread).error == 0
    wait_until_has(process.pid, policy, priority)


def test_beneath_the_lowest_priority_there_are_ordinary_threads(daemon, process, thread):
    real_time(process.pid, os.SCHED_RR, 1)
    client = daemon.start("real_time = [1, 20]\n" + USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    wait_until_has(process.pid, os.SCHED_OTHER, 0)
    assert client.ask(LEAVE, thread).error == 0
    wait_until_has(process.pid, os.SCHED_RR, 1)


def test_a_thread_that_becomes_real_time_meanwhile_is_found(daemon, process, thread):
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    real_time(process.pid, os.SCHED_RR, 77)
    wait_until_has(process.pid, os.SCHED_RR, 9)
    assert client.ask(LEAVE, thread).error == 0
    wait_until_has(process.pid, os.SCHED_RR, 77)


def test_of_lowered_threads_that_end_nothing_is_stored_while_the_mode_lasts(daemon, thread):
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    before = client.json(STATUS)["counts"]["changes"]
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        real_time(sleeper.pid, os.SCHED_RR, 60)
        wait_until_has(sleeper.pid, os.SCHED_RR, 9)
        assert client.json(STATUS)["counts"]["changes"] == before + 1
        sleeper.kill()
    eventually(lambda: client.json(STATUS)["counts"]["changes"] == before)


def test_children_that_are_born_lowered_get_what_their_parent_has(daemon, process, thread):
    real_time(process.pid, os.SCHED_RR, 55)
    older = have_children(process)
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    for pid in process.pid, *older:
        wait_until_has(pid, os.SCHED_RR, 9)
    younger = have_children(process)
    assert all(has(pid, os.SCHED_RR, 9) for pid in younger)
    assert client.ask(LEAVE, thread).error == 0
    for pid in process.pid, *older, *younger:
        wait_until_has(pid, os.SCHED_RR, 55)


def test_a_lowered_thread_that_asks_for_it_becomes_critical(daemon):
    daemon.start(USUAL)
    with Other(daemon) as first, Other(daemon) as second:
        real_time(second.tid, os.SCHED_FIFO, 20)
        assert first.do("enter")["error"] == 0
        wait_until_has(second.tid, os.SCHED_FIFO, 9)
        assert second.do("enter")["error"] == 0
        assert has(second.tid, RR_RESET, 29)
        assert second.do("leave")["error"] == 0
        wait_until_has(second.tid, os.SCHED_FIFO, 9)
        assert first.do("leave")["error"] == 0
        wait_until_has(second.tid, os.SCHED_FIFO, 20)


def test_what_tek_makes_critical_without_tekd_is_left_alone(daemon, process, thread):
    real_time(process.pid, RR_RESET, 29)
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    client.json(STATUS)
    assert has(process.pid, RR_RESET, 29)


def test_a_policy_that_another_program_changed_stays(daemon, process, thread):
    real_time(process.pid, os.SCHED_RR, 60)
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    wait_until_has(process.pid, os.SCHED_RR, 9)
    real_time(process.pid, os.SCHED_FIFO, 4)
    assert client.ask(LEAVE, thread).error == 0
    client.json(STATUS)
    assert has(process.pid, os.SCHED_FIFO, 4)


def test_a_kill_leaves_no_thread_lowered_after_the_restore(daemon, process, thread):
    real_time(process.pid, os.SCHED_RR, 60)
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    wait_until_has(process.pid, os.SCHED_RR, 9)
    children = have_children(process)
    daemon.end(signal.SIGKILL)
    assert has(process.pid, os.SCHED_RR, 9)
    subprocess.run(daemon.command("--restore"), timeout=60, check=True)
    assert all(has(pid, os.SCHED_RR, 60) for pid in (process.pid, *children))
    assert not pathlib.Path(daemon.state).exists()
