# SPDX-License-Identifier: MIT OR Apache-2.0
"""Children of a critical thread do not keep its temporary control group."""
import errno
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import eventually
from paths import PROGRAMS
from tekd_client import CRITICAL, LEFT, NORMAL, STATUS
from tekd_daemon import daemon, pytestmark
from test_tekd_groups import groups
from test_tekd_rights import BENEFICIARY, GRANT, Beneficiary, restore

assert daemon and pytestmark  # which pytest finds by their names

# After BENEFICIARY's words: `breed` prints the ids of a thread, a child, an orphaned grandchild,
# and a sibling, which all stay.
BREED = r"""
    elif word == "breed":
        def born(make):
            reader, writer = os.pipe()
            pid = make()
            if pid == 0:
                client.close()  # else the connection stays open
                os.write(writer, b"%d\n" % os.getpid())
                time.sleep(60)
                os._exit(0)
            told = os.read(reader, 20)
            os.close(reader), os.close(writer)
            return int(told)
        def orphan():
            middle = os.fork()
            if middle == 0:
                if os.fork():
                    os._exit(0)
                return 0
            os.waitpid(middle, 0)
            return middle
        def sibling():
            return libc.syscall(56, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)  # CLONE_PARENT
        sleeper = threading.Thread(target=time.sleep, args=(60,), daemon=True)
        sleeper.start()
        print(sleeper.native_id, *map(born, (os.fork, orphan, sibling)), flush=True)
"""
PROGRAM = BENEFICIARY.rstrip() + BREED


class Breeder(Beneficiary):
    """A process of the user nobody in a control group of its own."""

    def __init__(self, daemon, group):
        super().__init__(daemon, PROGRAM)
        self.group = group
        (group / "cgroup.procs").write_text(str(self.tid))
        self.born = []

    def breed(self):
        self.note("breed")
        born = [int(word) for word in self.process.stdout.readline().split()]
        self.born += born
        return born

    def __exit__(self, *_):
        for pid in self.born[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        super().__exit__()
        # Its group can be removed when the kernel has forgotten all.
        eventually(lambda: not (self.group / "tasks").read_text())

    def are_in_group(self, tids):
        members = (self.group / "tasks").read_text().split()
        return all(str(tid) in members for tid in tids)


@pytest.fixture
def group():
    """A cpu group of version 1 without real-time runtime: critical threads leave it."""
    top = next((mount
                for mount in map(pathlib.Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"))
                if (mount / "cpu.rt_runtime_us").exists()), None)
    if top is None or os.uname().machine != "x86_64":
        pytest.skip("needs cgroup version 1 with RT_GROUP_SCHED, and x86-64's system call numbers")
    directory = top / f"tek-test-heirs-{os.getpid()}"
    directory.mkdir()
    yield directory
    directory.rmdir()


@pytest.fixture
def breeder(daemon, group, open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start('backend = "rt"\n' + GRANT)
    with Breeder(daemon, group) as breeder:
        yield breeder


def test_children_are_in_the_group_of_their_parent_while_that_is_critical(breeder):
    assert breeder.do("enter") == 0
    assert not breeder.are_in_group([breeder.tid])
    for _ in range(5):
        born = breeder.breed()
        eventually(lambda born=born: breeder.are_in_group(born))
    assert breeder.do("leave") == 0
    assert breeder.are_in_group([breeder.tid, *breeder.born])


def test_children_that_are_born_just_before_the_end_are_in_the_group_of_their_parent(breeder):
    for end in "leave", "close":
        assert breeder.do("enter") == 0
        born = breeder.breed()
        assert breeder.do(end) == 0
        eventually(lambda born=born: breeder.are_in_group([breeder.tid, *born]))


def test_restore_finds_children_and_those_whose_parents_have_ended(daemon, breeder):
    assert breeder.do("enter") == 0
    daemon.end(signal.SIGKILL)
    thread, child, orphan, _ = breeder.breed()
    restore(daemon)
    assert breeder.are_in_group([breeder.tid, thread, child, orphan])


class Brood:
    """programs/brood.c beside programs that spin on the same CPU."""

    def __init__(self, program, hogs):
        cpu = str(min(os.sched_getaffinity(0)))
        # A limit and no timeout(1), which would leave the program behind if it is killed.
        spin = ["prlimit", "--cpu=120", "taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]
        self.hogs = [subprocess.Popen(spin, stdin=subprocess.DEVNULL) for _ in range(hogs)]
        self.process = subprocess.Popen([str(program), cpu], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline())

    def children_ms(self, wall_ms, child_ms):
        """CPU time of its children, one after another, each for so long."""
        print(wall_ms, child_ms, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def end(self):
        for process in (*self.hogs, self.process):
            process.kill()
            process.wait(60)


@pytest.fixture
def brood(compile_c):
    source = (PROGRAMS / "brood.c").read_text()
    program = compile_c(source, "cc", "-O1", "-D_GNU_SOURCE")
    broods = []

    def start(hogs):
        broods.append(Brood(program, hogs))
        return broods[-1]

    yield start
    for one in broods:
        one.end()


@pytest.fixture
def fair(daemon):
    """Starts tekd with backend fair, and with more keys for its grant."""
    def start(more=""):
        daemon.start("canary_seconds = 0\n" + groups("fair") + more)
        client = daemon.client()
        status = client.json(STATUS)
        if status["groups"] is None or not status["hears_of_exec"]:
            pytest.skip("needs control groups, and the kernel's news of processes")
        return client
    return start


@pytest.mark.alone("load of all CPUs")
def test_children_of_a_critical_thread_do_not_run_at_its_weight(fair, brood):
    # The weight is the subject, and not the budget, which a slow processor exceeds.
    client, breeder = fair('budget = "900ms/1s"\n'), brood(4)
    ratios = []
    for _ in range(5):
        ordinary = breeder.children_ms(1000, 90)
        assert client.ask(CRITICAL, breeder.pid).error == 0
        ratios.append(breeder.children_ms(1000, 90) / ordinary)
        assert client.ask(NORMAL, breeder.pid).error == 0
    print("CPU time of children: critical parent / ordinary one",
          *(f"{ratio:.2f}" for ratio in ratios))
    # A fifth of the CPU is theirs, and a little more until they are moved. With their parent's
    # weight it was all of it for half of the time or more. While other programs of the machine are
    # busy they are moved later: that makes a ratio greater, and none smaller.
    assert sorted(ratios)[1] < 2.5


@pytest.mark.alone("load of all CPUs")
def test_what_children_use_at_the_weight_of_their_parent_is_on_its_account(fair, brood):
    client, breeder = fair('budget = "20ms/1s"\n'), brood(1)
    assert client.ask(CRITICAL, breeder.pid).error == 0
    # The parent itself only waits. Each child ends before it can be moved, or soon after.
    breeder.children_ms(3000, 2)
    left = client.notice()
    assert (left.kind, left.tid, left.error) == (LEFT, breeder.pid, errno.EDQUOT)
