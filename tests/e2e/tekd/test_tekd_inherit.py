# SPDX-License-Identifier: MIT OR Apache-2.0
"""A thread of a program is lifted while a critical thread waits for its lock or its answer."""
import os
import subprocess
import time

import pytest
from conftest import eventually
from tekd_client import CRITICAL, NORMAL, scheduling
from tekd_daemon import daemon, resident, tekd, thread
from tekd_inheriting import (hogs, inherit, inheriting, is_lifted, make_critical, program,
                             pytestmark, waits_until_lifted)

# Which pytest finds by their names.
assert daemon and hogs and inheriting and program and pytestmark and tekd and thread

KILLS = int(os.environ.get("TEK_KILLS", "10"))


@pytest.mark.parametrize("mode", ["private", "shared", "pipe", "stream", "seqpacket", "dgram"])
def test_a_thread_is_lifted_while_a_critical_thread_waits_for_it_and_not_longer(
        inheriting, program, hogs, mode):
    daemon, one = inheriting("max_wait_ms = 10000"), program(mode)
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    for _ in range(3):
        waits_until_lifted(one, one.holder, priority - 1)
        one.do("give")
        eventually(lambda: scheduling(one.holder) == before)
    counts = inherit(daemon)["counts"]
    assert counts["lifts"] >= 3 and counts["lifted_ns"] > 0


def test_the_server_of_a_server_is_lifted_for_the_client(inheriting, program, hogs):
    daemon, one = inheriting("max_wait_ms = 10000"), program("chain")
    before = [scheduling(tid) for tid in (one.holder, one.behind)]
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.behind, priority - 1)
    eventually(lambda: is_lifted(one.holder, priority - 1))
    one.do("give")
    eventually(lambda: [scheduling(tid) for tid in (one.holder, one.behind)] == before)


def test_tekd_reports_a_lifted_thread_and_its_waiters(inheriting, program):
    daemon, one = inheriting(), program("private")
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    thread, = [it for it in inherit(daemon)["threads"] if it["tid"] == one.holder]
    assert (thread["priority"], thread["pid"]) == (priority - 1, one.process.pid)
    waiter, = thread["waiters"]
    assert (waiter["tid"], waiter["priority"]) == (one.waiter, priority)
    assert waiter["because"] == "lock" and waiter["lock"].startswith("0x")
    assert waiter["since_ns"] >= thread["since_ns"] > 0
    one.do("give")
    eventually(lambda: not inherit(daemon)["threads"])


def test_a_thread_does_not_keep_a_lift_that_a_privileged_process_found_and_set_again(
        inheriting, program):
    daemon, one = inheriting("max_wait_ms = 10000"), program("private")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    found = os.sched_getscheduler(one.holder), os.sched_getparam(one.holder)
    # As libtek does, with a right of its own, when the holder becomes critical and ordinary again.
    os.sched_setscheduler(one.holder, os.SCHED_FIFO, os.sched_param(priority + 1))
    one.do("give")
    eventually(lambda: not inherit(daemon)["threads"])
    assert os.sched_getscheduler(one.holder) == os.SCHED_FIFO
    os.sched_setscheduler(one.holder, *found)
    eventually(lambda: scheduling(one.holder) == before)


def test_loading_the_programs_leaves_tekd_small(tekd, thread):
    size = resident(tekd)
    tekd.load_once(thread)
    assert resident(tekd) < size + (5 << 10)


def test_no_thread_is_lifted_for_an_ordinary_one(inheriting, program):
    daemon, one, other = inheriting(), program("private"), program("pipe")
    make_critical(daemon, other.waiter)
    one.do("go")
    time.sleep(0.5)
    assert not any(it["tid"] == one.holder for it in inherit(daemon)["threads"])
    one.do("give")


def test_no_thread_is_lifted_where_tekd_toml_forbids_it(inheriting, program):
    daemon = inheriting("locks = false\nanswers = false")
    one = program("private")
    assert daemon.client().ask(CRITICAL, one.waiter).error == 0
    before = scheduling(one.holder)
    one.do("go")
    time.sleep(0.5)
    assert scheduling(one.holder) == before and not inherit(daemon)["on"]
    one.do("give")


def test_a_server_that_never_answers_is_lifted_for_the_longest_wait_only(inheriting, program):
    daemon, one = inheriting("max_wait_ms = 200"), program("pipe")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    eventually(lambda: scheduling(one.holder) == before)
    eventually(lambda: inherit(daemon)["counts"]["too_long"] > 0)
    # The wait goes on, and the thread is not lifted again for it.
    time.sleep(0.5)
    assert scheduling(one.holder) == before
    one.do("give")
    # At the next question it is lifted again.
    waits_until_lifted(one, one.holder, priority - 1)
    one.do("give")


@pytest.mark.parametrize("mode", ["forged-private", "forged-shared"])
def test_a_lock_that_names_a_thread_of_another_process_lifts_nothing(inheriting, program, mode):
    daemon = inheriting()
    with subprocess.Popen(["sleep", "60"]) as victim:
        before = scheduling(victim.pid)
        one, other = program(mode, victim.pid), program("private")
        priority = make_critical(daemon, one.waiter)
        make_critical(daemon, other.waiter)
        waits_until_lifted(other, other.holder, priority - 1)  # so locks are watched now
        one.do("go")
        for _ in range(50):
            assert scheduling(victim.pid) == before
            time.sleep(0.02)
        assert not any(it["tid"] == victim.pid for it in inherit(daemon)["threads"])
        victim.kill()


def test_a_server_of_another_user_is_not_lifted(inheriting, program):
    daemon, one, other = inheriting(), program("other-user"), program("private")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    make_critical(daemon, other.waiter)
    waits_until_lifted(other, other.holder, priority - 1)
    one.do("go")
    for _ in range(25):
        assert scheduling(one.holder) == before
        time.sleep(0.02)
    eventually(lambda: inherit(daemon)["counts"]["not_allowed"] > 0)
    one.do("give")


def test_a_thread_that_is_real_time_by_itself_keeps_its_priority(inheriting, program):
    daemon, one = inheriting(), program("private")
    os.sched_setscheduler(one.holder, os.SCHED_FIFO, os.sched_param(3))
    make_critical(daemon, one.waiter)
    one.do("go")
    for _ in range(25):
        assert scheduling(one.holder)[:2] == (os.SCHED_FIFO, 3)
        time.sleep(0.02)
    one.do("give")


def test_a_lifted_thread_that_becomes_critical_gets_its_own_values_afterwards(inheriting, program):
    daemon, one = inheriting(), program("private")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    client = daemon.client()
    assert client.ask(CRITICAL, one.holder, priority=-20).error == 0
    assert is_lifted(one.holder, 49)
    one.do("give")
    assert is_lifted(one.holder, 49)
    assert client.ask(NORMAL, one.holder).error == 0
    eventually(lambda: scheduling(one.holder) == before)


def test_the_lift_ends_with_the_waiter(inheriting, program):
    daemon, one = inheriting(), program("shared")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    assert daemon.client().ask(NORMAL, one.waiter).error == 0
    eventually(lambda: scheduling(one.holder) == before)


def test_with_nothing_critical_no_program_of_the_kernel_is_attached(inheriting, program):
    daemon, one = inheriting(), program("private")
    assert daemon.attached() == 0
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    assert daemon.attached() > 0
    one.do("give")
    assert daemon.client().ask(NORMAL, one.waiter).error == 0
    eventually(lambda: daemon.attached() == 0)


def test_whenever_tekd_is_killed_no_thread_stays_lifted(inheriting, program):
    daemon, one = inheriting("max_wait_ms = 10000"), program("pipe")
    before = scheduling(one.holder)
    for _ in range(KILLS):
        priority = make_critical(daemon, one.waiter)
        waits_until_lifted(one, one.holder, priority - 1)
        daemon.process.kill()
        daemon.process.wait()
        assert is_lifted(one.holder, priority - 1)
        one.do("give")
        daemon.start()
        assert scheduling(one.holder) == before
