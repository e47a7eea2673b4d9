# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clients that are stopped, traced or frozen: their grants end as they should."""
import errno
import os
import pathlib
import signal
import time

import pytest
from conftest import eventually, read
from tekd_client import CRITICAL, ENTER, HELLO, LEAVE, NORMAL, PROCESS, STATUS, is_fast, scheduling
from tekd_daemon import Other, Stopped, daemon, pytestmark, tekd, thread, wait_for

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")


class BySignal:
    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: "\nState:\tT" in read(f"/proc/{self.pid}/status"))

    def __exit__(self, *unused):
        os.kill(self.pid, signal.SIGCONT)


class Frozen:
    """A control group that is frozen, with one process in it."""

    def __init__(self, pid):
        if not (FREEZER / "tasks").exists():
            pytest.skip(f"needs the controller freezer at {FREEZER}")
        self.pid = pid
        self.group = FREEZER / f"frozen-by-test-{os.getpid()}"

    def __enter__(self):
        self.group.mkdir()
        (self.group / "tasks").write_text(str(self.pid))
        (self.group / "freezer.state").write_text("FROZEN")
        eventually(lambda: (self.group / "freezer.state").read_text() == "FROZEN\n")

    def __exit__(self, *unused):
        (self.group / "freezer.state").write_text("THAWED")
        (FREEZER / "tasks").write_text(str(self.pid))
        self.group.rmdir()


STUCK = pytest.mark.parametrize("how", [BySignal, Stopped, Frozen])


@STUCK
def test_other_clients_are_served_and_what_a_stuck_client_has_can_be_taken_back(tekd, thread, how):
    client = tekd.client()
    with Other(tekd) as other:
        before = scheduling(other.tid)
        assert other.do("enter")["error"] == 0
        with how(other.tid):
            for _ in range(10):
                assert client.ask(ENTER, thread).error == 0
                assert client.ask(LEAVE, thread).error == 0
            assert {fast["tid"] for fast in client.json(STATUS)["fast"]} == {other.tid}
            until = time.monotonic_ns() + 2_000_000_000
            assert client.ask(CRITICAL, other.tid, until=until, priority=-20).error == 0
            assert scheduling(other.tid)[1] == 49
            eventually(lambda: scheduling(other.tid)[1] == 29)
            assert client.ask(CRITICAL, other.tid, flags=PROCESS).error == 0
            assert client.ask(NORMAL, other.tid, flags=PROCESS).error == 0
            assert is_fast(other.tid)  # by its own request
        assert other.do("leave")["error"] == 0
        assert scheduling(other.tid) == before


@STUCK
def test_a_stop_of_tekd_gives_back_what_a_stuck_client_has(tekd, how):
    with Other(tekd) as other:
        before = scheduling(other.tid)
        assert other.do("enter")["error"] == 0
        with how(other.tid):
            assert tekd.end() == 0
            assert scheduling(other.tid) == before
        assert not tekd.state.exists() and not tekd.socket.exists()


@STUCK
def test_a_grant_that_is_no_more_ends_though_the_client_is_stuck(tekd, how):
    with Other(tekd) as other:
        before = scheduling(other.tid)
        assert other.do("enter")["error"] == 0
        with how(other.tid):
            tekd.config.write_text("grant = []\n")
            tekd.process.send_signal(signal.SIGHUP)
            wait_for(other.tid, False)
            assert scheduling(other.tid) == before
            assert tekd.client().ask(HELLO).error == errno.EPERM


def test_a_stuck_client_that_gets_more_messages_than_it_can_hold_is_given_up(daemon, thread):
    daemon.start('[[grant]]\nusers = ["root"]\nrate = 10000\n')
    client = daemon.client()
    with Other(daemon) as other:
        assert other.do("hello")["error"] == 0
        with BySignal(other.tid):
            for _ in range(60):
                # tekd reports each of these to its process, which does not read.
                until = time.monotonic_ns() + 1_000_000
                client.ask(CRITICAL, other.tid, until=until)
                wait_for(other.tid, False)
            assert client.ask(ENTER, thread).error == 0
            eventually(lambda: client.json(STATUS)["counts"]["connections"] == 1)
    assert is_fast(thread)
