# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd grants what its configuration allows and no more, and restores it."""
import errno
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from conftest import eventually
from tekd_client import (CRITICAL, ENTER, GROUP, HELLO, LEAVE, LEFT, NORMAL, PROCESS, RR_RESET,
                         THEN, is_fast, scheduling)
from tekd_daemon import USUAL, Other, daemon, pytestmark, tekd, thread

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names


# Grants


def test_a_thread_is_critical_from_enter_to_leave(tekd, thread):
    client = tekd.client()
    before = scheduling(thread)
    hello = client.ask(HELLO)
    assert (hello.error, hello.value) == (0, (1, 800_000_000))
    entered = client.ask(ENTER, thread, priority=-20)
    assert (entered.error, entered.rt_priority) == (0, 49)
    assert scheduling(thread)[:2] == (RR_RESET, 49)
    assert client.ask(ENTER, thread, priority=19).rt_priority == 10
    assert client.ask(LEAVE, thread).error == 0
    assert scheduling(thread) == before
    assert client.ask(LEAVE, thread).error == 0


def test_what_a_thread_had_is_what_it_gets_back(tekd, thread):
    client = tekd.client()
    for policy, priority, nice in (os.SCHED_BATCH, 0, 5), (os.SCHED_IDLE, 0,
                                                           3), (os.SCHED_FIFO, 3, 0):
        os.sched_setscheduler(thread, policy, os.sched_param(priority))
        os.setpriority(os.PRIO_PROCESS, thread, nice)
        before = scheduling(thread)
        assert client.ask(ENTER, thread).rt_priority == 29
        assert client.ask(LEAVE, thread).error == 0
        assert scheduling(thread) == before


def test_a_thread_that_has_more_by_itself_keeps_it(tekd, thread):
    client = tekd.client()
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(35))
    entered = client.ask(ENTER, thread)
    assert (entered.error, entered.rt_priority) == (0, 0)
    assert scheduling(thread)[:2] == (os.SCHED_FIFO, 35)
    assert client.ask(ENTER, thread, priority=-20).rt_priority == 49
    assert client.ask(ENTER, thread).rt_priority == 0
    assert scheduling(thread)[:2] == (os.SCHED_FIFO, 35)
    client.ask(LEAVE, thread)
    assert scheduling(thread)[:2] == (os.SCHED_FIFO, 35)


def test_a_stay_ends_when_its_time_is_over(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread, until=time.monotonic_ns() + 2_000_000_000).error == 0
    assert is_fast(thread)
    left = client.notice()
    assert (left.kind, left.tid, left.error) == (LEFT, thread, errno.ETIME)
    assert not is_fast(thread)
    assert client.ask(ENTER, thread, until=1).error == errno.ETIME


def test_a_stay_goes_on_with_another_priority_when_its_time_is_over(tekd, thread):
    client = tekd.client()
    until = time.monotonic_ns() + 500_000_000
    entered = client.ask(ENTER, thread, until=until, flags=THEN, then=10)
    assert (entered.error, entered.rt_priority, entered.value[0]) == (0, 29, 19)
    assert eventually(lambda: scheduling(thread)[:2] == (RR_RESET, 19))
    # The time was over before the request came.
    assert client.ask(ENTER, thread, until=1, flags=THEN, priority=-20, then=0).rt_priority == 29
    assert client.ask(ENTER, thread, flags=THEN, then=0).error == errno.EINVAL
    assert client.ask(ENTER, thread, until=1, flags=THEN, then=20).error == errno.EINVAL
    assert client.ask(LEAVE, thread).error == 0
    assert not is_fast(thread)


def test_a_child_of_a_critical_thread_is_not_critical(tekd):
    client = tekd.client()
    own = threading.get_native_id()
    assert client.ask(ENTER, own).error == 0
    try:
        child = os.fork()
        if child == 0:
            os._exit(os.sched_getscheduler(0))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == os.SCHED_OTHER
    finally:
        client.ask(LEAVE, own)
    assert not is_fast(own)


# Refusals


def refusal(daemon, thread, configuration, **options):
    client = daemon.start(configuration).client()
    answer = client.ask(ENTER, thread, **options)
    assert answer.error and not is_fast(thread)
    assert answer.text
    return answer


@pytest.mark.parametrize("rule", [
    "users = [12345]", 'users = ["@active"]', "groups = [12345]", 'programs = ["/nowhere/*"]',
    'cgroups = ["/nowhere/*"]',
])
def test_a_process_without_a_grant_gets_nothing(daemon, thread, rule):
    answer = refusal(daemon, thread, f"[[grant]]\n{rule}\n")
    assert answer.error == errno.EPERM
    assert "[[grant]]" in answer.text


@pytest.mark.parametrize("rule", [
    "users = [0]", 'users = ["*"]', "groups = [0]",
    f'programs = ["{os.path.realpath(sys.executable)}"]', 'cgroups = ["/*"]',
])
def test_a_process_with_a_grant_gets_it(daemon, thread, rule):
    client = daemon.start(f"[[grant]]\n{rule}\n").client()
    assert client.ask(ENTER, thread).error == 0
    assert is_fast(thread)


@pytest.mark.skipif(os.geteuid() != 0, reason="tekd follows links of root's only")
def test_a_grant_for_a_link_is_one_for_the_program_behind_it(daemon, thread):
    with tempfile.TemporaryDirectory(dir="/run", prefix="tek-test-") as directory:
        directory = pathlib.Path(directory)
        python = pathlib.Path(os.path.realpath(sys.executable))
        (directory / "bin").symlink_to(python.parent)
        (directory / "player").symlink_to(python)
        for program in ("player", "play*", f"bin/{python.name}"):
            client = daemon.start(f'[[grant]]\nprograms = ["{directory}/{program}"]\n').client()
            assert client.ask(ENTER, thread).error == 0 and is_fast(thread)
            daemon.end()
        directory.chmod(0o777)  # every user could change the link
        client = daemon.start(f'[[grant]]\nprograms = ["{directory}/player"]\n').client()
        assert client.ask(ENTER, thread).error == errno.EPERM


def test_a_priority_that_is_not_granted_is_refused(daemon, thread):
    answer = refusal(daemon, thread, USUAL + "priorities = [-5, 5]\n", priority=-6)
    assert answer.error == errno.EPERM and "-5 to 5" in answer.text


def test_a_priority_that_there_is_not_is_refused(daemon, thread):
    assert refusal(daemon, thread, USUAL, priority=-21).error == errno.EINVAL


def test_more_threads_than_granted_are_refused(daemon, thread):
    client = daemon.start(USUAL + "threads = 1\n").client()
    assert client.ask(ENTER, threading.get_native_id()).error == 0
    assert client.ask(ENTER, thread).error == errno.EAGAIN
    assert client.ask(ENTER, threading.get_native_id(), priority=5).error == 0
    assert client.ask(LEAVE, threading.get_native_id()).error == 0
    assert client.ask(ENTER, thread).error == 0


def test_more_threads_of_a_user_than_granted_are_refused(daemon, thread):
    daemon.start(USUAL + "threads = 8\nuser_threads = 1\n")
    with Other(daemon) as other:
        assert other.do("enter")["error"] == 0
        client = daemon.client()
        assert client.ask(ENTER, thread).error == errno.EAGAIN
        other.do("leave")
        assert client.ask(ENTER, thread).error == 0


def test_more_switches_than_granted_are_refused_until_later(daemon, thread):
    client = daemon.start('[[grant]]\nusers = [0]\nrate = 1\nburst = 3\n').client()
    begin, granted = time.monotonic(), 0
    while (error := client.ask(ENTER, thread).error) == 0:
        granted += 1
    # One a second more; on a busy machine that may be several.
    assert error == errno.EBUSY and 3 <= granted <= 4 + time.monotonic() - begin
    assert client.ask(LEAVE, thread).error == 0
    eventually(lambda: client.ask(ENTER, thread).error == 0)


def test_a_thread_of_another_process_is_refused(tekd):
    victim = subprocess.Popen(["sleep", "60"])
    try:
        client = tekd.client()
        for tid in victim.pid, 1, tekd.process.pid, 0, 2**31, 2**22 + 5:
            assert client.ask(ENTER, tid).error in (errno.ESRCH, errno.EINVAL)
        assert not is_fast(victim.pid)
    finally:
        victim.kill()
        victim.wait()


def test_groups_that_are_not_configured_are_refused_with_the_reason(tekd):
    answer = tekd.client().ask(GROUP, os.getpid(), group=1)
    assert answer.error == errno.EOPNOTSUPP and "tekd.toml has no [groups]" in answer.text


def test_a_process_outside_the_domain_is_refused(tekd):
    victim = subprocess.run(["sh", "-c", "setsid sleep 60 >/dev/null & echo $!"],
                            stdout=subprocess.PIPE,
                            timeout=60, check=True)
    pid = int(victim.stdout)
    try:
        # Its parent has ended, so it is in no process tree of this test.
        answer = tekd.client().ask(CRITICAL, pid, flags=PROCESS)
        assert answer.error == errno.EPERM and "domain" in answer.text
        assert not is_fast(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_another_process_is_made_critical_and_normal_by_hand(tekd, waiting):
    program = subprocess.Popen([str(waiting), "a", "b"], stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == b"ready\n"
        tids = [int(tid) for tid in os.listdir(f"/proc/{program.pid}/task")]
        before = [scheduling(tid) for tid in tids]
        client = tekd.client()
        assert client.ask(CRITICAL, program.pid, flags=PROCESS).rt_priority == 29
        assert all(is_fast(tid) for tid in tids)
        client.close()
        # A change by hand outlives the client that requested it.
        time.sleep(0.2)
        assert all(is_fast(tid) for tid in tids)
        client = tekd.client()
        assert client.ask(NORMAL, tids[1]).error == 0
        assert [is_fast(tid) for tid in tids] == [tid != tids[1] for tid in tids]
        assert client.ask(NORMAL, program.pid, flags=PROCESS).error == 0
        assert [scheduling(tid) for tid in tids] == before
        assert client.ask(CRITICAL, program.pid, start=1, flags=PROCESS).error == errno.ESRCH
        assert client.ask(CRITICAL, tids[1], flags=PROCESS).error == errno.EINVAL
        assert [scheduling(tid) for tid in tids] == before
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def test_a_process_that_may_not_change_foreign_threads_is_refused(daemon, thread):
    client = daemon.start(USUAL + "others = false\n").client()
    answer = client.ask(CRITICAL, thread)
    assert answer.error == errno.EPERM and not is_fast(thread)
    assert client.ask(NORMAL, thread).error == errno.EPERM


def test_process_1_and_tekd_are_never_touched(tekd):
    client = tekd.client()
    for pid in 1, tekd.process.pid:
        before = scheduling(pid)
        assert client.ask(CRITICAL, pid, flags=PROCESS).error == errno.EPERM
        assert scheduling(pid) == before
