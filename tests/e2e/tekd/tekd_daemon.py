# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd with a domain of its own, its clients in other processes, and a stopped thread of it."""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest
from conftest import BUILD, eventually, read
from paths import E2E, TOP
from tekd_client import ENTER, HELLO, LEAVE, STATUS, Client, Closed, is_fast, request

TEKD = BUILD / "bin" / "tekd"
UNIT = TOP / "data" / "tekd.service"
pytestmark = [
    pytest.mark.skipif(not TEKD.exists(), reason="tekd is not built"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be granted something"),
]
# For tests in which ordinary threads must run.
no_real_time_load = pytest.mark.alone("real-time load")


class Daemon:
    def __init__(self, directory):
        self.directory = directory
        self.socket = directory / "run" / "tekd"
        self.state = directory / "state"
        self.config = directory / "tekd.toml"
        self.log = directory / "log"
        self.domain = f"pid:{os.getpid()}"
        self.process = None

    def command(self, *options):
        return [str(TEKD), "--state", str(self.state), "--socket", str(self.socket), "--config",
                str(self.config), "--domain", self.domain, *options]

    def start(self, configuration=None, prefix=(), **options):
        if configuration is not None:
            self.config.write_text(configuration)
        log = self.log.open("a")
        self.process = subprocess.Popen([*prefix, *self.command()], stderr=log,
                                        stdin=subprocess.DEVNULL, **options)
        log.close()
        eventually(self.serves)
        if "[kthreads]" in self.config.read_text():
            eventually(lambda: not self.client().json(STATUS)["kthreads"].get("starting"))
        return self

    def serves(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            client = Client(self.socket)
            # It accepts connections before it serves.
            client.send(STATUS)
            client.receive()
        except OSError:
            return False
        client.close()
        return True

    def client(self):
        return Client(self.socket)

    def answers(self):
        """Whether it answers a new client; without a free descriptor it closes the connection."""
        try:
            return self.client().ask(HELLO).error == 0
        except Closed:
            return False

    def has_loaded(self):
        """Whether the programs that watch waits are loaded, or cannot be: that begins with the
        first Fast thread, and takes memory and descriptors once."""
        why = self.client().json(STATUS)["inherit"]["why"]
        return why not in ("no thread is Fast", "its programs are being loaded")

    def load_once(self, thread):
        """Makes a thread Fast for a moment, so that tekd has loaded the programs."""
        client = self.client()
        assert client.ask(ENTER, thread).error == 0
        eventually(self.has_loaded)
        assert client.ask(LEAVE, thread).error == 0
        client.close()
        eventually(lambda: self.attached() == 0)

    def files(self):
        """The names of its descriptors."""
        names = []
        for one in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                names.append(os.readlink(one))
            except OSError:
                pass
        return names

    def attached(self):
        """How many programs are attached to hooks of the kernel: each is a descriptor."""
        return sum(name in ("anon_inode:bpf_link", "anon_inode:bpf-link") for name in self.files())

    def logs(self, text):
        """Waits until tekd's log has this text: an ordinary thread of tekd writes its lines."""
        eventually(lambda: text in self.log.read_text())

    def end(self, sign=signal.SIGTERM):
        self.process.send_signal(sign)
        return self.process.wait(60)


USUAL = '[[grant]]\nusers = ["root"]\nrate = 10000\n'


@pytest.fixture
def daemon(tmp_path, real_time):
    """tekd for the processes that this test starts; it is not there yet."""
    daemon = Daemon(tmp_path)
    yield daemon
    if daemon.process and daemon.process.poll() is None:
        daemon.end()
    if daemon.state.exists():
        subprocess.run(daemon.command("--restore"), timeout=60, check=True)


@pytest.fixture
def tekd(daemon):
    return daemon.start(USUAL)


@pytest.fixture
def thread():
    """A thread of this process that sleeps; its id."""
    stop, tid = threading.Event(), []
    ready = threading.Event()

    def live():
        tid.append(threading.get_native_id())
        ready.set()
        stop.wait(60)

    sleeper = threading.Thread(target=live)
    sleeper.start()
    ready.wait()
    yield tid[0]
    stop.set()
    sleeper.join()


def wait_for(tid, fast):
    eventually(lambda: is_fast(tid) == fast)


OTHER = r"""
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
from tekd_client import *
client = Client(sys.argv[2])
tid = threading.get_native_id()
print(json.dumps({"tid": tid}), flush=True)
for line in sys.stdin:
    match line.split():
        case ["enter"]: answer = client.ask(ENTER, tid)
        case ["leave"]: answer = client.ask(LEAVE, tid)
        case ["hello"]: answer = client.ask(HELLO)
        case ["critical", pid]: answer = client.ask(CRITICAL, int(pid))
        case ["group", group]: answer = client.ask(GROUP, group=int(group))
        case ["exec", keep]:
            os.set_inheritable(client.socket.fileno(), keep == "keep")
            os.execv("/bin/sleep", ["sleep", "60"])
        case ["exec-in-thread"]:
            def execute():
                entered = client.ask(ENTER, threading.get_native_id())
                print(json.dumps({"error": entered.error}), flush=True)
                sys.stdin.readline()
                os.execv("/bin/sleep", ["sleep", "60"])
            executing = threading.Thread(target=execute)
            executing.start()
            executing.join()
        case ["become", uid]:
            os.setresuid(*[int(uid)] * 3)
            print(json.dumps({"error": 0}), flush=True)
            continue
        case ["pass", path]:
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            channel.connect(path)
            socket.send_fds(channel, [b"x"], [client.socket.fileno()])
            print(json.dumps({"error": 0}), flush=True)
            continue
        case ["burn"]:
            end = time.monotonic() + 3
            while time.monotonic() < end and is_fast(tid):
                pass
            left = client.notice()
            print(json.dumps({"error": left.error, "value": left.value, "text": left.text}),
                  flush=True)
            continue
    print(json.dumps({"error": answer.error, "text": answer.text}), flush=True)
"""


class Other:
    """Another process that is a client."""

    def __init__(self, daemon, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", OTHER, str(E2E), str(daemon.socket)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TEK_BUILD": str(BUILD)})
        self.tid = self.answer()["tid"]

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def note(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line):
        self.note(line)
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()


def sleeps_as(pid, name):
    """Whether a process waits in its program. It has the name before exec(3) is over."""
    stat = read(f"/proc/{pid}/stat")
    return f"({name}) S " in stat


class Stopped:
    """A thread that a debugger has stopped, while the other threads of its process run."""

    def __init__(self, tid):
        self.tid = tid

    @staticmethod
    def ptrace(request, tid):
        call = ctypes.CDLL(None, use_errno=True).ptrace
        call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        if call(request, tid, None, None):
            pytest.skip(f"needs ptrace: {os.strerror(ctypes.get_errno())}")

    def __enter__(self):
        self.ptrace(0x4206, self.tid)  # PTRACE_SEIZE
        self.ptrace(0x4207, self.tid)  # PTRACE_INTERRUPT
        os.waitpid(self.tid, 0x40000000)  # __WALL

    def __exit__(self, *unused):
        self.ptrace(17, self.tid)  # PTRACE_DETACH


def resident(daemon):
    """KiB."""
    status = read(f"/proc/{daemon.process.pid}/status")
    return int(status.split("VmRSS:")[1].split()[0])
