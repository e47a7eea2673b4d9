# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel threads follow the tasks that wait for them, and else have their own scheduling."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import eventually, names_of, read
from tekd_client import CRITICAL, STATUS
from tekd_daemon import UNIT, Daemon
from tekd_daemon import pytestmark as of_tekd

pytestmark = [*of_tekd, pytest.mark.alone("kernel threads")]  # of which there is one set

GRANT = '[[grant]]\nusers = ["root"]\n'
# SCHED_RESET_ON_FORK: processes that tekd starts are not real-time.
FOLLOWING = (os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 98)
KILLS = int(os.environ.get("TEK_KILLS", "10"))

# PRIORITY PERIOD_S FILE: a task of that priority (0: an ordinary one) that queues work for the
# kernel's workers, and now and then writes to a file; it ends with its standard input.
TASK = r"""
import os, pty, select, sys, tty
priority, period, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
master, slave = pty.openpty()
tty.setraw(slave)
file = os.open(path, os.O_CREAT | os.O_WRONLY)
if priority:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
print("ready", flush=True)
count = 0
while not select.select([0], [], [], period)[0]:
    os.write(master, b"x")  # what is written is handed on by a worker
    os.read(slave, 1)
    if count % 20 == 0:
        os.pwrite(file, b"y" * 4096, count % 1000 * 4096)
    count += 1
"""


def scheduling(tid):
    return (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority,
            os.getpriority(os.PRIO_PROCESS, tid))


def kernel_threads():
    """tid and name -> policy, priority and nice, of all kernel threads."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = path.read_text().split(" (", 1)
            fields = rest.rsplit(") ", 1)[1].split()
            if fields[1] == "2" or pid == "2":
                found[int(pid), fields[19]] = scheduling(int(pid))
        except (OSError, ValueError):
            pass
    return found


def differences(before):
    after = kernel_threads()
    return {tid: (before[tid], after[tid]) for tid in before.keys() & after.keys()
            if before[tid] != after[tid]}


def is_messenger(pid):
    """Whether tekd needs the thread for its events, and raises it while tekd runs: PREEMPT_RT."""
    return read(f"/proc/{pid}/comm").startswith("irq_work/")


def all_have_their_own(before):
    """Whether all but those threads have their own scheduling."""
    return all(is_messenger(pid) for pid, _ in differences(before))


@pytest.fixture
def state():
    """In memory where that is possible: the tasks of these tests wait for the disk."""
    memory = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tek-test-", dir=memory))
    yield directory / "state"
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def following(tmp_path, state):
    """Starts a tekd that has kernel threads follow, if this machine allows it."""
    daemon = Daemon(tmp_path)
    daemon.state = state

    def start(more="", grants=GRANT):
        daemon.start(f'backend = "rt"\nprotected = []\n[kthreads]\n{more}\n{grants}')
        info = daemon.client().json(STATUS)["kthreads"]
        if not info["on"]:
            pytest.skip(f"kernel threads cannot follow here: {info['why']}")
        return daemon
    yield start
    if daemon.process and daemon.process.poll() is None:
        assert daemon.end() == 0


class Task:
    def __init__(self, path, priority=20, period=0.002):
        arguments = [str(priority), str(period), str(path / f"file-{priority}")]
        self.process = subprocess.Popen([sys.executable, "-c", TASK, *arguments],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def task(tmp_path):
    tasks = []

    def start(**options):
        tasks.append(Task(tmp_path, **options))
        return tasks[-1]
    yield start
    for one in tasks:
        one.end()


def served(daemon, tid):
    """Kernel threads that a task waits for or has just waited for, from tekd's report."""
    threads = daemon.client().json(STATUS)["kthreads"]["threads"]
    return [thread for thread in threads
            if any(member["tid"] == tid for member in thread["members"])]


def test_a_worker_follows_the_real_time_task_whose_work_it_does_and_has_its_own_again_afterwards(
        following, task):
    before = kernel_threads()
    daemon = following()
    writer = task(priority=20)
    seen = {}

    def follows():
        for thread in served(daemon, writer.pid):
            if thread["class"] == "worker" and thread["priority"]:
                seen.update(thread, real=scheduling(thread["tid"]))
        return bool(seen)
    eventually(follows)
    assert (seen["priority"], seen["weight"], seen["highest"]) == (16, 0.8, 20)
    # The last reason counts: its work, or all work for storage while it sleeps in the kernel.
    assert seen["members"][0]["waits_for"].startswith(("its ", "what the kernel does for storage"))
    writer.end()
    eventually(lambda: not served(daemon, writer.pid))
    eventually(lambda: all_have_their_own(before))
    counts = daemon.client().json(STATUS)["kthreads"]["counts"]
    assert counts["lost"] == 0 and counts["changes"] > 0
    assert daemon.end() == 0
    assert not differences(before)


def test_nobody_follows_an_ordinary_task(following, task):
    daemon = following()
    writer = task(priority=0)
    time.sleep(1)
    info = daemon.client().json(STATUS)["kthreads"]
    assert not served(daemon, writer.pid)
    assert info["counts"]["changes"] == 0


def test_nobody_follows_a_task_outside_the_domain(tmp_path, state, task):
    apart = subprocess.Popen(["sleep", "60"])
    daemon = Daemon(tmp_path)
    daemon.state, daemon.domain = state, f"pid:{apart.pid}"
    try:
        daemon.start(f'backend = "rt"\nprotected = []\n[kthreads]\n{GRANT}')
        writer = task(priority=20)
        time.sleep(1)
        assert not served(daemon, writer.pid)
        assert daemon.client().json(STATUS)["kthreads"]["counts"]["changes"] == 0
        assert daemon.end() == 0
    finally:
        apart.kill()
        apart.wait()


def test_a_class_that_is_off_stays_what_it_is(following, task):
    daemon = following('off = ["worker", "writeback"]')
    writer = task(priority=20)
    eventually(lambda: served(daemon, writer.pid))
    time.sleep(0.3)
    assert all(thread["priority"] is None for thread in served(daemon, writer.pid)
               if thread["class"] in ("worker", "writeback"))


def test_other_settings_come_into_force_when_they_are_read_anew(following, task):
    daemon = following()
    writer = task(priority=20)
    follow = lambda: [thread["priority"] for thread in served(daemon, writer.pid)
                      if thread["class"] == "worker"]
    eventually(lambda: 16 in follow())
    text = daemon.config.read_text()
    daemon.config.write_text(text.replace("[kthreads]", "[kthreads]\nmethod = \"plain\""))
    daemon.process.send_signal(signal.SIGHUP)
    eventually(lambda: 20 in follow())


def test_many_tasks_that_come_and_go_leave_nothing_behind(following, task):
    before = kernel_threads()
    daemon = following()
    for round_ in range(5):
        tasks = [task(priority=10 + n, period=0.001) for n in range(4)]
        time.sleep(0.2)
        for one in tasks[round_ % 2:]:
            one.end()
    time.sleep(0.2)
    for thread in daemon.client().json(STATUS)["kthreads"]["threads"]:
        assert all(member["name"] for member in thread["members"]), thread
    assert daemon.client().json(STATUS)["kthreads"]["counts"]["dropped"] >= 0
    daemon.end()
    eventually(lambda: not differences(before))


def test_whenever_tekd_is_killed_no_kernel_thread_is_left_at_another_priority(following,
                                                                              task, state):
    before = kernel_threads()
    daemon = following()
    writers = [task(priority=priority, period=0.001) for priority in (20, 35)]
    generator = random.Random(7)
    for _ in range(KILLS):
        time.sleep(generator.random() / 20)
        daemon.process.kill()
        daemon.process.wait()
        restored = subprocess.run([daemon.command()[0], "--restore", "--state", str(state)],
                                  check=True,
                                  capture_output=True, text=True, timeout=60)
        assert "undone" in restored.stdout or "to be restored" in restored.stdout
        assert not differences(before), restored.stdout
        daemon.start()
    for writer in writers:
        writer.end()
    eventually(lambda: all_have_their_own(before))
    assert daemon.end() == 0
    assert not differences(before)


def test_the_capabilities_of_its_unit_are_enough(tmp_path, state, task):
    line, = [line for line in UNIT.read_text().splitlines()
             if line.startswith("CapabilityBoundingSet=")]
    wanted = line.removeprefix("CapabilityBoundingSet=").lower().replace("cap_", "").split()
    own = int(pathlib.Path("/proc/self/status").read_text().split("CapBnd:")[1].split()[0], 16)
    held = [f"+{name}" for name in wanted if name != "sys_resource" or own >> 24 & 1]
    daemon = Daemon(tmp_path)
    daemon.state = state
    daemon.start(f'backend = "rt"\nprotected = []\n[kthreads]\n{GRANT}',
                 prefix=["setpriv", "--bounding-set=" + ",".join(["-all", *held]),
                         "--no-new-privs"])
    try:
        info = daemon.client().json(STATUS)["kthreads"]
        assert info["on"], info
        writer = task(priority=20)
        eventually(lambda: any(thread["priority"] for thread in served(daemon, writer.pid)))
    finally:
        assert daemon.end() == 0


def test_without_the_right_to_load_programs_tekd_reports_that_and_serves(tmp_path, state, task):
    before = kernel_threads()
    daemon = Daemon(tmp_path)
    daemon.state = state
    daemon.start(f'backend = "rt"\nprotected = []\n[kthreads]\n{GRANT}',
                 prefix=["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--no-new-privs"])
    try:
        client = daemon.client()
        info = client.json(STATUS)["kthreads"]
        assert not info["on"]
        daemon.logs(info["why"])
        assert "CAP_BPF" in info["why"], info["why"]
        writer = task(priority=20)
        assert client.ask(CRITICAL, writer.pid).error == 0
    finally:
        assert daemon.end() == 0
    assert not differences(before) and not state.exists()


def test_the_threads_that_make_them_follow_are_above_all_and_on_different_cpus(following):
    daemon = following()

    def threads():
        named = sorted((name, tid) for tid, name in names_of(daemon.process.pid).items())
        return [tid for name, tid in named if name.startswith("kthreads")]
    # Each names itself when it begins to run.
    eventually(lambda: len(threads()) == min(2, len(os.sched_getaffinity(0))))
    eventually(lambda: all(scheduling(tid)[:2] == FOLLOWING for tid in threads()))
    cpus = [os.sched_getaffinity(tid) for tid in threads()]
    assert not set.intersection(*cpus) or len(cpus) == 1

    text = daemon.config.read_text()
    daemon.config.write_text(text.replace("[kthreads]", "[kthreads]\npriority = 70"))
    daemon.process.send_signal(signal.SIGHUP)
    # The second one learns of it with the next event.
    eventually(lambda: scheduling(threads()[0])[1] == 70)


def test_the_thread_that_attaches_programs_stays_below_tekds_main_thread(following, task):
    daemon = following()

    def is_below():
        tids = {name: tid for tid, name in names_of(daemon.process.pid).items()}
        main = scheduling(daemon.process.pid)[1]
        return "hot-paths" in tids and scheduling(tids["hot-paths"])[1] == main - 1

    eventually(is_below)
    text = daemon.config.read_text()
    daemon.config.write_text("real_time = [10, 39]\n" + text)
    daemon.process.send_signal(signal.SIGHUP)
    eventually(lambda: scheduling(daemon.process.pid)[1] == 41)
    # It attaches programs for the task, with its new priority.
    task(priority=20)
    eventually(is_below)


def test_at_rest_it_sleeps(following, task):
    daemon = following()
    writer = task(priority=20)
    eventually(lambda: served(daemon, writer.pid))
    writer.end()

    def sleeps():
        before = switches(daemon)
        time.sleep(2)
        return switches(daemon) == before
    eventually(sleeps)  # after some 10 s, when programs on hot paths are detached


def switches(daemon):
    """How often tekd's threads have run."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()
    lines = [line for task in tasks for line in read(task / "status").splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
