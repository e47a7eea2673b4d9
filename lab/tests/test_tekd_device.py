# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd on a whole device, and with all rights: no test may do this to a machine that is in use."""
import contextlib
import os
import pathlib
import pwd
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
from conftest import OUT, child_of, eventually

E2E = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"
sys.path += [str(E2E), str(E2E / "tekd")]
from test_daemon_client import OBEDIENT, Program  # noqa: E402
from tekd_client import STATUS, scheduling  # noqa: E402
from tekd_daemon import Daemon  # noqa: E402

LIMIT = 2  # TEK_GRANT_LIMIT
GRANTS = '[[grant]]\nusers = ["nobody"]\nrate = 10000\nburst = 10000\n'
LIMITS = resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE, resource.RLIMIT_RTTIME
# Attributes of groups that a process sets; all other files are counters.
ATTRIBUTES = re.compile(
    r"cpu\.(weight|shares|idle|max|cfs_.*|rt_.*|uclamp.*)|cgroup\.(type|subtree_control)")
# connect, sendto, recvfrom, sendmsg, recvmsg
ASKING = {42, 44, 45, 46, 47}
PLACES = '[groups]\n[[place]]\ngroup = "background"\nnames = ["python*"]\n'

# As the user nobody: enters and leaves with all its threads for ever, forks and executes meanwhile.
RESTLESS = """
import os, random, sys, threading
from tekd_client import Client, ENTER, LEAVE, Closed
def live():
    tid = threading.get_native_id()
    while True:
        try:
            client = Client(sys.argv[1])
            for _ in range(random.randrange(1, 30)):
                client.ask(ENTER, tid, priority=random.randrange(-20, 20))
                if random.random() < 0.1 and not os.fork():
                    os.execv("/bin/true", ["true"])
                client.ask(LEAVE, tid)
        except (OSError, Closed, AssertionError):
            pass
for _ in range(4):
    threading.Thread(target=live).start()
"""


class Device(Daemon):
    """tekd for all threads of this machine."""

    def command(self, *options):
        command = super().command(*options)
        at = command.index("--domain")
        return command[:at] + ["--domain", "device"] + command[at + 2:]


@pytest.fixture
def device(tmp_path):
    device = Device(tmp_path)
    for directory in tmp_path, *tmp_path.parents[:-1]:
        directory.chmod(directory.stat().st_mode & 0o7777 | 0o055)
    yield device
    if device.process and device.process.poll() is None:
        device.end()
    if device.state.exists():
        subprocess.run(device.command("--restore"), timeout=20, check=True)


def become_nobody():
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)


def start(script, *arguments, **options):
    environment = dict(os.environ,
                       PYTHONPATH=os.pathsep.join(sys.path[-2:]
                                                  + [str(pathlib.Path(__file__).parent)]))
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], env=environment,
                            preexec_fn=become_nobody, text=True, **options)


def snapshot():
    """The kernel's settings, of those that tekd could change, for every thread of the device."""
    found = {}
    for directory in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*"):
        tid = int(directory.name)
        try:
            fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
            found[tid, fields[19]] = (scheduling(tid), sorted(os.sched_getaffinity(tid)),
                                      (directory / "cgroup").read_text(),
                                      [resource.prlimit(int(directory.parts[2]), limit)
                                       for limit in LIMITS])
        except OSError:
            pass  # it has ended
    return found


def groups():
    """All control groups, with the attributes that can be set."""
    found = {}
    for directory, _, files in os.walk("/sys/fs/cgroup"):
        with contextlib.suppress(OSError):
            found[directory] = {name: pathlib.Path(directory, name).read_text()
                                for name in files if ATTRIBUTES.fullmatch(name)}
    return found


def assert_same(before, after):
    """Compares the threads that existed all the time."""
    two = before.keys() & after.keys()
    assert {it: after[it] for it in two} == {it: before[it] for it in two}


@pytest.mark.parametrize(("configuration", "kills"), [
    ('backend = "rt"\n', 20),
    ('backend = "rt"\n' + PLACES, 8),
    ('backend = "fair"\n' + PLACES, 8),
], ids=["rt", "rt with groups", "fair"])
def test_after_any_kill_no_thread_of_the_device_is_other_than_it_was(device, configuration, kills):
    chance = random.Random(6)
    before, made = snapshot(), groups()
    device.start(configuration + GRANTS)
    clients = []
    for _ in range(kills):
        clients += [start(RESTLESS, device.socket, stderr=subprocess.DEVNULL)
                    for _ in range(2 - len(clients))]
        time.sleep(chance.uniform(0.3, 1))
        victims = chance.sample([device.process, *clients], chance.randrange(1, 3))
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
            victim.wait(20)
        clients = [client for client in clients if client not in victims]
        if device.process in victims:
            device.start()
    assert bool(device.client().json(STATUS)["groups"]) == ("[groups]" in configuration)
    device.end(signal.SIGKILL)
    for client in clients:
        client.send_signal(signal.SIGSTOP)
    subprocess.run(device.command("--restore"), timeout=60, check=True)
    root = pathlib.Path("/proc/self/cgroup").read_text()
    for client in clients:
        for task in pathlib.Path(f"/proc/{client.pid}/task").iterdir():
            assert scheduling(int(task.name)) == (0, 0, 0)
            assert (task / "cgroup").read_text() == root
        client.kill()
        client.wait(20)
    assert_same(before, snapshot())
    assert groups() == made


@pytest.mark.parametrize("backend", ["rt", "fair"])
def test_a_placed_process_gets_back_when_tekd_stops(device, backend):
    with start("import threading, time\n"
               "for _ in range(20): threading.Thread(target=time.sleep, args=(60,)).start()\n"
               "print(flush=True)", stdout=subprocess.PIPE) as other:
        try:
            other.stdout.readline()
            before, made = snapshot(), groups()
            device.start(f'backend = "{backend}"\n' + PLACES + GRANTS)
            status = device.client().json(STATUS)
            assert status["backend"] == backend
            assert "/tek/lazy/background\n" in pathlib.Path(f"/proc/{other.pid}/cgroup").read_text()
            there = {one["name"]: one for one in status["groups"]["groups"]}
            assert there["background"]["threads"] >= 21
            assert groups().keys() > made.keys()
            assert device.end() == 0
            assert_same(before, snapshot())
            assert groups() == made
        finally:
            other.kill()


def test_with_a_raised_limit_a_program_switches_by_itself_until_tekd_stops(device):
    device.start(GRANTS + "limit = true\n")
    script = """
import os, resource, sys
from tekd_client import Client, HELLO
client = Client(sys.argv[1])
print(client.ask(HELLO).value[0], flush=True)
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
print("switched", flush=True)
sys.stdin.readline()
"""
    with start(script, device.socket, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        try:
            assert int(client.stdout.readline()) & LIMIT
            assert client.stdout.readline() == "switched\n"
            assert resource.prlimit(client.pid, resource.RLIMIT_RTPRIO)[0] >= 20
            assert device.end() == 0
            assert resource.prlimit(client.pid, resource.RLIMIT_RTPRIO) == (0, 0)
        finally:
            client.stdin.close()


def note(words):
    with (OUT / "told").open("a") as info:
        info.write(f"{words}\n")


def system_calls(tid, act):
    """The numbers of the system calls that a thread makes meanwhile."""
    tracing = pathlib.Path("/sys/kernel/tracing")
    event = tracing / "events/raw_syscalls/sys_enter"
    (event / "filter").write_text(f"common_pid == {tid}")
    (tracing / "trace").write_text("")
    (event / "enable").write_text("1")
    try:
        act()
    finally:
        (event / "enable").write_text("0")
        (event / "filter").write_text("0")
    return [int(number)
            for number in re.findall(r"sys_enter: NR (\d+)", (tracing / "trace").read_text())]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are x86-64's")
def test_with_a_raised_limit_switches_do_not_ask_tekd(
        device, compile_c, open_build, as_nobody, monkeypatch):
    program = compile_c(OBEDIENT, "cc", "-pthread")
    device.start(GRANTS + "limit = true\n")
    monkeypatch.setenv("TEK_SOCKET", str(device.socket))
    client = Program([*as_nobody, open_build / "bin" / "tek", "run", program])
    try:
        assert client.do("look") == (0, os.SCHED_OTHER)
        tid = child_of(client.process.pid)
        usual = system_calls(tid, lambda: client.do(""))
        assert client.do("enter") == (0, os.SCHED_RR)  # by itself
        info = []
        for what in "leave", "enter", "leave":
            made = system_calls(tid, lambda what=what: client.do(what))
            assert made and not ASKING & set(made), (what, made)
            info.append(f"{what} {len(made) - len(usual)} {made}")
        note(f"system calls with a raised limit: {'; '.join(info)}")
    finally:
        client.process.kill()
        client.process.communicate()


@pytest.mark.parametrize("breach", ["os.execv('/bin/sleep', ['sleep', '60'])",
                                    "client.close(); time.sleep(60)"],
                         ids=["executes another program", "closes its connection"])
def test_a_raised_limit_is_lowered_when_the_program(device, breach):
    device.start(GRANTS + "limit = true\n")
    script = f"""
import os, resource, sys, time
from tekd_client import Client, HELLO
client = Client(sys.argv[1])
assert client.ask(HELLO).error == 0
print(flush=True)
sys.stdin.readline()
{breach}
"""
    with start(script, device.socket, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        try:
            client.stdout.readline()
            assert resource.prlimit(client.pid, resource.RLIMIT_RTPRIO)[0] >= 20
            client.stdin.write("\n")
            client.stdin.flush()
            eventually(lambda: resource.prlimit(client.pid, resource.RLIMIT_RTPRIO) == (0, 0))
        finally:
            client.kill()


ATTACK = """
import ctypes, os, resource, sys, threading, time
from tekd_client import Client, HELLO
client = Client(sys.argv[1])
assert client.ask(HELLO).error == 0
resource.setrlimit(resource.RLIMIT_RTPRIO, (49, 49))
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(49))
sleeper = threading.Thread(target=time.sleep, args=(60,), daemon=True)
sleeper.start()
child = os.fork()
# And, where its number is known, a sibling (CLONE_PARENT | SIGCHLD).
call = ctypes.CDLL(None).syscall
sibling = call(56, 0x8000 | 17, 0, 0, 0, 0) if child and os.uname().machine == "x86_64" else child
if child and sibling:
    print(os.getpid(), sleeper.native_id, child, sibling, flush=True)
    sys.stdin.readline()
client.close()
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["close", "stop", "restore"])
def test_a_process_that_lowered_a_raised_limit_keeps_neither_it_nor_what_it_allowed(device, way):
    device.start(GRANTS + "limit = true\n")
    with start(ATTACK, device.socket, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        pid, thread, child, sibling = map(int, client.stdout.readline().split())
        try:
            assert scheduling(thread)[:2] == (os.SCHED_FIFO, 49)
            # Only events report siblings, so they must arrive before tekd is killed.
            for its in child, sibling:
                eventually(lambda its=its: resource.prlimit(its, resource.RLIMIT_RTPRIO) == (0, 0))
            if way == "close":
                client.stdin.write("\n")
                client.stdin.flush()
            elif way == "stop":
                assert device.end() == 0
            else:
                device.end(signal.SIGKILL)
                subprocess.run(device.command("--restore"), timeout=20, check=True)
            for tid in pid, thread, child, sibling:
                eventually(lambda tid=tid: scheduling(tid)[:2] == (os.SCHED_OTHER, 0))
            eventually(lambda: resource.prlimit(pid, resource.RLIMIT_RTPRIO) == (0, 0))
        finally:
            for its in {child, sibling, pid}:
                os.kill(its, signal.SIGKILL)


def test_a_thread_keeps_what_its_own_limit_allows_when_its_grant_ends(device):
    device.start(GRANTS)
    script = """
import os, sys, time, threading
from tekd_client import Client, ENTER, LEAVE
client, tid = Client(sys.argv[1]), threading.get_native_id()
print(tid, flush=True)
for priority in map(int, sys.stdin):
    assert client.ask(ENTER, tid, priority=-20).error == 0
    os.sched_setscheduler(0, os.SCHED_RR | 0x40000000, os.sched_param(priority))
    assert client.ask(LEAVE, tid).error == 0
    print(os.sched_getscheduler(0) & 0xf, os.sched_getparam(0).sched_priority, flush=True)
"""

    def own_limit():
        resource.setrlimit(resource.RLIMIT_RTPRIO, (20, 20))
        become_nobody()

    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path[-2:]))
    with subprocess.Popen([sys.executable, "-c", script, str(device.socket)], env=environment,
                          text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          preexec_fn=own_limit) as client:
        try:
            client.stdout.readline()
            for priority, held in (48, (os.SCHED_OTHER, 0)), (20, (os.SCHED_RR, 20)):
                client.stdin.write(f"{priority}\n")
                client.stdin.flush()
                assert tuple(map(int, client.stdout.readline().split())) == held
        finally:
            client.kill()


def test_children_do_not_keep_a_raised_limit(device):
    device.start(GRANTS + "limit = true\n")
    script = """
import os, sys, time
from tekd_client import Client, HELLO
client = Client(sys.argv[1])
assert client.ask(HELLO).error == 0
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild:
        print(grandchild, flush=True)
else:
    print(child, flush=True)
time.sleep(60)
"""
    with start(script, device.socket, stdout=subprocess.PIPE) as client:
        born = [int(client.stdout.readline()) for _ in range(2)]
        try:
            for pid in born:
                eventually(lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_RTPRIO) == (0, 0))
            assert resource.prlimit(client.pid, resource.RLIMIT_RTPRIO)[0] >= 20
        finally:
            for pid in (*born, client.pid):
                os.kill(pid, signal.SIGKILL)


def test_a_switch_takes_microseconds_for_other_users_too(device):
    """Reported, not judged: an emulated CPU has no guaranteed speed."""
    device.start(GRANTS)
    script = """
import sys, time, threading
from tekd_client import Client, ENTER, LEAVE
client, tid, took = Client(sys.argv[1]), threading.get_native_id(), []
for _ in range(200):
    begun = time.monotonic()
    answer = client.ask(ENTER, tid)
    assert answer.error == 0, answer.text
    took.append(time.monotonic() - begun)
    assert client.ask(LEAVE, tid).error == 0
took.sort()
print(f"{took[100] * 1e6:.0f} {took[197] * 1e6:.0f}")
"""
    with start(script, device.socket, stdout=subprocess.PIPE) as client:
        median, high = client.stdout.readline().split()
    note(f"a switch by tekd: median {median} us, p99 {high} us")
