# SPDX-License-Identifier: MIT OR Apache-2.0
"""Children of a critical thread do not keep the control group that it is in for a while."""
import os
import pathlib
import signal

import pytest
from conftest import eventually
from test_tekd import daemon, pytestmark
from test_tekd_rights import BENEFICIARY, GRANT, Beneficiary, restore

assert daemon and pytestmark  # which pytest looks for by their names

# After BENEFICIARY's words: `breed` prints the ids of a thread, a child, a grandchild whose parent has ended,
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
        self.tell("breed")
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
    """A group of the cpu controller of version 1 without real-time runtime: critical threads leave it."""
    top = next((mount for mount in map(pathlib.Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"))
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


def test_restore_finds_children_whose_parents_are_there(daemon, breeder):
    assert breeder.do("enter") == 0
    daemon.end(signal.SIGKILL)
    thread, child, _, _ = breeder.breed()
    restore(daemon)
    assert breeder.are_in_group([breeder.tid, thread, child])
