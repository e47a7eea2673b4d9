# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd itself: how it starts and stops, its configuration, its rights, and its reports."""
import errno
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

from conftest import eventually, read
from tekd_client import (CRITICAL, ENTER, EXPLAIN, HELLO, LEAVE, LEFT, NORMAL, STATUS, Closed,
                         is_fast, scheduling)
from tekd_daemon import UNIT, USUAL, Other, daemon, pytestmark, sleeps_as, tekd, thread

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names


def test_where_tekd_may_not_raise_limits_it_makes_each_switch_itself(daemon, as_nobody,
                                                                     open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start("[[grant]]\nusers = [65534]\nlimit = true\n",
                 prefix=["setpriv", "--bounding-set=-sys_resource"])
    with Other(daemon, prefix=as_nobody) as other:
        assert other.do("hello")["error"] == 0
        assert other.do("enter")["error"] == 0
        assert is_fast(other.tid)
        line, = [line for line in read(f"/proc/{other.tid}/limits").splitlines()
                 if "realtime priority" in line]
        assert line.split()[3:5] == ["0", "0"]
    daemon.logs("tekd goes on making each switch itself")


def test_a_trusted_program_may_switch_by_itself_where_tekd_may_raise_limits(daemon):
    client = daemon.start(USUAL + "limit = true\n").client()
    before = resource.getrlimit(resource.RLIMIT_RTPRIO)
    granted = client.ask(HELLO).value[0]
    if before[0] >= 50:
        assert granted == 3
    elif granted == 1:
        assert resource.getrlimit(resource.RLIMIT_RTPRIO) == before
        daemon.logs("CAP_SYS_RESOURCE")
    else:
        assert resource.getrlimit(resource.RLIMIT_RTPRIO)[0] == 50
        client.close()
        eventually(lambda: resource.getrlimit(resource.RLIMIT_RTPRIO) == before)


def test_a_clean_stop_gives_everything_back_and_leaves_no_file(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    assert tekd.end() == 0
    assert scheduling(thread) == before
    assert sorted(path.name for path in tekd.directory.iterdir()) == ["log", "tekd.toml"]


def test_what_a_killed_tekd_left_is_undone_by_restore(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    tekd.end(signal.SIGKILL)
    assert is_fast(thread)
    ended = subprocess.run(tekd.command("--restore"), capture_output=True, text=True, timeout=60,
                           check=False)
    assert ended.returncode == 0 and ended.stdout.startswith("1 changes were undone")
    assert scheduling(thread) == before
    assert not tekd.state.exists()


def test_what_a_killed_tekd_left_is_undone_by_the_next_one(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    tekd.end(signal.SIGKILL)
    tekd.start()
    assert scheduling(thread) == before
    assert tekd.client().ask(ENTER, thread).error == 0


def test_whenever_tekd_is_killed_everything_is_given_back(daemon):
    generator = random.Random(6)
    daemon.start(USUAL)
    with Other(daemon) as program:
        tids = [program.tid, threading.get_native_id()]
        before = [scheduling(tid) for tid in tids]
        for _ in range(50):
            client = daemon.client()
            end = time.monotonic() + generator.random() * 0.05
            killer = threading.Timer(end - time.monotonic(), daemon.process.kill)
            killer.start()
            try:
                while True:
                    kind, tid = generator.choice([(CRITICAL, program.tid), (NORMAL, program.tid),
                                                  (ENTER, tids[1]), (LEAVE, tids[1])])
                    client.ask(kind, tid, priority=generator.randrange(-20, 20)
                               if kind in (CRITICAL, ENTER) else 0)
            except Closed:
                pass
            daemon.process.wait(60)
            killer.join()
            if generator.random() < 0.5:
                subprocess.run(daemon.command("--restore"), timeout=60, check=True,
                               stdout=subprocess.DEVNULL)
                assert [scheduling(tid) for tid in tids] == before
                assert not daemon.state.exists()
            daemon.start()
            assert [scheduling(tid) for tid in tids] == before


def test_a_second_tekd_is_refused(tekd):
    ended = subprocess.run(tekd.command(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert str(tekd.process.pid) in ended.stderr
    assert tekd.client().ask(HELLO).error == 0


def test_a_configuration_is_read_again_and_a_bad_one_is_not(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    tekd.config.write_text("x = 1\n")
    tekd.process.send_signal(signal.SIGHUP)
    tekd.logs("tekd.toml:1:1")
    assert is_fast(thread) and client.ask(HELLO).error == 0
    tekd.config.write_text("grant = []\n")
    tekd.process.send_signal(signal.SIGHUP)
    left = client.notice()
    assert (left.kind, left.tid, left.error) == (LEFT, thread, errno.EPERM)
    assert not is_fast(thread)
    assert client.ask(ENTER, thread).error == errno.EPERM


def test_a_bad_configuration_is_reported_with_its_line(daemon):
    daemon.config.write_text("[[grant]]\nusers = [0]\nthread = 1\n")
    for options in [], ["--check"]:
        ended = subprocess.run(daemon.command(*options), capture_output=True, text=True, timeout=60,
                               check=False)
        assert ended.returncode == 1
        assert "tekd.toml:3:1: unknown field `thread`" in ended.stderr


def wake_ups(daemon):
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").glob("*/status")
    texts = filter(None, map(read, tasks))
    return sum(int(text.split("voluntary_ctxt_switches:")[1].split()[0]) for text in texts)


def test_tekd_sleeps_while_nothing_is_critical(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    assert client.ask(LEAVE, thread).error == 0
    # It stays awake for a second, and the canary's last run comes a little later.
    def sleeps():
        before = wake_ups(tekd)
        time.sleep(3)
        return wake_ups(tekd) == before

    time.sleep(1)
    eventually(sleeps)
    before = wake_ups(tekd)
    assert client.ask(ENTER, thread).error == 0
    eventually(lambda: wake_ups(tekd) > before + 10)


def test_the_capabilities_of_its_unit_are_enough(daemon, as_nobody, open_directory):
    line, = [line for line in UNIT.read_text().splitlines()
             if line.startswith("CapabilityBoundingSet=")]
    wanted = line.removeprefix("CapabilityBoundingSet=").lower().replace("cap_", "").split()
    own = int(read("/proc/self/status").split("CapBnd:")[1].split()[0], 16)
    missed = {"sys_resource": 24, "syslog": 34, "perfmon": 38, "bpf": 39}  # in some containers
    held = [f"+{name}" for name in wanted if name not in missed or own >> missed[name] & 1]
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(f'[[grant]]\nusers = [65534]\nprograms = ["{shutil.which("sleep")}"]\n' + USUAL,
                 prefix=["setpriv", "--bounding-set=" + ",".join(["-all", *held]),
                         "--no-new-privs"])
    another = subprocess.Popen([*as_nobody, "sleep", "60"])
    try:
        eventually(lambda: sleeps_as(another.pid, "sleep"))
        client = daemon.client()
        assert client.ask(CRITICAL, another.pid).error == 0
        assert is_fast(another.pid)
        assert client.ask(ENTER, threading.get_native_id()).error == 0
        assert client.json(EXPLAIN, another.pid)["has"]["policy"] == "SCHED_RR"
        assert client.json(STATUS)["hears_of_exec"]
        assert scheduling(daemon.process.pid)[1] == 51
    finally:
        another.kill()
        another.wait()
    assert daemon.end() == 0
    assert "not locked" not in daemon.log.read_text()
    assert not daemon.state.exists() and not daemon.socket.exists()


def test_tekd_outranks_those_it_serves(tekd):
    assert scheduling(tekd.process.pid)[:2] == (os.SCHED_FIFO | 0x40000000, 51)


def test_status_and_explain_show_which_client_asked(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread, priority=-20).error == 0
    status = client.json(STATUS)
    assert status["domain"] == [f"pid:{os.getpid()}"]
    fast, = status["fast"]
    assert (fast["tid"], fast["rt_priority"], fast["priority"]) == (thread, 49, -20)
    assert fast["asked"][0]["pid"] == os.getpid()
    about = client.json(EXPLAIN, thread)
    assert about["region"] == "fast" and about["has"]["policy"] == "SCHED_RR"
    assert about["grant"] == f"{tekd.config}:1"
    other = client.json(EXPLAIN, 1)
    assert other["region"] == "lazy" and "process 1" in other["outside_domain"]
    assert client.ask(EXPLAIN, 2**22 + 5).error == errno.ESRCH


def test_the_starter_is_notified(daemon):
    daemon.config.write_text(USUAL)
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(f"\0tekd-test-{os.getpid()}")
    ear.settimeout(60)
    daemon.start(env={**os.environ, "NOTIFY_SOCKET": f"@tekd-test-{os.getpid()}"})
    assert ear.recv(1000).startswith(b"READY=1")
    daemon.end()
    assert ear.recv(1000).startswith(b"STOPPING=1")
    ear.close()
