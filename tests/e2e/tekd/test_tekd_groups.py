# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd places all processes that it may change in groups, and moves them back."""
import errno
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest
from conftest import eventually
from tekd_client import CRITICAL, ENTER, EXPLAIN, GROUP, LEAVE, NORMAL, PROCESS, STATUS, scheduling
from tekd_daemon import USUAL, Other, daemon, pytestmark, thread

__all__ = ["daemon", "pytestmark", "thread"]

NORMAL_GROUP, URGENT, SERVICE, BACKGROUND = range(4)
# Requests each group with a number among the arguments; prints the errors.
ASKS = r"""
import socket, struct, sys
client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
client.connect(sys.argv[1])
for group in sys.argv[2:]:
    client.send(struct.pack("<IHHIIQQiII5I", 0x514B4554, 1, 4, 1, 0, 0, 0, 0, 0, int(group),
                            *[0] * 5))
    print(struct.unpack_from("<i", client.recv(200), 16)[0])
"""
numbers = itertools.count()


def groups(backend="rt", more="", places=""):
    """A configuration with groups that no other test has."""
    name = f"tek-test-{os.getpid()}-{next(numbers)}"
    return f'backend = "{backend}"\n[groups]\nname = "{name}"\n{more}\n{places}\n{USUAL}'


def places_of(tid):
    """Hierarchy -> group, of a thread."""
    lines = pathlib.Path(f"/proc/{tid}/cgroup").read_text().splitlines()
    return {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines}


def group_of(tid):
    """The last two names in the path of a thread's group of TEK's."""
    inside = [path for path in places_of(tid).values() if "/tek-test-" in path]
    return "/".join(inside[0].split("/")[2:]) if inside else None


@pytest.fixture
def grouped(daemon):
    """Starts tekd with groups, if this machine has a place for them."""
    def start(*arguments, **options):
        daemon.start(groups(*arguments, **options))
        status = daemon.client().json(STATUS)
        if status["groups"] is None:
            pytest.skip(f"no control groups here: {status['groups_why']}")
        return daemon
    return start


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    eventually(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    yield process.pid
    process.kill()
    process.wait()


def test_everybody_of_the_domain_is_in_a_group_and_back_after_a_clean_stop(grouped, sleeper,
                                                                           thread):
    before = {tid: places_of(tid) for tid in (sleeper, thread, os.getpid())}
    daemon = grouped()
    status = daemon.client().json(STATUS)["groups"]
    eventually(lambda: all(group_of(tid) == "lazy/normal" for tid in before))
    assert pathlib.Path(status["top"]).is_dir()
    assert [group["weight"] for group in status["groups"]] == [100, 400, 50, 10]
    daemon.end()
    assert {tid: places_of(tid) for tid in before} == before
    assert not pathlib.Path(status["top"]).exists()


def test_a_place_in_the_configuration_decides(grouped, sleeper):
    daemon = grouped(places='[[place]]\ngroup = "background"\nnames = ["sle*"]\n')
    eventually(lambda: group_of(sleeper) == "lazy/background")
    info = daemon.client().json(EXPLAIN, sleeper)
    assert info["group"] == "background" and info["group_by"].startswith(str(daemon.config))


def test_a_program_that_is_executed_later_gets_its_place(grouped):
    grouped(places='[[place]]\ngroup = "service"\nnames = ["sleep"]\n')
    process = subprocess.Popen(["sleep", "60"])
    try:
        eventually(lambda: group_of(process.pid) == "lazy/service")
    finally:
        process.kill()
        process.wait()


def test_programs_that_are_executed_while_tekd_starts_get_their_places(daemon):
    places = '[[place]]\ngroup = "service"\nnames = ["sleep"]\n'
    stop, sleepers = threading.Event(), []

    def execute():
        while not stop.wait(0.002):
            sleepers.append(subprocess.Popen(["sleep", "60"]))

    executing = threading.Thread(target=execute)
    executing.start()
    try:
        daemon.start(groups(places=places))
        stop.set()
        executing.join()
        if daemon.client().json(STATUS)["groups"] is None:
            pytest.skip("no control groups here")
        for process in sleepers:
            eventually(lambda pid=process.pid: group_of(pid) == "lazy/service")
    finally:
        stop.set()
        executing.join()
        for process in sleepers:
            process.kill()
            process.wait()


def test_programs_whose_start_tekd_missed_get_their_places(grouped):
    daemon = grouped(places='[[place]]\ngroup = "service"\nnames = ["sleep"]\n')
    daemon.process.send_signal(signal.SIGSTOP)
    # More events than fit into the buffer, so that the last of them is lost.
    subprocess.run(["sh", "-c", "for n in $(seq 1200); do /bin/true; done"], check=True, timeout=60)
    process = subprocess.Popen(["sleep", "60"])
    try:
        eventually(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        daemon.process.send_signal(signal.SIGCONT)
        eventually(lambda: group_of(process.pid) == "lazy/service")
    finally:
        process.kill()
        process.wait()


def test_of_programs_that_end_the_journal_does_not_grow(grouped):
    client = grouped(places='[[place]]\ngroup = "service"\nnames = ["sleep"]\n').client()
    before = client.json(STATUS)["counts"]["changes"]
    for _ in range(5):
        run = "for n in $(seq 200); do sleep 0.3 & done; wait"
        subprocess.run(["sh", "-c", run], check=True, timeout=60)
    assert client.json(STATUS)["counts"]["changes"] < before + 600


def test_a_thread_and_a_process_choose_their_group(grouped, thread):
    client = grouped().client()
    assert client.ask(GROUP, thread, group=BACKGROUND).error == 0
    eventually(lambda: group_of(thread) == "lazy/background" and
               group_of(os.getpid()) == "lazy/normal")
    assert client.json(EXPLAIN, thread)["group_by"] == "its program"
    assert client.ask(GROUP, group=SERVICE).error == 0
    # The last of its threads are moved a little later.
    eventually(lambda: group_of(thread) == group_of(os.getpid()) == "lazy/service")
    assert client.ask(GROUP, thread, group=4).error == errno.EINVAL


def test_another_process_is_placed_by_hand(grouped, sleeper):
    client = grouped().client()
    assert client.ask(GROUP, sleeper, flags=PROCESS, group=URGENT).error == 0
    eventually(lambda: group_of(sleeper) == "lazy/urgent")
    assert "by hand" in client.json(EXPLAIN, sleeper)["group_by"]
    assert client.ask(GROUP, 1, flags=PROCESS, group=URGENT).error == errno.EPERM


def test_a_process_that_has_no_grant_gets_no_better_group_than_it_was_given(
        daemon, grouped, open_directory, as_nobody):
    daemon.socket = open_directory / "run" / "tekd"
    grouped()
    groups_asked = map(str, (URGENT, BACKGROUND, NORMAL_GROUP, URGENT))
    asked = subprocess.run([*as_nobody, "/usr/bin/python3", "-c", ASKS, str(daemon.socket),
                            *groups_asked],
                           timeout=60, check=False, capture_output=True, text=True)
    if "Permission denied" in asked.stderr and "python" in asked.stderr:
        pytest.skip("nobody may not run python3 here")
    assert asked.stdout.split() == [str(errno.EPERM), "0", "0", str(errno.EPERM)]


def test_a_critical_thread_of_a_placed_process_comes_back_to_its_group(grouped, thread):
    client = grouped().client()
    before = scheduling(thread)
    assert client.ask(GROUP, thread, group=BACKGROUND).error == 0
    assert client.ask(ENTER, thread).rt_priority == 29
    assert client.ask(LEAVE, thread).error == 0
    assert (group_of(thread), scheduling(thread)) == ("lazy/background", before)


# Backend fair


def test_under_fair_a_critical_thread_is_in_the_fast_group_and_back_afterwards(grouped, thread):
    client = grouped("fair").client()
    before = scheduling(thread)
    entered = client.ask(ENTER, thread, priority=-5)
    assert (entered.error, entered.rt_priority) == (0, 0)
    assert group_of(thread) == "fast"
    assert scheduling(thread) == before
    status = client.json(STATUS)
    assert (status["backend"], status["mode"]) == ("fair", "responsiveness")
    assert status["groups"]["entered"] and status["groups"]["fast"]["threads"] == 1
    assert client.ask(LEAVE, thread).error == 0
    assert (group_of(thread), scheduling(thread)) == ("lazy/normal", before)
    assert not client.json(STATUS)["groups"]["entered"]


def weights(daemon):
    top = pathlib.Path(daemon.client().json(STATUS)["groups"]["top"])
    files = [path for name in ("cpu.shares", "cpu.weight") for path in top.rglob(name)]
    return {str(path): path.read_text() for path in files}


def test_nested_criticals_of_two_processes_leave_the_mode_with_the_last(grouped, thread):
    daemon = grouped("fair")
    before = weights(daemon)
    client = daemon.client()
    assert client.ask(ENTER, thread).error == 0
    within = weights(daemon)
    assert within != before
    with Other(daemon) as other:
        assert other.do("enter")["error"] == 0
        assert client.ask(LEAVE, thread).error == 0
        assert weights(daemon) == within
        assert other.do("leave")["error"] == 0
        assert weights(daemon) == before


def test_a_child_of_a_critical_thread_is_not_in_the_fast_group(grouped):
    client = grouped("fair").client()
    assert client.ask(ENTER, os.getpid()).error == 0
    child = subprocess.Popen(["sleep", "60"])
    try:
        eventually(lambda: group_of(child.pid) == "lazy/normal")
    finally:
        child.kill()
        child.wait()
        client.ask(LEAVE, os.getpid())


def test_of_children_of_a_critical_thread_that_end_the_journal_does_not_grow(grouped):
    # A child that ended before tekd saw it is charged with the most that it can have run: on a busy
    # machine 200 of them would overrun any budget.
    client = grouped("fair", places='[[grant]]\nusers = ["root"]\nbudget = "off"\n').client()
    assert client.ask(ENTER, os.getpid()).error == 0
    before = client.json(STATUS)["counts"]["changes"]
    for _ in range(4):
        children = [subprocess.Popen(["sleep", "0.5"]) for _ in range(200)]
        assert all(child.wait() == 0 for child in children)
    assert client.json(STATUS)["counts"]["changes"] < before + 500
    client.ask(LEAVE, os.getpid())


@pytest.mark.parametrize("backend", ["rt", "fair"])
def test_a_kill_leaves_nothing_that_a_restore_does_not_undo(grouped, sleeper, thread, backend):
    before = [(places_of(tid), scheduling(tid)) for tid in (sleeper, thread)]
    daemon = grouped(backend)
    client = daemon.client()
    top = pathlib.Path(client.json(STATUS)["groups"]["top"])
    client.ask(GROUP, thread, group=BACKGROUND)
    assert client.ask(ENTER, thread, priority=-3).error == 0
    assert client.ask(CRITICAL, sleeper, flags=PROCESS).error == 0
    daemon.end(signal.SIGKILL)
    subprocess.run(daemon.command("--restore"), timeout=60, check=True)
    assert [(places_of(tid), scheduling(tid)) for tid in (sleeper, thread)] == before
    assert not top.exists()


def test_weights_and_places_are_read_again(grouped, sleeper):
    daemon = grouped()
    text = daemon.config.read_text()
    place = '[[place]]\ngroup = "urgent"\nnames = ["sleep"]\n'
    daemon.config.write_text(text.replace("[groups]\n", "[groups]\nurgent = 700\n") + place)
    daemon.process.send_signal(signal.SIGHUP)
    eventually(lambda: group_of(sleeper) == "lazy/urgent")
    assert daemon.client().json(STATUS)["groups"]["groups"][URGENT]["weight"] == 700


def test_a_grant_for_a_control_group_holds_for_those_that_were_placed(daemon, thread):
    text = groups("fair").replace('users = ["root"]', 'cgroups = ["/*"]')
    client = daemon.start(text).client()
    for _ in range(3):
        assert client.ask(ENTER, thread).error == 0
        assert client.ask(LEAVE, thread).error == 0
    assert client.ask(NORMAL, thread).error == 0


@pytest.fixture
def root():
    """A control group where the groups are, of version 1; its directory."""
    base = pathlib.Path("/sys/fs/cgroup/cpu")
    if not (base / "tasks").exists():
        pytest.skip("no hierarchy of version 1 with controller cpu here")
    directory = base / f"tek-home-{os.getpid()}"
    directory.mkdir()
    yield directory
    directory.rmdir()


def test_a_grant_that_is_written_later_names_the_control_group_before_tekd_moved_a_process(
        daemon, root):
    asks = [sys.executable, "-c", ASKS, str(daemon.socket), str(URGENT)]
    with subprocess.Popen(["sh", "-c", 'read line; exec "$@"', "sh", *asks], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as asker:
        (root / "cgroup.procs").write_text(str(asker.pid))
        nobodys = groups().replace("root", "nobody")
        daemon.start(nobodys)
        if daemon.client().json(STATUS)["groups"] is None:
            pytest.skip("no control groups here")
        eventually(lambda: group_of(asker.pid) == "lazy/normal")
        daemon.config.write_text(nobodys + f'[[grant]]\ncgroups = ["/{root.name}"]\n')
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: daemon.log.read_text().count("configuration: ") == 2)
        assert asker.communicate("\n", timeout=60)[0].split() == ["0"]
