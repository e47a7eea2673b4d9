# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd grants what its configuration allows and no more, and restores everything."""
import ctypes
import errno
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from conftest import BUILD, eventually, needs, read
from paths import E2E, TOP
from tekd_client import (CRITICAL, ENTER, EXPLAIN, GROUP, HELLO, LEAVE, LEFT, NORMAL, PROCESS,
                         REFUSED, RR_RESET, STATUS, Client, Closed, is_fast, request, scheduling)

TEKD = BUILD / "bin" / "tekd"
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
        except OSError:
            return False
        # It accepts connections before it serves.
        client.send(STATUS)
        client.receive()
        client.close()
        return True

    def client(self):
        return Client(self.socket)

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


# Grants


def test_a_thread_is_critical_from_enter_to_leave(tekd, thread):
    client = tekd.client()
    before = scheduling(thread)
    hello = client.ask(HELLO)
    assert (hello.error, hello.value) == (0, (1, 800_000_000))
    entered = client.ask(ENTER, thread, priority=-20)
    assert (entered.error, entered.rt_priority) == (0, 49)
    assert scheduling(thread)[:2] == (RR_RESET, 49)
    assert client.ask(ENTER, thread, priority=19).rt_priority == 10
    assert client.ask(LEAVE, thread).error == 0
    assert scheduling(thread) == before
    assert client.ask(LEAVE, thread).error == 0


def test_what_a_thread_had_is_what_it_gets_back(tekd, thread):
    client = tekd.client()
    for policy, priority, nice in (os.SCHED_BATCH, 0, 5), (os.SCHED_IDLE, 0,
                                                           3), (os.SCHED_FIFO, 3, 0):
        os.sched_setscheduler(thread, policy, os.sched_param(priority))
        os.setpriority(os.PRIO_PROCESS, thread, nice)
        before = scheduling(thread)
        assert client.ask(ENTER, thread).rt_priority == 29
        assert client.ask(LEAVE, thread).error == 0
        assert scheduling(thread) == before


def test_a_thread_that_has_more_by_itself_keeps_it(tekd, thread):
    client = tekd.client()
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(35))
    entered = client.ask(ENTER, thread)
    assert (entered.error, entered.rt_priority) == (0, 0)
    assert scheduling(thread)[:2] == (os.SCHED_FIFO, 35)
    assert client.ask(ENTER, thread, priority=-20).rt_priority == 49
    assert client.ask(ENTER, thread).rt_priority == 0
    assert scheduling(thread)[:2] == (os.SCHED_FIFO, 35)
    client.ask(LEAVE, thread)
    assert scheduling(thread)[:2] == (os.SCHED_FIFO, 35)


def test_a_stay_ends_when_its_time_is_over(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread, until=time.monotonic_ns() + 2_000_000_000).error == 0
    assert is_fast(thread)
    left = client.notice()
    assert (left.kind, left.tid, left.error) == (LEFT, thread, errno.ETIME)
    assert not is_fast(thread)
    assert client.ask(ENTER, thread, until=1).error == errno.ETIME


def test_a_child_of_a_critical_thread_is_not_critical(tekd):
    client = tekd.client()
    own = threading.get_native_id()
    assert client.ask(ENTER, own).error == 0
    try:
        child = os.fork()
        if child == 0:
            os._exit(os.sched_getscheduler(0))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == os.SCHED_OTHER
    finally:
        client.ask(LEAVE, own)
    assert not is_fast(own)


# Refusals


def refusal(daemon, thread, configuration, **options):
    client = daemon.start(configuration).client()
    answer = client.ask(ENTER, thread, **options)
    assert answer.error and not is_fast(thread)
    assert answer.text
    return answer


@pytest.mark.parametrize("rule", [
    "users = [12345]", 'users = ["@active"]', "groups = [12345]", 'programs = ["/nowhere/*"]',
    'cgroups = ["/nowhere/*"]',
])
def test_a_process_without_a_grant_gets_nothing(daemon, thread, rule):
    answer = refusal(daemon, thread, f"[[grant]]\n{rule}\n")
    assert answer.error == errno.EPERM
    assert "[[grant]]" in answer.text


@pytest.mark.parametrize("rule", [
    "users = [0]", 'users = ["*"]', "groups = [0]",
    f'programs = ["{os.path.realpath(sys.executable)}"]', 'cgroups = ["/*"]',
])
def test_a_process_with_a_grant_gets_it(daemon, thread, rule):
    client = daemon.start(f"[[grant]]\n{rule}\n").client()
    assert client.ask(ENTER, thread).error == 0
    assert is_fast(thread)


@pytest.mark.skipif(os.geteuid() != 0, reason="tekd follows links of root's only")
def test_a_grant_for_a_link_is_one_for_the_program_behind_it(daemon, thread):
    with tempfile.TemporaryDirectory(dir="/run", prefix="tek-test-") as directory:
        directory = pathlib.Path(directory)
        python = pathlib.Path(os.path.realpath(sys.executable))
        (directory / "bin").symlink_to(python.parent)
        (directory / "player").symlink_to(python)
        for program in ("player", "play*", f"bin/{python.name}"):
            client = daemon.start(f'[[grant]]\nprograms = ["{directory}/{program}"]\n').client()
            assert client.ask(ENTER, thread).error == 0 and is_fast(thread)
            daemon.end()
        directory.chmod(0o777)  # every user could change the link
        client = daemon.start(f'[[grant]]\nprograms = ["{directory}/player"]\n').client()
        assert client.ask(ENTER, thread).error == errno.EPERM


def test_a_priority_that_is_not_granted_is_refused(daemon, thread):
    answer = refusal(daemon, thread, USUAL + "priorities = [-5, 5]\n", priority=-6)
    assert answer.error == errno.EPERM and "-5 to 5" in answer.text


def test_a_priority_that_there_is_not_is_refused(daemon, thread):
    assert refusal(daemon, thread, USUAL, priority=-21).error == errno.EINVAL


def test_more_threads_than_granted_are_refused(daemon, thread):
    client = daemon.start(USUAL + "threads = 1\n").client()
    assert client.ask(ENTER, threading.get_native_id()).error == 0
    assert client.ask(ENTER, thread).error == errno.EAGAIN
    assert client.ask(ENTER, threading.get_native_id(), priority=5).error == 0
    assert client.ask(LEAVE, threading.get_native_id()).error == 0
    assert client.ask(ENTER, thread).error == 0


def test_more_threads_of_a_user_than_granted_are_refused(daemon, thread):
    daemon.start(USUAL + "threads = 8\nuser_threads = 1\n")
    with Other(daemon) as other:
        assert other.do("enter")["error"] == 0
        client = daemon.client()
        assert client.ask(ENTER, thread).error == errno.EAGAIN
        other.do("leave")
        assert client.ask(ENTER, thread).error == 0


def test_more_switches_than_granted_are_refused_until_later(daemon, thread):
    client = daemon.start('[[grant]]\nusers = [0]\nrate = 1\nburst = 3\n').client()
    begin, granted = time.monotonic(), 0
    while (error := client.ask(ENTER, thread).error) == 0:
        granted += 1
    # One a second more; on a busy machine that may be several.
    assert error == errno.EBUSY and 3 <= granted <= 4 + time.monotonic() - begin
    assert client.ask(LEAVE, thread).error == 0
    eventually(lambda: client.ask(ENTER, thread).error == 0)


def test_a_thread_of_another_process_is_refused(tekd):
    victim = subprocess.Popen(["sleep", "60"])
    try:
        client = tekd.client()
        for tid in victim.pid, 1, tekd.process.pid, 0, 2**31, 2**22 + 5:
            assert client.ask(ENTER, tid).error in (errno.ESRCH, errno.EINVAL)
        assert not is_fast(victim.pid)
    finally:
        victim.kill()
        victim.wait()


def test_groups_that_are_not_configured_are_refused_with_the_reason(tekd):
    answer = tekd.client().ask(GROUP, os.getpid(), group=1)
    assert answer.error == errno.EOPNOTSUPP and "tekd.toml has no [groups]" in answer.text


def test_a_process_outside_the_domain_is_refused(tekd):
    victim = subprocess.run(["sh", "-c", "setsid sleep 60 >/dev/null & echo $!"],
                            stdout=subprocess.PIPE,
                            timeout=60, check=True)
    pid = int(victim.stdout)
    try:
        # Its parent has ended, so it is in no process tree of this test.
        answer = tekd.client().ask(CRITICAL, pid, flags=PROCESS)
        assert answer.error == errno.EPERM and "domain" in answer.text
        assert not is_fast(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


# Threads of other processes

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


def test_another_process_is_made_critical_and_normal_by_hand(tekd, waiting):
    program = subprocess.Popen([str(waiting), "a", "b"], stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == b"ready\n"
        tids = [int(tid) for tid in os.listdir(f"/proc/{program.pid}/task")]
        before = [scheduling(tid) for tid in tids]
        client = tekd.client()
        assert client.ask(CRITICAL, program.pid, flags=PROCESS).rt_priority == 29
        assert all(is_fast(tid) for tid in tids)
        client.close()
        # A change by hand outlives the client that requested it.
        time.sleep(0.2)
        assert all(is_fast(tid) for tid in tids)
        client = tekd.client()
        assert client.ask(NORMAL, tids[1]).error == 0
        assert [is_fast(tid) for tid in tids] == [tid != tids[1] for tid in tids]
        assert client.ask(NORMAL, program.pid, flags=PROCESS).error == 0
        assert [scheduling(tid) for tid in tids] == before
        assert client.ask(CRITICAL, program.pid, start=1, flags=PROCESS).error == errno.ESRCH
        assert client.ask(CRITICAL, tids[1], flags=PROCESS).error == errno.EINVAL
        assert [scheduling(tid) for tid in tids] == before
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def test_a_process_that_may_not_change_foreign_threads_is_refused(daemon, thread):
    client = daemon.start(USUAL + "others = false\n").client()
    answer = client.ask(CRITICAL, thread)
    assert answer.error == errno.EPERM and not is_fast(thread)
    assert client.ask(NORMAL, thread).error == errno.EPERM


def test_process_1_and_tekd_are_never_touched(tekd):
    client = tekd.client()
    for pid in 1, tekd.process.pid:
        before = scheduling(pid)
        assert client.ask(CRITICAL, pid, flags=PROCESS).error == errno.EPERM
        assert scheduling(pid) == before


# Ends


def test_closing_the_last_connection_gives_everything_back(tekd, thread):
    before = scheduling(thread)
    first, second = tekd.client(), tekd.client()
    assert first.ask(ENTER, thread).error == 0
    first.close()
    assert second.ask(STATUS).error == 0
    assert is_fast(thread)
    second.close()
    wait_for(thread, False)
    assert scheduling(thread) == before


def test_a_killed_client_is_forgotten(tekd):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        other.process.kill()
        client = tekd.client()
        eventually(lambda: not client.json(STATUS)["fast"])
        assert client.ask(HELLO).error == 0
        assert [peer["pid"] for peer in client.json(STATUS)["clients"]] == [os.getpid()]


@pytest.mark.parametrize("keep", ["keep", "close"])
def test_a_client_that_executes_another_program_loses_what_it_had(tekd, keep):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        assert is_fast(other.tid)
        other.note(f"exec {keep}")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)
        assert not tekd.client().json(STATUS)["fast"]


def test_a_program_that_another_thread_than_the_first_executes_is_not_critical(tekd):
    with Other(tekd) as other:
        assert other.do("exec-in-thread")["error"] == 0
        other.note("now")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)


def test_a_process_made_critical_by_hand_is_not_after_it_executed_another_program(tekd):
    with Other(tekd) as other:
        client = tekd.client()
        if not client.json(STATUS)["hears_of_exec"]:
            pytest.skip("needs the kernel's news of processes")
        assert client.ask(CRITICAL, other.tid).error == 0
        other.note("exec close")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)


def sleeps_as(pid, name):
    """Whether a process waits in its program. It has the name before exec(3) is over."""
    stat = read(f"/proc/{pid}/stat")
    return f"({name}) S " in stat


def test_where_the_kernel_reports_no_news_a_program_that_is_executed_is_noticed(daemon):
    # The connector is of the first network namespace.
    daemon.start(USUAL, prefix=[needs("unshare"), "--net"])
    client = daemon.client()
    assert not client.json(STATUS)["hears_of_exec"]
    with subprocess.Popen(["sh", "-c", "read line; exec sleep 60"], stdin=subprocess.PIPE,
                          text=True) as process:
        try:
            eventually(lambda: sleeps_as(process.pid, "sh"))
            assert client.ask(CRITICAL, process.pid).error == 0
            assert is_fast(process.pid)
            process.stdin.write("now\n")
            process.stdin.flush()
            eventually(lambda: sleeps_as(process.pid, "sleep"))
            wait_for(process.pid, False)
            # It may be critical again: that request is for another program.
            assert client.ask(CRITICAL, process.pid).error == 0
            assert is_fast(process.pid)
        finally:
            process.kill()


def test_a_client_that_becomes_another_user_loses_what_it_had(tekd):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        other.do("become 65534")
        wait_for(other.tid, False)


def test_a_socket_is_of_no_use_to_another_process(tekd, tmp_path):
    with Other(tekd) as other:
        assert other.do("enter")["error"] == 0
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        channel.bind(str(tmp_path / "channel"))
        other.do(f"pass {tmp_path}/channel")
        _, fds, _, _ = socket.recv_fds(channel, 10, 1)
        stolen = Client(tekd.socket)
        stolen.socket.close()
        stolen.socket = socket.socket(fileno=fds[0])
        stolen.socket.settimeout(60)
        own = threading.get_native_id()
        stolen.send(ENTER, own)
        answer = stolen.receive()
        assert (answer.kind, answer.number) == (REFUSED, 0)
        assert not is_fast(own)
        stolen.close()
        channel.close()


def test_an_overrun_sends_the_thread_back_for_a_while(daemon):
    daemon.start(USUAL + 'budget = "50ms/1s"\n')
    with Other(daemon) as other:
        assert other.do("enter")["error"] == 0
        left = other.do("burn")
        assert left["error"] == errno.EDQUOT
        assert left["value"][0] > left["value"][1] >= 50_000_000
        again = other.do("enter")
        assert again["error"] == errno.EDQUOT and "budget" in again["text"]
        status = daemon.client().json(STATUS)
        overrun, = status["overran"]
        assert (overrun["tid"], overrun["window_ms"], overrun["banned_ms"]) == (other.tid,
                                                                                1000, 1000)
        assert status["refused"][0]["why"] == again["text"]
        eventually(lambda: other.do("enter")["error"] == 0)
        assert other.do("burn")["error"] == errno.EDQUOT


@no_real_time_load
def test_when_ordinary_threads_do_not_run_everybody_goes_back(daemon, thread):
    client = daemon.start("canary_seconds = 1\n" + USUAL).client()
    tasks = f"/proc/{daemon.process.pid}/task"
    # A thread names itself once it runs.
    canary, = eventually(lambda: [int(tid) for tid in os.listdir(tasks)
                                  if read(f"{tasks}/{tid}/comm") == "tekd-canary\n"])
    assert client.ask(ENTER, thread).error == 0
    with Stopped(canary):
        left = client.notice()
        assert (left.kind, left.error) == (LEFT, errno.EDQUOT)
        assert "ordinary threads did not run" in left.text
        assert not is_fast(thread)
        assert client.ask(ENTER, thread).error == errno.EDQUOT
    eventually(lambda: client.ask(ENTER, thread).error == 0)


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


def test_where_tekd_may_not_raise_limits_it_makes_each_switch_itself(daemon, as_nobody,
                                                                     open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start("[[grant]]\nusers = [65534]\nlimit = true\n",
                 prefix=["setpriv", "--bounding-set=-sys_resource"])
    with Other(daemon, prefix=as_nobody) as other:
        assert other.do("hello")["error"] == 0
        assert other.do("enter")["error"] == 0
        assert is_fast(other.tid)
        line, = [line for line in read(f"/proc/{other.tid}/limits").splitlines()
                 if "realtime priority" in line]
        assert line.split()[3:5] == ["0", "0"]
    daemon.logs("tekd goes on making each switch itself")


def test_a_trusted_program_may_switch_by_itself_where_tekd_may_raise_limits(daemon):
    client = daemon.start(USUAL + "limit = true\n").client()
    before = resource.getrlimit(resource.RLIMIT_RTPRIO)
    granted = client.ask(HELLO).value[0]
    if before[0] >= 50:
        assert granted == 3
    elif granted == 1:
        assert resource.getrlimit(resource.RLIMIT_RTPRIO) == before
        daemon.logs("CAP_SYS_RESOURCE")
    else:
        assert resource.getrlimit(resource.RLIMIT_RTPRIO)[0] == 50
        client.close()
        eventually(lambda: resource.getrlimit(resource.RLIMIT_RTPRIO) == before)


# Hostile clients


def test_what_is_no_request_ends_the_connection_and_gives_nothing(tekd, thread):
    generator = random.Random(6)
    good = tekd.client()
    before, size = scheduling(thread), resident(tekd)
    for n in range(2000):
        match n % 4:
            case 0:
                packet = generator.randbytes(generator.randrange(1, 300))
            case 1:
                packet = request(ENTER, n, thread)[: generator.randrange(1, 64)]
            case 2:
                packet = bytearray(request(generator.randrange(1, 9), n, generator.getrandbits(32)))
                packet[generator.randrange(64)] ^= 1 << generator.randrange(8)
            case _:
                packet = request(ENTER, n, thread) + bytes(generator.randrange(1, 5000))
        client = tekd.client()
        client.socket.send(bytes(packet))
        try:
            answer = client.receive()
            assert answer.kind == REFUSED or n % 4 == 2
        except Closed:
            pass
        client.close()
        if n % 100 == 0:
            assert good.ask(HELLO).error == 0
    assert scheduling(thread) == before
    assert resident(tekd) < size + 2048


def resident(daemon):
    """KiB."""
    status = read(f"/proc/{daemon.process.pid}/status")
    return int(status.split("VmRSS:")[1].split()[0])


def test_a_replayed_request_gives_no_more_than_the_first(daemon, thread):
    client = daemon.start(USUAL + "threads = 1\n").client()
    packet = request(ENTER, 7, thread)
    for _ in range(50):
        client.socket.send(packet)
        answer = client.receive()
        assert (answer.number, answer.error) == (7, 0)
    assert len(client.json(STATUS)["fast"]) == 1


def test_descriptors_that_a_client_passes_are_closed(tekd):
    before = len(os.listdir(f"/proc/{tekd.process.pid}/fd"))
    for _ in range(20):
        client = tekd.client()
        with open("/dev/null", "rb") as file:
            try:
                socket.send_fds(client.socket, [request(HELLO, 1)], [file.fileno()] * 50)
            except OSError:
                pass  # newer kernels refuse it themselves
        client.close()
    eventually(lambda: len(os.listdir(f"/proc/{tekd.process.pid}/fd")) <= before)


def test_of_600_connections_some_are_sent_away_and_the_rest_is_served(tekd, thread):
    first = tekd.client()
    assert first.ask(HELLO).error == 0
    clients, away = [], 0
    for _ in range(600):
        client = tekd.client()
        try:
            client.send(HELLO)
            served = client.receive().kind == HELLO
        except (Closed, BrokenPipeError):
            served = False
        clients.append(client)
        away += not served
    assert away >= 600 - 64
    assert first.ask(ENTER, thread).error == 0
    for client in clients:
        client.close()
    eventually(lambda: tekd.client().ask(HELLO).error == 0)


def test_a_client_that_does_not_read_is_dropped(tekd, thread):
    client, good = tekd.client(), tekd.client()
    client.socket.setblocking(False)
    with pytest.raises(OSError):
        for _ in range(100_000):
            try:
                client.send(STATUS)
            except BlockingIOError:
                time.sleep(0.001)
    assert good.ask(ENTER, thread).error == 0
    eventually(lambda: good.json(STATUS)["counts"]["connections"] == 1)


def test_more_requests_than_anybody_needs_are_refused(tekd):
    client = tekd.client()
    errors = {client.ask(GROUP, 1).error for _ in range(20)}
    assert errors == {errno.EOPNOTSUPP}
    end = time.monotonic() + 20
    while errno.EBUSY not in errors and time.monotonic() < end:
        for _ in range(8):
            client.send(GROUP, 1)
        errors |= {client.receive().error for _ in range(8)}
    if errno.EBUSY not in errors:
        pytest.skip("this machine is too slow to ask so often")


def test_a_user_without_rights_gets_nothing(daemon, open_directory, as_nobody):
    script = open_directory / "nobody.py"
    script.write_text(NOBODY)
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(USUAL)
    ended = subprocess.run([*as_nobody, "/usr/bin/python3", str(script), str(daemon.socket)],
                           capture_output=True, text=True, timeout=60, check=False)
    if "Permission denied" in ended.stderr and "python" in ended.stderr:
        pytest.skip("nobody may not run python3 here")
    assert ended.stdout.split() == [str(errno.EPERM)] * 4, ended.stderr


NOBODY = r"""
import os, socket, struct, sys
client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
client.connect(sys.argv[1])
for kind, tid in (1, 0), (2, os.getpid()), (7, os.getpid()), (7, os.getppid()):
    client.send(struct.pack("<IHHIIQQiII5I", 0x514B4554, 1, kind, 1, tid, *[0] * 10))
    print(struct.unpack_from("<i", client.recv(200), 16)[0])
"""


# tekd itself


def test_a_clean_stop_gives_everything_back_and_leaves_no_file(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    assert tekd.end() == 0
    assert scheduling(thread) == before
    assert sorted(path.name for path in tekd.directory.iterdir()) == ["log", "tekd.toml"]


def test_what_a_killed_tekd_left_is_undone_by_restore(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    tekd.end(signal.SIGKILL)
    assert is_fast(thread)
    ended = subprocess.run(tekd.command("--restore"), capture_output=True, text=True, timeout=60,
                           check=False)
    assert ended.returncode == 0 and ended.stdout.startswith("1 changes were undone")
    assert scheduling(thread) == before
    assert not tekd.state.exists()


def test_what_a_killed_tekd_left_is_undone_by_the_next_one(tekd, thread):
    before = scheduling(thread)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    tekd.end(signal.SIGKILL)
    tekd.start()
    assert scheduling(thread) == before
    assert tekd.client().ask(ENTER, thread).error == 0


def test_whenever_tekd_is_killed_everything_is_given_back(daemon):
    generator = random.Random(6)
    daemon.start(USUAL)
    with Other(daemon) as program:
        tids = [program.tid, threading.get_native_id()]
        before = [scheduling(tid) for tid in tids]
        for _ in range(50):
            client = daemon.client()
            end = time.monotonic() + generator.random() * 0.05
            killer = threading.Timer(end - time.monotonic(), daemon.process.kill)
            killer.start()
            try:
                while True:
                    kind, tid = generator.choice([(CRITICAL, program.tid), (NORMAL, program.tid),
                                                  (ENTER, tids[1]), (LEAVE, tids[1])])
                    client.ask(kind, tid, priority=generator.randrange(-20, 20)
                               if kind in (CRITICAL, ENTER) else 0)
            except (Closed, BrokenPipeError):
                pass
            daemon.process.wait(60)
            killer.join()
            if generator.random() < 0.5:
                subprocess.run(daemon.command("--restore"), timeout=60, check=True,
                               stdout=subprocess.DEVNULL)
                assert [scheduling(tid) for tid in tids] == before
                assert not daemon.state.exists()
            daemon.start()
            assert [scheduling(tid) for tid in tids] == before


def test_a_second_tekd_is_refused(tekd):
    ended = subprocess.run(tekd.command(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert str(tekd.process.pid) in ended.stderr
    assert tekd.client().ask(HELLO).error == 0


def test_a_configuration_is_read_again_and_a_bad_one_is_not(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    tekd.config.write_text("x = 1\n")
    tekd.process.send_signal(signal.SIGHUP)
    tekd.logs("tekd.toml:1:1")
    assert is_fast(thread) and client.ask(HELLO).error == 0
    tekd.config.write_text("grant = []\n")
    tekd.process.send_signal(signal.SIGHUP)
    left = client.notice()
    assert (left.kind, left.tid, left.error) == (LEFT, thread, errno.EPERM)
    assert not is_fast(thread)
    assert client.ask(ENTER, thread).error == errno.EPERM


def test_a_bad_configuration_is_reported_with_its_line(daemon):
    daemon.config.write_text("[[grant]]\nusers = [0]\nthread = 1\n")
    for options in [], ["--check"]:
        ended = subprocess.run(daemon.command(*options), capture_output=True, text=True, timeout=60,
                               check=False)
        assert ended.returncode == 1
        assert "tekd.toml:3:1: unknown field `thread`" in ended.stderr


def wake_ups(daemon):
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").glob("*/status")
    texts = filter(None, map(read, tasks))
    return sum(int(text.split("voluntary_ctxt_switches:")[1].split()[0]) for text in texts)


def test_tekd_sleeps_while_nothing_is_critical(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    assert client.ask(LEAVE, thread).error == 0
    # It stays awake for a second, and the canary's last run comes a little later.
    def sleeps():
        before = wake_ups(tekd)
        time.sleep(3)
        return wake_ups(tekd) == before

    time.sleep(1)
    eventually(sleeps)
    before = wake_ups(tekd)
    assert client.ask(ENTER, thread).error == 0
    eventually(lambda: wake_ups(tekd) > before + 10)


UNIT = TOP / "data" / "tekd.service"


def test_the_capabilities_of_its_unit_are_enough(daemon, as_nobody, open_directory):
    line, = [line for line in UNIT.read_text().splitlines()
             if line.startswith("CapabilityBoundingSet=")]
    wanted = line.removeprefix("CapabilityBoundingSet=").lower().replace("cap_", "").split()
    own = int(read("/proc/self/status").split("CapBnd:")[1].split()[0], 16)
    missed = {"sys_resource": 24, "syslog": 34, "perfmon": 38, "bpf": 39}  # in some containers
    held = [f"+{name}" for name in wanted if name not in missed or own >> missed[name] & 1]
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(f'[[grant]]\nusers = [65534]\nprograms = ["{shutil.which("sleep")}"]\n' + USUAL,
                 prefix=["setpriv", "--bounding-set=" + ",".join(["-all", *held]),
                         "--no-new-privs"])
    another = subprocess.Popen([*as_nobody, "sleep", "60"])
    try:
        eventually(lambda: sleeps_as(another.pid, "sleep"))
        client = daemon.client()
        assert client.ask(CRITICAL, another.pid).error == 0
        assert is_fast(another.pid)
        assert client.ask(ENTER, threading.get_native_id()).error == 0
        assert client.json(EXPLAIN, another.pid)["has"]["policy"] == "SCHED_RR"
        assert client.json(STATUS)["hears_of_exec"]
        assert scheduling(daemon.process.pid)[1] == 51
    finally:
        another.kill()
        another.wait()
    assert daemon.end() == 0
    assert "not locked" not in daemon.log.read_text()
    assert not daemon.state.exists() and not daemon.socket.exists()


def test_tekd_outranks_those_it_serves(tekd):
    assert scheduling(tekd.process.pid)[:2] == (os.SCHED_FIFO | 0x40000000, 51)


def test_status_and_explain_show_which_client_asked(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread, priority=-20).error == 0
    status = client.json(STATUS)
    assert status["domain"] == [f"pid:{os.getpid()}"]
    fast, = status["fast"]
    assert (fast["tid"], fast["rt_priority"], fast["priority"]) == (thread, 49, -20)
    assert fast["asked"][0]["pid"] == os.getpid()
    about = client.json(EXPLAIN, thread)
    assert about["region"] == "fast" and about["has"]["policy"] == "SCHED_RR"
    assert about["grant"] == f"{tekd.config}:1"
    other = client.json(EXPLAIN, 1)
    assert other["region"] == "lazy" and "process 1" in other["outside_domain"]
    assert client.ask(EXPLAIN, 2**22 + 5).error == errno.ESRCH


def test_the_starter_is_notified(daemon):
    daemon.config.write_text(USUAL)
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(f"\0tekd-test-{os.getpid()}")
    ear.settimeout(60)
    daemon.start(env={**os.environ, "NOTIFY_SOCKET": f"@tekd-test-{os.getpid()}"})
    assert ear.recv(1000).startswith(b"READY=1")
    daemon.end()
    assert ear.recv(1000).startswith(b"STOPPING=1")
    ear.close()
