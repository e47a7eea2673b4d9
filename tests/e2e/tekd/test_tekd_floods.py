# SPDX-License-Identifier: MIT OR Apache-2.0
"""Users without a grant, alone and many, cannot take tekd's time, its connections or its threads
from users with one. SECURITY.md names the bounds."""
import collections
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import pytest
from conftest import PATIENCE, eventually, read
from paths import ABI, PROGRAMS
from tekd_client import CRITICAL, STATUS
from tekd_daemon import daemon, pytestmark
from test_tekd_groups import groups
from test_tekd_heirs import group

assert daemon and group and pytestmark  # which pytest finds by their names

SOURCE = (PROGRAMS / "flood.c").read_text()
GRANTED, OTHER, FIRST_STRANGER = 54_321, 54_322, 60_000
TERMS = 'rate = 1000\nbudget = "8s/10s"\nthreads = 512\n'
PEERS = [OTHER + n for n in range(6)]
GRANT = f"[[grant]]\nusers = {[GRANTED, *PEERS]}\n{TERMS}"
ASKS = 400
FLOODERS = 10
# Shares of a CPU: users with grants 1/4, other users 1/64, new connections 1/50, programs to be
# placed 1/128, events of programs 1/100, new processes 1/20, and bursts; the measured client uses a
# part of the first.
MOST_SHARE = 0.45
# Ratio of the 99th percentile of a response to that of a quiet device. The kernel and other
# programs contribute to it.
MOST_RATIO = 4


class Flooded:
    """A tekd, programs/flood.c and its processes."""

    def __init__(self, daemon, program):
        self.daemon = daemon
        self.program = str(program)
        self.floods = []
        self.before_rest = ["chrt", "-f", "5"]
        self.info = ""

    def command(self, kind, uid, amount):
        return [self.program, str(self.daemon.socket), kind, str(uid), str(amount)]

    def flood(self, kind, uids, seconds=60):
        for uid in uids:
            process = subprocess.Popen(self.command(kind, uid, seconds), stdout=subprocess.PIPE,
                                       stdin=subprocess.DEVNULL, text=True)
            self.floods.append(process)
            assert process.stdout.readline() == "ready\n"

    def end_floods(self):
        while self.floods:
            process = self.floods.pop()
            process.kill()
            process.communicate(timeout=60)

    def ask(self, uid=GRANTED, count=ASKS):
        """The 99th percentiles of the response times of tekd and of an equally urgent server that
        does nothing, in ns. The client is real-time by itself: it must not wait for the flood."""
        ended = subprocess.run([*self.before_rest, *self.command("ask", uid, count)],
                               capture_output=True,
                               text=True, timeout=60 * PATIENCE, check=False)
        assert ended.returncode == 0, ended.stderr
        median, p99, _, echo, refused = map(int, ended.stdout.split())
        assert refused == 0
        self.info = f"median {median / 1e3:.0f} us, p99 {p99 / 1e3:.0f}, echo's {echo / 1e3:.0f}"
        return p99, echo

    def cpu_ns(self):
        tasks = pathlib.Path(f"/proc/{self.daemon.process.pid}/task")
        texts = filter(None, (read(task / "schedstat") for task in tasks.iterdir()))
        return sum(int(text.split()[0]) for text in texts)


@contextlib.contextmanager
def holding(flooded, uid, count, group=None):
    """A connected process in this control group with so many critical threads; how many it got."""
    command = flooded.command("hold", uid, count)
    if group:
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *command]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=60)


@contextlib.contextmanager
def echo(flooded, groups=0):
    """A server with tekd's urgency and CPU time; it moves a process between these groups."""
    serves = subprocess.Popen(["chrt", "-f", "51", *flooded.command("echo", 0, groups)],
                              stdout=subprocess.PIPE,
                              text=True)
    try:
        assert serves.stdout.readline() == "ready\n"
        yield
    finally:
        serves.kill()
        serves.communicate(timeout=60)


@contextlib.contextmanager
def two_groups():
    """Two control groups of the hierarchy that has CPU time."""
    tops = map(pathlib.Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"))
    top = next((top for top in tops if (top / "cgroup.procs").exists()), None)
    if top is None:
        pytest.skip("no control groups here")
    two = [top / f"tek-test-moves-{os.getpid()}-{number}" for number in (1, 2)]
    for path in two:
        path.mkdir()
    try:
        yield ":".join(map(str, two))
    finally:
        for path in two:
            eventually(lambda path=path: not read(path / "cgroup.procs"))
            path.rmdir()


@pytest.fixture
def flooded(daemon, compile_c, open_directory):
    daemon.socket = open_directory / "tekd"
    program = compile_c(SOURCE, "cc", "-O1", "-pthread", "-I", str(ABI))
    flooded = Flooded(daemon, program)
    with echo(flooded):
        yield flooded
        flooded.end_floods()


def judge(flooded, kind, uids, most_ratio=MOST_RATIO):
    """Compares the responses beside a flood with those before it, and with the kernel's own time
    for a response beside it, in the same run."""
    info = []
    for _ in range(3):
        flooded.ask(count=20)
        quiet, _ = flooded.ask()
        info.append(f"{kind}: quiet: {flooded.info};")
        flooded.flood(kind, uids)
        time.sleep(0.3)
        before, begin = flooded.cpu_ns(), time.monotonic()
        p99, echo = flooded.ask()
        share = (flooded.cpu_ns() - before) / 1e9 / (time.monotonic() - begin)
        flooded.end_floods()
        info[-1] += f" flooded: {flooded.info}; tekd used {share:.1%} of a CPU"
        if share < MOST_SHARE and p99 < most_ratio * max(quiet, echo):
            break
    else:
        pytest.fail("\n".join(info))
    print(*info, sep="\n")


KINDS = ["hello", "enter", "status", "explain", "group", "nonsense", "connect", "reconnect", "half",
         "keep", "exec",
         "fork", "sibling", "threads", "user"]


@pytest.mark.alone("real-time load")
@pytest.mark.parametrize("kind", KINDS)
def test_beside_a_flood_of_users_without_a_grant_a_granted_one_is_answered_as_before(flooded, kind):
    flooded.daemon.start(GRANT)
    judge(flooded, kind, range(FIRST_STRANGER, FIRST_STRANGER + FLOODERS))


@pytest.mark.alone("real-time load")
@pytest.mark.parametrize("kind", ["switch", "hello", "status", "threads"])
def test_beside_a_flood_of_another_granted_user_a_granted_one_is_answered_as_before(flooded, kind):
    flooded.daemon.start(GRANT)
    judge(flooded, kind, [OTHER] * 4)


@pytest.mark.alone("real-time load")
@pytest.mark.parametrize("kind", ["hello", "nonsense"])
def test_beside_a_flood_of_several_granted_users_another_one_waits_for_few_messages(flooded, kind):
    """They use the whole share of all users with grants, so that there are pauses."""
    flooded.daemon.start(GRANT)
    judge(flooded, kind, PEERS, most_ratio=12)


@pytest.mark.alone("real-time load")
@pytest.mark.parametrize("kind", ["exec", "group"])
def test_executed_programs_that_are_to_be_placed_take_little_time(flooded, kind):
    places = f'[[place]]\ngroup = "background"\nusers = [{FIRST_STRANGER}]\n'
    # Groups of version 1 may have no real-time runtime.
    flooded.before_rest = ["nice", "-n", "-20"]
    # tekd moves the thread. The kernel makes a move wait for programs that are being executed.
    with two_groups() as two, echo(flooded, two):
        flooded.daemon.start(groups(places=places) + GRANT)
        status = flooded.daemon.client().json(STATUS)
        if status["groups"] is None:
            pytest.skip(f"no control groups here: {status['groups_why']}")
        judge(flooded, kind, range(FIRST_STRANGER, FIRST_STRANGER + FLOODERS))


@pytest.mark.alone("real-time load")
@pytest.mark.parametrize("kind", ["fork", "sibling", "threads", "exec"])
def test_births_that_are_listened_to_take_little_time(flooded, group, kind):
    flooded.daemon.start('backend = "rt"\n' + GRANT)
    # Critical threads outside of their control group. Each fork once cost three reads of /proc for
    # each process.
    with contextlib.ExitStack() as away:
        for _ in range(20):
            assert away.enter_context(holding(flooded, GRANTED, 1, group)) == 1
        judge(flooded, kind, range(FIRST_STRANGER, FIRST_STRANGER + FLOODERS))
    eventually(lambda: not (group / "tasks").read_text())


@pytest.mark.alone("real-time load")
def test_children_of_a_process_with_a_raised_limit_take_little_time(flooded):
    flooded.daemon.start(GRANT + "limit = true\n")
    judge(flooded, "heirs", [OTHER] * 4)


def test_a_user_gets_its_part_of_the_threads_though_other_users_have_taken_all(flooded):
    flooded.daemon.start(f'[[grant]]\nusers = ["*"]\n{TERMS}user_threads = 32\n')
    with contextlib.ExitStack() as holds:
        held = [holds.enter_context(holding(flooded, FIRST_STRANGER + n, 32)) for n in range(33)]
        # 1,024 places in all: the users before have lost some for the last one.
        assert held[:32] == [32] * 32 and held[32] >= 31
        assert holds.enter_context(holding(flooded, GRANTED, 20)) == 20
        status = flooded.daemon.client().json(STATUS)
    counts = collections.Counter(thread["uid"] for thread in status["fast"])
    assert counts.total() == 1024 and counts[GRANTED] == 20
    assert min(counts[FIRST_STRANGER + n] for n in range(33)) >= 28


def test_a_thread_that_two_users_need_is_not_taken_to_make_room(flooded):
    flooded.daemon.start(f'[[grant]]\nusers = ["*"]\n{TERMS}user_threads = 1024\n')
    root = flooded.daemon.client()
    with contextlib.ExitStack() as holds:
        for n in range(32):
            assert holds.enter_context(holding(flooded, FIRST_STRANGER + n, 32)) == 32
        for thread in root.json(STATUS)["fast"]:
            if thread["uid"] != FIRST_STRANGER:
                assert root.ask(CRITICAL, thread["tid"], priority=19).error == 0
        assert holds.enter_context(holding(flooded, GRANTED, 5)) == 5
        counts = collections.Counter(thread["uid"] for thread in root.json(STATUS)["fast"])
    assert counts.total() == 1024
    assert (counts[FIRST_STRANGER], counts[GRANTED]) == (27, 5)


def test_a_user_without_a_grant_is_served_beside_ten_that_flood(flooded):
    flooded.daemon.start(GRANT)
    flooded.flood("hello", range(FIRST_STRANGER, FIRST_STRANGER + FLOODERS))
    command = flooded.command("nonsense", FIRST_STRANGER + 500, 1)
    served = subprocess.run(command, capture_output=True, text=True, timeout=60 * PATIENCE,
                            check=True)
    assert int(served.stdout.split()[-1]) > 0
    eventually(lambda: flooded.daemon.client().json(STATUS)["counts"]["refused"] > 100)


def test_new_clients_are_accepted_though_tekd_was_stopped_in_a_flood_of_connections(flooded):
    """tekd accepts no connections for a moment when they have used their share. Where that moment
    had passed before its timer was set, it accepted none any more."""
    flooded.daemon.start(GRANT)
    tekd, kind = flooded.daemon.process, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
    for _ in range(40):
        end, count = time.monotonic() + 0.25, 0
        while time.monotonic() < end:
            with socket.socket(socket.AF_UNIX, kind) as client:
                with contextlib.suppress(BlockingIOError):  # the queue of connections is full
                    client.connect(str(flooded.daemon.socket))
            count += 1
            if count % 50 == 0:
                tekd.send_signal(signal.SIGSTOP)
                time.sleep(random.uniform(0, 0.004))
                tekd.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        assert "counts" in flooded.daemon.client().json(STATUS)
