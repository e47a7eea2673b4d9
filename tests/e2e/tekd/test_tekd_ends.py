# SPDX-License-Identifier: MIT OR Apache-2.0
"""What ends a grant of tekd: its client, its budget, or a program that is executed."""
import errno
import os
import socket
import subprocess
import threading

import pytest
from conftest import eventually, needs, read
from tekd_client import CRITICAL, ENTER, HELLO, LEFT, REFUSED, STATUS, Client, is_fast, scheduling
from tekd_daemon import (USUAL, Other, Stopped, daemon, no_real_time_load, pytestmark, sleeps_as,
                         tekd, thread, wait_for)

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names


def test_closing_the_last_connection_gives_everything_back(tekd, thread):
    before = scheduling(thread)
    first, second = tekd.client(), tekd.client()
    assert first.ask(ENTER, thread).error == 0
    first.close()
    assert second.ask(STATUS).error == 0
    assert is_fast(thread)
    second.close()
    wait_for(thread, False)
    assert scheduling(thread) == before


def test_a_killed_client_is_forgotten(tekd):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        other.process.kill()
        client = tekd.client()
        eventually(lambda: not client.json(STATUS)["fast"])
        assert client.ask(HELLO).error == 0
        assert [peer["pid"] for peer in client.json(STATUS)["clients"]] == [os.getpid()]


@pytest.mark.parametrize("keep", ["keep", "close"])
def test_a_client_that_executes_another_program_loses_what_it_had(tekd, keep):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        assert is_fast(other.tid)
        other.note(f"exec {keep}")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)
        assert not tekd.client().json(STATUS)["fast"]


def test_a_program_that_another_thread_than_the_first_executes_is_not_critical(tekd):
    with Other(tekd) as other:
        assert other.do("exec-in-thread")["error"] == 0
        other.note("now")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)


def test_a_process_made_critical_by_hand_is_not_after_it_executed_another_program(tekd):
    with Other(tekd) as other:
        client = tekd.client()
        if not client.json(STATUS)["hears_of_exec"]:
            pytest.skip("needs the kernel's news of processes")
        assert client.ask(CRITICAL, other.tid).error == 0
        other.note("exec close")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)


def test_where_the_kernel_reports_no_news_a_program_that_is_executed_is_noticed(daemon):
    # The connector is of the first network namespace.
    daemon.start(USUAL, prefix=[needs("unshare"), "--net"])
    client = daemon.client()
    assert not client.json(STATUS)["hears_of_exec"]
    with subprocess.Popen(["sh", "-c", "read line; exec sleep 60"], stdin=subprocess.PIPE,
                          text=True) as process:
        try:
            eventually(lambda: sleeps_as(process.pid, "sh"))
            assert client.ask(CRITICAL, process.pid).error == 0
            assert is_fast(process.pid)
            process.stdin.write("now\n")
            process.stdin.flush()
            eventually(lambda: sleeps_as(process.pid, "sleep"))
            wait_for(process.pid, False)
            # It may be critical again: that request is for another program.
            assert client.ask(CRITICAL, process.pid).error == 0
            assert is_fast(process.pid)
        finally:
            process.kill()


def test_a_client_that_becomes_another_user_loses_what_it_had(tekd):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        other.do("become 65534")
        wait_for(other.tid, False)


def test_a_socket_is_of_no_use_to_another_process(tekd, tmp_path):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        channel.bind(str(tmp_path / "channel"))
        other.do(f"pass {tmp_path}/channel")
        _, fds, _, _ = socket.recv_fds(channel, 10, 1)
        stolen = Client(tekd.socket)
        stolen.socket.close()
        stolen.socket = socket.socket(fileno=fds[0])
        stolen.socket.settimeout(60)
        own = threading.get_native_id()
        stolen.send(ENTER, own)
        answer = stolen.receive()
        assert (answer.kind, answer.number) == (REFUSED, 0)
        assert not is_fast(own)
        stolen.close()
        channel.close()


def test_an_overrun_sends_the_thread_back_for_a_while(daemon):
    daemon.start(USUAL + 'budget = "50ms/1s"\n')
    with Other(daemon) as other:
        assert other.do("enter")["error"] == 0
        left = other.do("burn")
        assert left["error"] == errno.EDQUOT
        assert left["value"][0] > left["value"][1] >= 50_000_000
        again = other.do("enter")
        assert again["error"] == errno.EDQUOT and "budget" in again["text"]
        status = daemon.client().json(STATUS)
        overrun, = status["overran"]
        assert (overrun["tid"], overrun["window_ms"], overrun["banned_ms"]) == (other.tid,
                                                                                1000, 1000)
        assert status["refused"][0]["why"] == again["text"]
        eventually(lambda: other.do("enter")["error"] == 0)
        assert other.do("burn")["error"] == errno.EDQUOT


@no_real_time_load
def test_when_ordinary_threads_do_not_run_everybody_goes_back(daemon, thread):
    client = daemon.start("canary_seconds = 1\n" + USUAL).client()
    tasks = f"/proc/{daemon.process.pid}/task"
    # A thread names itself once it runs.
    canary, = eventually(lambda: [int(tid) for tid in os.listdir(tasks)
                                  if read(f"{tasks}/{tid}/comm") == "tekd-canary\n"])
    assert client.ask(ENTER, thread).error == 0
    with Stopped(canary):
        left = client.notice()
        assert (left.kind, left.error) == (LEFT, errno.EDQUOT)
        assert "ordinary threads did not run" in left.text
        assert not is_fast(thread)
        assert client.ask(ENTER, thread).error == errno.EDQUOT
    eventually(lambda: client.ask(ENTER, thread).error == 0)
