# SPDX-License-Identifier: MIT OR Apache-2.0
"""The meaning of responsiveness mode, whatever makes threads Fast: the same for each backend."""
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import pytest
from conftest import BUILD, eventually, needs, read
from paths import E2E
from tekd_backends import CPUS, backend, load
from tekd_client import CRITICAL, ENTER, LEAVE, NORMAL, STATUS, scheduling
from tekd_daemon import Other, daemon, thread
from tekd_daemon import pytestmark as of_tekd
from test_tekd_groups import group_of

__all__ = ["backend", "daemon", "load", "thread"]
pytestmark = [*of_tekd, pytest.mark.spread]

# No budget guard and no canary: only the floor holds then.
UNWATCHED = 'threads = 1024\nuser_threads = 1024\nbudget = "off"\n'


def spin(load, begin_ns, seconds):
    load.order(begin_ns, begin_ns + int(seconds * 1e9))


def spin_together(loads, seconds):
    """All of them spin at the same time; CPU time and longest gap in seconds, by tid."""
    begin = time.monotonic_ns() + 500_000_000
    for one in loads:
        spin(one, begin, seconds)
    spun = {}
    for one in loads:
        info = [number / 1e9 for number in one.numbers()]
        spun.update(zip(one.tids, zip(info[::2], info[1::2], strict=True), strict=True))
    return spun


# Response


@pytest.mark.alone()
def test_a_fast_thread_responds_as_if_it_were_alone(backend, load):
    client = backend.start()
    responder = load("respond", 10000, 9)

    def median_ms():
        responder.order("respond")
        return statistics.median(responder.numbers()) / 1000

    def is_to_be(kind):
        assert client.ask(kind, responder.tids[0]).error == 0

    is_to_be(CRITICAL)
    alone = median_ms()
    is_to_be(NORMAL)
    crowd = [load("spin", 5) for _ in range(4)]
    for hogs in crowd:
        spin(hogs, time.monotonic_ns(), 30)
    crowded = median_ms()
    is_to_be(CRITICAL)
    fast = median_ms()
    for hogs in crowd:
        hogs.close()
    # Other load of the machine may have changed since the first time.
    alone = max(alone, median_ms())
    is_to_be(NORMAL)
    print(f"median response: alone {alone:.1f} ms, beside 20 hogs {crowded:.1f} ms, fast "
          f"{fast:.1f} ms")
    assert fast < 2 * alone
    assert fast < crowded / 2


# Floor


def spin_with_fast_ones(backend, load, seconds):
    """Two Fast threads and two Lazy ones spin on each CPU: CPU time and gap of both, by CPU."""
    client = backend.start("canary_seconds = 0\n", UNWATCHED)
    cpus = ",".join(map(str, CPUS))
    fast, lazy = (load("spin", 2 * len(CPUS), cpus) for _ in range(2))
    for tid in fast.tids:
        assert client.ask(CRITICAL, tid).error == 0
        assert backend.is_fast(tid)
    spun = spin_together([lazy, fast], seconds)
    for tid in fast.tids:
        assert client.ask(NORMAL, tid).error == 0
    for at, cpu in enumerate(CPUS):
        those = [[spun[one.tids[n]] for n in (at, at + len(CPUS))] for one in (fast, lazy)]
        used = [sum(its[0] for its in two) for two in those]
        gaps = sorted(its[1] for its in those[1])
        print(f"CPU {cpu}: fast {used[0]:.2f} s, lazy {used[1]:.3f} s = "
              f"{100 * used[1] / sum(used):.1f} %, "
              f"longest gap of each {gaps[0]:.2f} and {gaps[1]:.2f} s")
        yield used[0], used[1], gaps[0]


def slices_of_the_kernel():
    """How often each of the kernel's threads has run."""
    stats = {pid: read(f"/proc/{pid}/schedstat").split() for pid in kernel_threads()}
    return {pid: int(stat[2]) for pid, stat in stats.items() if len(stat) > 2}


def kernel_threads():
    return [int(pid) for pid in read("/proc/2/task/2/children").split()]


@pytest.mark.alone()
def test_lazy_threads_of_each_cpu_go_on_while_fast_ones_are_always_runnable(backend, load):
    seconds = 4
    before = slices_of_the_kernel()
    for fast, lazy, gap in spin_with_fast_ones(backend, load, seconds):
        if backend.is_fair:
            assert 0.02 <= lazy / (fast + lazy) <= 0.08
        else:
            # All threads that are not real-time share the rest of the CPU, also other loads.
            assert 0.005 <= 1 - fast / seconds
            assert lazy > 0
        assert gap < 3
    after = slices_of_the_kernel()
    assert not before or any(after.get(pid, 0) > slices for pid, slices in before.items())


# Threads and processes that start and end


def those_of(pid):
    """All processes of a group."""
    stats = {one: read(f"/proc/{one}/stat").rpartition(") ")[2].split()
             for one in os.listdir("/proc") if one.isdigit()}
    return [int(one) for one, stat in stats.items() if len(stat) > 2 and int(stat[2]) == pid]


def threads_of(pid):
    tids = []
    for one in those_of(pid):
        with contextlib.suppress(OSError):
            tids += [int(tid) for tid in os.listdir(f"/proc/{one}/task")]
    return tids


def breed(load, milliseconds):
    """Starts and ends many threads and processes; returns the ids of those that stay."""
    load.order(milliseconds)
    born, ended, *stay = load.numbers()
    assert born == ended
    assert born >= 4
    load.orphans.append(stay[2])
    return stay


def is_lazy(backend, breeder, tid):
    """Whether a thread is an ordinary one, and in the group of ordinary ones."""
    expected = [None if backend.name == "rt" else "lazy/normal"]
    if backend.name == "rt-groups" and tid in breeder.orphans:
        # With RT_GROUP_SCHED it starts outside of the groups, and its parent is unknown.
        expected.append(None)
    return scheduling(tid) == (os.SCHED_OTHER, 0, 0) and group_of(tid) in expected


def all_are_lazy(backend, breeder, stay):
    tids = threads_of(breeder.pid)
    return set(stay) <= set(tids) and all(is_lazy(backend, breeder, tid) for tid in tids)


def test_a_process_that_is_born_of_a_fast_thread_is_not_fast(backend, load):
    client = backend.start(after=UNWATCHED)
    breeder = load("breed")
    assert client.ask(CRITICAL, breeder.tids[0]).error == 0
    stay = breed(breeder, 1000)
    own = breeder.tids[0]
    assert backend.is_fast(own)
    # Never by policy, even for a moment; a thread in the Fast group is moved back after a moment.
    eventually(lambda: not [tid for tid in threads_of(breeder.pid) if tid != own
                            and backend.is_fast(tid)])
    assert client.ask(NORMAL, own).error == 0
    eventually(lambda: all_are_lazy(backend, breeder, stay))


def test_a_process_that_is_born_just_before_the_mode_ends_is_in_its_group(backend, load):
    client = backend.start(after=UNWATCHED)
    breeder = load("breed")
    for _ in range(5):
        assert client.ask(CRITICAL, breeder.tids[0]).error == 0
        stay = breed(breeder, 1)
        assert client.ask(NORMAL, breeder.tids[0]).error == 0
        eventually(lambda stay=stay: all_are_lazy(backend, breeder, stay))


def test_lazy_threads_have_children_while_somebody_is_fast(backend, load, thread):
    client = backend.start(after=UNWATCHED)
    breeder = load("breed")
    assert client.ask(ENTER, thread).error == 0
    stay = breed(breeder, 1000)
    assert all_are_lazy(backend, breeder, stay)
    assert client.ask(LEAVE, thread).error == 0
    assert all_are_lazy(backend, breeder, stay)


def test_real_time_threads_that_wait_have_children(backend, load, thread):
    breeder = load("breed")
    for tid in threads_of(breeder.pid):
        os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(40))
    client = backend.start(after=UNWATCHED)
    assert client.ask(ENTER, thread).error == 0
    lowered = (os.SCHED_RR, 40 if backend.is_fair else 9)
    eventually(lambda: all(scheduling(tid)[:2] == lowered for tid in threads_of(breeder.pid)))
    stay = breed(breeder, 1000)
    assert not [tid for tid in threads_of(breeder.pid) if scheduling(tid)[:2] != lowered]
    assert client.ask(LEAVE, thread).error == 0
    assert stay[2] in threads_of(breeder.pid)  # an orphan
    eventually(lambda: all(scheduling(tid)[:2] == (os.SCHED_RR, 40)
                           for tid in threads_of(breeder.pid)))


@pytest.mark.parametrize("how", ["die", "exec"])
def test_a_fast_thread_that_ends_takes_the_mode_with_it(backend, load, how):
    client = backend.start(after=UNWATCHED)
    breeder = load("breed")
    assert client.ask(CRITICAL, breeder.tids[0]).error == 0
    stay = breed(breeder, 100)
    breeder.order(how)
    eventually(lambda: backend.mode() == "normal")
    if how == "exec":
        stay = [breeder.pid, *stay[1:]]
    eventually(lambda: all_are_lazy(backend, breeder, stay))

    def has_no_thread():
        # The kernel counts a thread that has ended until a CPU has left it.
        groups = client.json(STATUS)["groups"]
        return groups is None or groups["fast"]["threads"] == 0

    eventually(has_no_thread)


# Nested


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("by", ["leave", "kill"])
def test_the_mode_ends_with_the_last_of_two_processes(backend, load, order, by):
    breeder = load("breed")
    os.sched_setscheduler(breeder.pid, os.SCHED_FIFO, os.sched_param(50))
    client = backend.start()
    status = client.json(STATUS)
    with Other(backend.daemon) as one, Other(backend.daemon) as other:
        two = (one, other)
        for each in two:
            assert each.do("enter")["error"] == 0
        for at in order:
            eventually(lambda: backend.mode() == "responsiveness"
                       and is_in_force(backend, breeder.pid))
            if by == "leave":
                assert two[at].do("leave")["error"] == 0
            else:
                two[at].process.kill()
        eventually(lambda: backend.mode() == "normal")
        eventually(lambda: not is_in_force(backend, breeder.pid))
    assert status["mode"] == "normal"


def is_in_force(backend, real_time):
    """Whether the Lazy Region waits."""
    if backend.is_fair:
        return backend.daemon.client().json(STATUS)["groups"]["entered"]
    return scheduling(real_time)[:2] == (os.SCHED_FIFO, 9)


# Any number of threads


# Has so many threads; for each line that arrives, sends that request for its first thread.
MANY = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from tekd_client import Client, ENTER, LEAVE
threading.stack_size(65536)
stop = threading.Event()
for _ in range(int(sys.argv[3])):
    threading.Thread(target=stop.wait, daemon=True).start()
print(flush=True)
client = None
for line in sys.stdin:
    client = client or Client(sys.argv[2])
    answer = client.ask({"enter": ENTER, "leave": LEAVE}[line.strip()], threading.get_native_id())
    print(answer.error, flush=True)
"""


def steps_of(trace):
    """The system calls that served each request: names and times in seconds, by loop iteration."""
    step, steps = [], []
    for line in trace.splitlines():
        name = line.partition("(")[0]
        if name == "epoll_wait":
            names = [one for one, _ in step]
            if "recvmsg" in names and "sendmsg" in names:
                steps.append(step)
            step = []
        elif name.isidentifier() and line.endswith(">") and "..." not in line[-20:]:
            step.append((name, float(line.rpartition("<")[2].rstrip(">"))))
    return steps


class Traced:
    """strace of tekd's first thread, which serves all clients."""

    def __init__(self, daemon):
        self.out = daemon.directory / "trace"
        command = [needs("strace"), "-T", "-o", self.out, "-p", str(daemon.process.pid)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        line = self.process.stderr.readline()
        if "attached" not in line:
            self.process.wait()
            pytest.skip(f"strace cannot look on here: {line}")
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process.stderr.close()


def without_further_reads(names):
    """A file of /proc that is a byte longer, by a longer number, may take one more read."""
    return [name for before, name in zip(["", *names], names) if (before, name) != ("read", "read")]


def count_calls(backend, threads, pairs=8):
    """tekd's system calls for ENTER and for LEAVE, with so many Lazy threads in the process."""
    arguments = [str(E2E), str(backend.daemon.socket), str(threads)]
    with subprocess.Popen([sys.executable, "-c", MANY, *arguments], stdin=subprocess.PIPE,
                          text=True,
                          stdout=subprocess.PIPE,
                          env={**os.environ, "TEK_BUILD": str(BUILD)}) as many:
        def do(*orders):
            for order in orders:
                print(order, file=many.stdin, flush=True)
                assert many.stdout.readline() == "0\n"

        try:
            assert many.stdout.readline() == "\n"
            assert len(os.listdir(f"/proc/{many.pid}/task")) > threads
            backend.start()  # so that each of them had to be placed
            do(*("enter", "leave") * 2)
            eventually(backend.daemon.has_loaded)
            with Traced(backend.daemon) as traced:
                # The last ones may be cut off.
                do(*("enter", "leave") * (pairs + 1))
            backend.daemon.end()
        finally:
            many.kill()
    steps = steps_of(traced.out.read_text())[:2 * pairs]
    assert len(steps) == 2 * pairs
    info = {}
    for what, those in ("enter", steps[::2]), ("leave", steps[1::2]):
        # Whether tekd sets the timer depends on its other work, such as a scan of all threads.
        steps_by_name = ([name for name, _ in step if name != "timerfd_settime"] for step in those)
        names = without_further_reads(min(steps_by_name, key=len))
        took = statistics.median(sum(took for _, took in step) for step in those)
        print(f"{threads} threads, {what}: {len(names)} system calls, {1e6 * took:.0f} us in them "
              "under strace")
        info[what] = names
    return info


@pytest.mark.alone()
def test_entering_and_leaving_need_as_many_system_calls_with_2000_threads_as_with_20(backend):
    many, few = (count_calls(backend, threads) for threads in (2000, 20))
    for what, calls in many.items():
        assert " ".join(calls) == " ".join(few[what]), what


# Kernel threads


def test_threads_of_the_kernel_stay_beside_a_group_of_the_usual_weight(backend, thread):
    kernel = {pid: read(f"/proc/{pid}/cgroup") for pid in kernel_threads()}
    client = backend.start()
    groups_there = client.json(STATUS)["groups"]
    assert client.ask(ENTER, thread).error == 0
    now = {pid: read(f"/proc/{pid}/cgroup") for pid in kernel}
    assert {pid: now[pid] for pid in now if now[pid]} == {pid: kernel[pid] for pid in now
                                                          if now[pid]}
    if groups_there:
        top = pathlib.Path(groups_there["top"])
        weights = [read(top / name).strip() for name in ("cpu.weight", "cpu.shares")]
        assert [weight for weight in weights if weight] in (["100"], ["1024"])
