# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd under attack, and on a device that has run out of something."""
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from conftest import eventually, read
from paths import E2E
from tekd_client import ENTER, HELLO, LEAVE, LEFT, STATUS, THEN, is_fast, scheduling
from tekd_daemon import USUAL, Daemon, daemon, no_real_time_load, pytestmark, tekd, thread

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names


def python(program, *arguments, **options):
    """A process that runs this, with the names of tekd_client."""
    begin = "import sys\nsys.path.insert(0, sys.argv[1])\nfrom tekd_client import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", begin + program, str(E2E), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def end(process):
    process.kill()
    process.communicate(timeout=60)


# Grants


def test_a_process_that_connects_anew_has_no_more_switches_than_before(daemon, thread):
    daemon.start('[[grant]]\nusers = [0]\nrate = 1\nburst = 3\n')
    errors, begin = [], time.monotonic()
    for _ in range(3):
        client = daemon.client()
        errors += [client.ask(ENTER, thread).error for _ in range(2)]
        client.close()
        eventually(lambda: not is_fast(thread))
    # One a second more than these three.
    assert errors.count(0) <= 4 + time.monotonic() - begin, errors


def test_a_connection_is_worth_nothing_to_a_set_uid_program_that_is_executed_with_it(
        daemon, open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(USUAL)
    # As the user nobody; then root with the same connection, as a set-uid program would do.
    program = r"""
os.setresuid(65534, 65534, 0)
client = Client(sys.argv[2])
os.setresuid(0, 0, 0)
print(client.ask(HELLO).error, flush=True)
print(Client(sys.argv[2]).ask(HELLO).error, flush=True)
"""
    process = python(program, daemon.socket)
    try:
        assert int(process.stdout.readline()) == errno.EPERM
        assert int(process.stdout.readline()) == 0
    finally:
        end(process)


def test_a_process_that_leaves_the_domain_loses_what_it_had(tekd):
    program = r"""
client = Client(sys.argv[2])
tid = threading.get_native_id()
if os.fork():
    sys.stdin.readline()
    os._exit(0)
client = Client(sys.argv[2])
tid = threading.get_native_id()
print(client.ask(ENTER, tid).error, tid, flush=True)
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.01)
print(client.ask(ENTER, tid, priority=3).error, flush=True)
while is_fast(tid):
    time.sleep(0.01)
print("lost", flush=True)
time.sleep(60)
"""
    process = python(program, tekd.socket)
    try:
        error, tid = map(int, process.stdout.readline().split())
        assert error == 0
        process.stdin.write("\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) == errno.EPERM
        assert process.stdout.readline() == "lost\n"
    finally:
        end_tid(tid)
        process.wait(60)


def end_tid(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# Failures of tekd itself


@no_real_time_load
def test_a_process_that_stops_tekd_for_a_while_makes_no_alarm(daemon, thread):
    client = daemon.start("canary_seconds = 1\n" + USUAL).client()
    assert client.ask(ENTER, thread).error == 0
    for _ in range(2):
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(1.3)
        daemon.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
    assert client.json(STATUS)["canary"]["demoted"] == 0
    assert is_fast(thread)


def test_without_descriptors_everything_is_given_back_nevertheless(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    there = max(int(fd) for fd in os.listdir(f"/proc/{tekd.process.pid}/fd"))
    _, hard = resource.prlimit(tekd.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(tekd.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    assert there >= 3
    client.ask(LEAVE, thread)
    time.sleep(0.3)
    resource.prlimit(tekd.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    eventually(lambda: scheduling(thread) == before)


def test_a_thread_stays_critical_while_tekd_cannot_examine_it(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    _, hard = resource.prlimit(tekd.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(tekd.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    time.sleep(1)
    resource.prlimit(tekd.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert [fast["tid"] for fast in client.json(STATUS)["fast"]] == [thread]
    assert client.ask(LEAVE, thread).error == 0
    assert not is_fast(thread)


def test_another_range_of_priorities_is_in_force_at_once(daemon, thread):
    client = daemon.start("real_time = [10, 49]\n" + USUAL).client()
    assert client.ask(ENTER, thread, priority=-20).rt_priority == 49
    for high in 97, 5:
        daemon.config.write_text(f"real_time = [1, {high}]\n" + USUAL)
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda high=high: scheduling(thread)[1] == high)
        assert scheduling(daemon.process.pid)[1] == high + 2


@pytest.mark.parametrize("asked", [
    {"priority": -20},
    {"priority": 19, "until": 2**62, "flags": THEN, "then": -20},
], ids=["now", "later"])
def test_a_priority_that_is_granted_no_more_is_taken_back(daemon, thread, asked):
    client = daemon.start(USUAL).client()
    assert client.ask(ENTER, thread, **asked).error == 0
    daemon.config.write_text(USUAL + "priorities = [0, 19]\n")
    daemon.process.send_signal(signal.SIGHUP)
    left = client.notice()
    assert (left.kind, left.tid, left.error) == (LEFT, thread, errno.EPERM)
    assert not is_fast(thread)


def test_threads_that_ended_without_a_word_take_nobodys_place(daemon):
    client = daemon.start(USUAL + 'threads = 2\nbudget = "8s/10s"\n').client()
    errors = []
    for _ in range(10):
        ender = threading.Thread(target=lambda: errors.append(
            client.ask(ENTER, threading.get_native_id()).error))
        ender.start()
        ender.join()
    assert errors == [0] * 10


def test_a_process_whose_first_thread_has_ended_is_served(tekd):
    program = r"""
import ctypes
def live():
    time.sleep(0.3)
    client = Client(sys.argv[2])
    tid = threading.get_native_id()
    print(client.ask(ENTER, tid).error, is_fast(tid), flush=True)
    print(client.ask(LEAVE, tid).error, is_fast(tid), flush=True)
    os._exit(0)
threading.Thread(target=live).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    process = python(program, tekd.socket)
    try:
        assert process.stdout.readline() == "0 True\n"
        assert process.stdout.readline() == "0 False\n"
    finally:
        end(process)


# Starting


def test_a_socket_that_is_served_is_not_taken_from_its_server(tekd, tmp_path):
    another = Daemon(tmp_path / "another")
    another.directory.mkdir()
    another.config.write_text(USUAL)
    another.socket = tekd.socket
    ended = subprocess.run(another.command(), capture_output=True, text=True, timeout=60,
                           check=False)
    assert ended.returncode == 1 and "--socket" in ended.stderr
    assert tekd.client().ask(HELLO).error == 0
    assert not another.state.exists()


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, None])
def test_a_descriptor_that_is_no_socket_for_tekd_is_reported(daemon, kind):
    daemon.config.write_text(USUAL)
    given = socket.socket(socket.AF_UNIX, kind) if kind else open("/dev/null", "rb")
    if kind:
        given.bind(str(daemon.directory / "given"))
    command = 'exec 3<&$0; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"'
    with given:
        ended = subprocess.run(["bash", "-c", command, str(given.fileno()), *daemon.command()],
                               timeout=60,
                               capture_output=True, text=True, pass_fds=[given.fileno()],
                               check=False)
    assert ended.returncode == 1
    assert "SOCK_SEQPACKET" in ended.stderr
    assert not daemon.state.exists()


# Floods

FLOOD = r"""
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print("ready", flush=True)
end = time.monotonic() + 3
packet = request(STATUS, 1)
while time.monotonic() < end:
    flood = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        flood.connect(sys.argv[2])
        while sys.argv[3] == "ask" and time.monotonic() < end:
            flood.send(packet)
            flood.recv(4096)
    except OSError:
        pass
    flood.close()
"""


def cpu_seconds(pid):
    fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("what", ["ask", "connect"])
def test_a_user_cannot_keep_tekd_busy(daemon, open_directory, thread, what):
    daemon.socket = open_directory / "run" / "tekd"
    client = daemon.start(USUAL).client()
    floods = [python(FLOOD, daemon.socket, what) for _ in range(4)]
    try:
        for flood in floods:
            assert flood.stdout.readline() == "ready\n"
        time.sleep(0.5)
        before, begin = cpu_seconds(daemon.process.pid), time.monotonic()
        for _ in range(20):
            assert client.ask(ENTER, thread).error == 0
            assert client.ask(LEAVE, thread).error == 0
            time.sleep(0.1)
        # A tenth of a CPU, the cost of refusing them, and 40 switches; without a limit all of it.
        share = (cpu_seconds(daemon.process.pid) - before) / (time.monotonic() - begin)
        assert share < 0.5
    finally:
        for flood in floods:
            end(flood)
    eventually(lambda: daemon.serves() and daemon.answers())
