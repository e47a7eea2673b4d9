# SPDX-License-Identifier: MIT OR Apache-2.0
"""After responsiveness mode all that tekd changed is as before, whatever makes threads Fast."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import pytest
from conftest import eventually, read
from tekd_backends import CPUS, backend
from tekd_client import CRITICAL, ENTER, GROUP, LEAVE, NORMAL, PROCESS, scheduling
from tekd_daemon import daemon, thread
from tekd_daemon import pytestmark as of_tekd
from test_tekd_groups import BACKGROUND, SERVICE, URGENT, places_of

__all__ = ["backend", "daemon", "thread"]
pytestmark = [*of_tekd, pytest.mark.spread]


def here(directory):
    """The files of a control group with their text, but for counters and members."""
    counters = ("stat", ".pressure", ".procs", ".threads", ".events", ".current", ".peak",
                ".usage_percpu")
    files = [path for path in sorted(directory.iterdir()) if path.is_file()]
    usage = ("tasks", "cpuacct.usage")
    wanted = [path for path in files
              if not path.name.endswith(counters) and not path.name.startswith(usage)]
    return {path.name: read(path) for path in wanted}


def hierarchy_of_cpu():
    """The topmost control group below which ones with weights can be made; whether of version 1."""
    for line in read("/proc/self/mounts").splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return pathlib.Path(where), True
    for line in read("/proc/self/mounts").splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2" and "cpu" in read(f"{where}/cgroup.controllers").split():
            return pathlib.Path(where), False
    pytest.skip("there are no control groups with weights")
    return None


@pytest.fixture
def bases():
    """Two control groups beside each other, one of another weight than is usual on version 1."""
    topmost, is_v1 = hierarchy_of_cpu()
    above = topmost / f"tek-home-{os.getpid()}"
    two = [above / name for name in "ab"]
    for directory in above, *two:
        directory.mkdir()
    if is_v1:
        (two[1] / "cpu.shares").write_text("512")
    yield two
    for directory in *two, above:
        eventually(lambda directory=directory: not read(directory / "cgroup.procs"))
        directory.rmdir()


def process_in(root, *change):
    """A process in a control group, changed."""
    def become():
        if root:
            (root / "cgroup.procs").write_text("0")
        for function, *arguments in change:
            function(*arguments)
    return subprocess.Popen(["sleep", "60"], preexec_fn=become)


@pytest.fixture
def crowd(bases):
    """Processes in which all that tekd could change has a value of its own."""
    def policy(number, priority=0):
        return os.sched_setscheduler, 0, number, os.sched_param(priority)

    reset = 0x40000000
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
    crowd = [
        process_in(bases[0]),
        process_in(bases[0], policy(os.SCHED_OTHER | reset),
                   (os.setpriority, os.PRIO_PROCESS, 0, -3)),
        process_in(bases[1], policy(os.SCHED_BATCH), (os.setpriority, os.PRIO_PROCESS, 0, 7)),
        process_in(bases[1], policy(os.SCHED_IDLE), (os.sched_setaffinity, 0, CPUS[-1:])),
        process_in(None, policy(os.SCHED_FIFO, 60)),
        process_in(None, policy(os.SCHED_RR | reset, 5)),
        process_in(None, policy(os.SCHED_RR, 33),
                   (resource.setrlimit, resource.RLIMIT_RTPRIO, (0, limit))),
    ]
    yield [process.pid for process in crowd]
    for process in crowd:
        process.kill()
        process.wait()


def of_thread(tid):
    return {
        "scheduling": scheduling(tid),
        "affinity": os.sched_getaffinity(tid),
        "limits": read(f"/proc/{tid}/limits"),
        "groups": places_of(tid),
    }


def snapshot(pids, directories):
    """All that tekd could have changed, by thread and name."""
    tids = [int(tid) for pid in pids for tid in os.listdir(f"/proc/{pid}/task")]
    all_of_it = {(tid, what): value for tid in tids for what, value in of_thread(tid).items()}
    for directory in directories:
        all_of_it |= {(str(directory), name): text for name, text in here(directory).items()}
        # Other tests may have more groups at the same time.
        beneath = {one.name for one in directory.iterdir()
                   if one.is_dir() and str(os.getpid()) in re.findall("[0-9]+", one.name)}
        all_of_it[str(directory), "groups"] = beneath
    return all_of_it


def differences(before, after):
    return {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)}


def stir(backend, crowd, thread):
    """Makes changes of every kind; in the end all of them are reverted."""
    client = backend.daemon.client()
    with_groups = backend.name != "rt"
    for pid in crowd:
        client.ask(CRITICAL, pid, flags=PROCESS, priority=-7)
    assert client.ask(ENTER, thread, priority=3).error == 0
    if with_groups:
        for group, pid in zip((SERVICE, BACKGROUND, URGENT), crowd, strict=False):
            client.ask(GROUP, pid, flags=PROCESS, group=group)
    client.ask(CRITICAL, crowd[0], flags=PROCESS, priority=12)
    for pid in crowd[1:]:
        client.ask(NORMAL, pid, flags=PROCESS)
    assert backend.mode() == "responsiveness"
    time.sleep(0.3)
    return client


@pytest.fixture
def touched(bases):
    topmost, _ = hierarchy_of_cpu()
    return [topmost, bases[0].parent, *bases]


def test_after_the_mode_everybody_has_what_it_had_before(backend, crowd, thread, touched):
    client = backend.start()
    before = snapshot([*crowd, os.getpid()], touched)
    assert client.ask(ENTER, thread).error == 0
    for pid in crowd:
        client.ask(CRITICAL, pid, flags=PROCESS, priority=-20)
        client.ask(NORMAL, pid, flags=PROCESS)
    time.sleep(0.3)
    assert client.ask(LEAVE, thread).error == 0
    assert backend.mode() == "normal"
    assert not differences(before, snapshot([*crowd, os.getpid()], touched))


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def test_nothing_is_left_of_tekd(backend, crowd, thread, touched, end):
    before = snapshot([*crowd, os.getpid()], touched)
    backend.start()
    client = stir(backend, crowd, thread)
    assert differences(before, snapshot([*crowd, os.getpid()], touched))
    backend.daemon.end(end)
    client.close()
    if end == signal.SIGKILL:
        subprocess.run(backend.daemon.command("--restore"), timeout=60, check=True)
    assert not differences(before, snapshot([*crowd, os.getpid()], touched))
    assert not backend.daemon.state.exists()
