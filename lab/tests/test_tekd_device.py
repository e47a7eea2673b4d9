# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd on a whole device, and with all rights: what no test may do to a machine that is used."""
import os
import pathlib
import pwd
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from conftest import OUT, eventually

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from test_tekd import ENTER, HELLO, LEAVE, Client, Daemon, is_fast, scheduling  # noqa: E402

LIMIT = 2  # TEK_GRANT_LIMIT
GRANTS = '[[grant]]\nusers = ["nobody"]\nrate = 10000\nburst = 10000\n'

# As nobody: enters and leaves with all its threads, forks and executes meanwhile, for ever.
RESTLESS = """
import os, random, sys, threading
from test_tekd import Client, ENTER, LEAVE, Closed
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
    tmp_path.chmod(0o755)
    for directory in tmp_path.parents:
        if directory != pathlib.Path("/"):
            directory.chmod(0o755)
    yield device
    if device.process and device.process.poll() is None:
        device.end()
    if device.state.exists():
        subprocess.run(device.command("--restore"), timeout=20, check=True)


def as_nobody():
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)


def start(script, *arguments, **options):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path[-1:] + [str(pathlib.Path(__file__).parent)]))
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], env=environment,
                            preexec_fn=as_nobody, text=True, **options)


def snapshot():
    """What the kernel has for every thread of the device that tekd could change."""
    found = {}
    for directory in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*"):
        tid = int(directory.name)
        try:
            fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
            found[tid, fields[19]] = (scheduling(tid), sorted(os.sched_getaffinity(tid)),
                                      (directory / "cgroup").read_text(),
                                      resource.prlimit(int(directory.parts[2]), resource.RLIMIT_RTPRIO))
        except OSError:
            pass  # it has ended
    return found


def test_after_any_kill_no_thread_of_the_device_is_other_than_it_was(device):
    chance = random.Random(6)
    before = snapshot()
    device.start(GRANTS)
    clients = []
    for _ in range(20):
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
    device.end(signal.SIGKILL)
    for client in clients:
        client.send_signal(signal.SIGSTOP)
    subprocess.run(device.command("--restore"), timeout=20, check=True)
    for client in clients:
        assert {scheduling(int(tid))[:2] for tid in os.listdir(f"/proc/{client.pid}/task")} == {(0, 0)}
        client.kill()
        client.wait(20)
    after = snapshot()
    assert {who: after[who] for who in before.keys() & after.keys()} == \
           {who: before[who] for who in before.keys() & after.keys()}


def test_with_a_raised_limit_a_program_switches_by_itself_until_tekd_stops(device):
    device.start(GRANTS + "limit = true\n")
    script = """
import os, resource, sys
from test_tekd import Client, HELLO
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


def test_a_switch_takes_microseconds_for_other_users_too(device):
    """Told, not judged: an emulated CPU promises nothing."""
    device.start(GRANTS)
    script = """
import sys, time, threading
from test_tekd import Client, ENTER, LEAVE
client, tid, took = Client(sys.argv[1]), threading.get_native_id(), []
for _ in range(200):
    begun = time.monotonic()
    assert client.ask(ENTER, tid).error == 0
    took.append(time.monotonic() - begun)
    assert client.ask(LEAVE, tid).error == 0
took.sort()
print(f"{took[100] * 1e6:.0f} {took[197] * 1e6:.0f}")
"""
    with start(script, device.socket, stdout=subprocess.PIPE) as client:
        median, high = client.stdout.readline().split()
    (OUT / "told").write_text(f"a switch by tekd: median {median} us, p99 {high} us\n")
