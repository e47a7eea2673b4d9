# SPDX-License-Identifier: MIT OR Apache-2.0
"""A grant is temporary: a beneficiary without own rights keeps nothing, whatever it changes."""
import errno
import os
import shutil
import signal
import subprocess
import textwrap
import time

import pytest
from conftest import eventually, read
from paths import PROGRAMS
from tekd_client import CRITICAL, NORMAL, scheduling
from tekd_daemon import USUAL, daemon, pytestmark
from test_tekd_attacked import end, python

assert daemon and pytestmark  # which pytest finds by their names

NOBODY = 65534
FLAG = 0x40000000  # SCHED_RESET_ON_FORK
RR = os.SCHED_RR | FLAG
ORDINARY = (os.SCHED_OTHER, 0)
GRANT = f"[[grant]]\nusers = [{NOBODY}]\nrate = 10000\nthreads = 64\nuser_threads = 64\n"

# As the user nobody: executes one order a line, and prints the result. `change` is the attack.
BENEFICIARY = r"""
import ctypes, time
libc = ctypes.CDLL(None)
def to_nobody():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: its files in /proc are its own
def burn():
    end = time.monotonic() + 20  # real-time load ends, whatever tekd does
    while os.sched_getscheduler(0) == RR_RESET and time.monotonic() < end:
        pass
to_nobody()
client, tid = Client(sys.argv[2]), threading.get_native_id()
print(tid, flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    if word == "enter":
        print(client.ask(ENTER, tid, priority=-20).error, flush=True)
    elif word == "leave":
        print(client.ask(LEAVE, tid).error, flush=True)
    elif word == "change":
        policy, priority = map(int, numbers)
        os.sched_setscheduler(0, policy, os.sched_param(priority))
        print(0, flush=True)
    elif word == "close":
        client.close()
        print(0, flush=True)
    elif word == "burn":
        burn()
        print(0, flush=True)
    elif word == "exec":
        os.execv(numbers[0], numbers)
"""


def policy(tid):
    """Policy with the flag, and the priority."""
    return scheduling(tid)[:2]


class Beneficiary:
    """A process of the user nobody, with one thread."""

    def __init__(self, daemon, program=BENEFICIARY):
        self.process = python(program, daemon.socket)
        self.tid = int(self.process.stdout.readline())

    def note(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def do(self, *words):
        self.note(*words)
        return int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)


@pytest.fixture
def granted(daemon, open_directory):
    """tekd, which serves the user nobody."""
    daemon.socket = open_directory / "run" / "tekd"
    return daemon.start(GRANT)


def restore(tekd):
    subprocess.run(tekd.command("--restore"), timeout=60, check=True)


def set_uid_copy(directory):
    program = directory / "sleep"
    shutil.copy("/bin/sleep", program)
    program.chmod(0o4755)
    return program


def end_the_grant(way, tekd, beneficiary, directory):
    """One of the ways in which a grant ends."""
    if way in ("leave", "close"):
        assert beneficiary.do(way) == 0
    elif way == "exec":
        beneficiary.note("exec", set_uid_copy(directory), 60)
        eventually(lambda: read(f"/proc/{beneficiary.tid}/comm") == "sleep\n")
    elif way == "stop":
        assert tekd.end() == 0
    else:
        tekd.end(signal.SIGKILL)
        restore(tekd) if way == "restore" else tekd.start()


WAYS = ["leave", "close", "exec", "stop", "restore", "start anew"]


@pytest.mark.parametrize("way", WAYS)
def test_a_policy_that_a_beneficiary_lowered_ends_with_the_grant(granted, open_directory, way):
    with Beneficiary(granted) as beneficiary:
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, 48) == 0
        assert policy(beneficiary.tid) == (RR, 48)
        end_the_grant(way, granted, beneficiary, open_directory)
        eventually(lambda: policy(beneficiary.tid) == ORDINARY)
        if way == "exec" and not os.statvfs(open_directory).f_flag & os.ST_NOSUID:
            assert read(f"/proc/{beneficiary.tid}/status").split("Uid:")[1].split()[1] == "0"


def test_a_policy_that_a_thread_lowered_ends_when_it_executes_a_program(granted):
    """It becomes the first thread of its process, with another id."""
    begin, rest = BENEFICIARY.split("to_nobody()\nclient", 1)
    live = textwrap.indent("client" + rest, "    ")
    with Beneficiary(granted, f"{begin}to_nobody()\ndef "
                              f"live():\n{live}\nthreading.Thread(target=live).start()\n"
                     ) as beneficiary:
        pid = beneficiary.process.pid
        assert beneficiary.tid != pid
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, 48) == 0
        beneficiary.note("exec", "/bin/sleep", 60)
        eventually(lambda: read(f"/proc/{pid}/comm") == "sleep\n")
        eventually(lambda: policy(pid) == ORDINARY)


def test_a_policy_that_a_beneficiary_lowered_ends_with_an_overrun(daemon, open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(GRANT + 'budget = "50ms/10s"\n')
    with Beneficiary(daemon) as beneficiary:
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, 48) == 0
        assert beneficiary.do("burn") == 0
        eventually(lambda: policy(beneficiary.tid) == ORDINARY)
        assert beneficiary.do("enter") == errno.EDQUOT


@pytest.mark.parametrize("way", ["its time is over", "it is made normal", "tekd ends"])
def test_a_policy_that_root_gave_by_hand_ends_too(daemon, open_directory, way):
    daemon.socket = open_directory / "run" / "tekd"
    client = daemon.start(GRANT + USUAL).client()
    with Beneficiary(daemon) as beneficiary:
        assert client.ask(CRITICAL, beneficiary.tid, priority=-20).error == 0
        assert beneficiary.do("change", RR, 48) == 0
        if way == "its time is over":
            until = time.monotonic_ns() + 1_000_000_000
            assert client.ask(CRITICAL, beneficiary.tid, priority=-20, until=until).error == 0
        elif way == "it is made normal":
            assert client.ask(NORMAL, beneficiary.tid).error == 0
        elif way == "tekd ends":
            assert daemon.end() == 0
        eventually(lambda: policy(beneficiary.tid) == ORDINARY)


@pytest.mark.parametrize("priority", [1, 10, 49])
def test_each_priority_up_to_the_granted_one_is_the_grants(granted, priority):
    with Beneficiary(granted) as beneficiary:
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, priority) == 0
        assert beneficiary.do("leave") == 0
        assert policy(beneficiary.tid) == ORDINARY


def test_an_ordinary_policy_that_a_beneficiary_chose_stays_without_the_flag_of_tekd(granted):
    with Beneficiary(granted) as beneficiary:
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", os.SCHED_BATCH | FLAG, 0) == 0
        assert beneficiary.do("leave") == 0
        assert policy(beneficiary.tid) == (os.SCHED_BATCH, 0)


def test_a_thread_does_not_leave_sched_idle_by_a_grant(granted):
    with Beneficiary(granted) as beneficiary:
        os.sched_setscheduler(beneficiary.tid, os.SCHED_IDLE, os.sched_param(0))
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", os.SCHED_OTHER | FLAG, 0) == 0
        assert beneficiary.do("leave") == 0
        assert policy(beneficiary.tid) == (os.SCHED_IDLE, 0)


def test_a_narrower_range_counts_for_a_beneficiary_that_lowered_itself(granted):
    with Beneficiary(granted) as beneficiary:
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, 48) == 0
        granted.config.write_text("real_time = [1, 20]\n" + GRANT)
        granted.process.send_signal(signal.SIGHUP)
        eventually(lambda: policy(beneficiary.tid) == (RR, 20))


@pytest.mark.parametrize(("chosen", "priority"), [(os.SCHED_FIFO | FLAG, 60), (os.SCHED_RR, 20)],
                         ids=["above the granted one", "without the flag"])
def test_what_only_a_privileged_process_can_have_set_stays(granted, chosen, priority):
    with Beneficiary(granted) as beneficiary:
        assert beneficiary.do("enter") == 0
        os.sched_setscheduler(beneficiary.tid, chosen, os.sched_param(priority))
        assert beneficiary.do("leave") == 0
        assert policy(beneficiary.tid) == (chosen, priority)


def test_a_thread_with_cap_sys_nice_keeps_what_it_set(daemon):
    daemon.start(USUAL)
    program = BENEFICIARY.replace("\nto_nobody()\n", "\n")
    with Beneficiary(daemon, program) as beneficiary:
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, 48) == 0
        assert beneficiary.do("leave") == 0
        assert policy(beneficiary.tid) == (RR, 48)


def test_capabilities_in_a_namespace_of_users_are_no_right(granted):
    program = BENEFICIARY.replace("\nto_nobody()\n", r"""
to_nobody()
if libc.unshare(0x10000000):  # CLONE_NEWUSER
    print("none", flush=True)
for name, text in ("setgroups", "deny"), ("uid_map", "65534 65534 1"), ("gid_map", "65534 65534 1"):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
""")
    try:
        beneficiary = Beneficiary(granted, program)
    except ValueError:
        pytest.skip("users may have no user namespaces here")
    with beneficiary:
        capabilities = int(read(f"/proc/{beneficiary.tid}/status").split("CapPrm:")[1].split()[0],
                           16)
        assert capabilities >> 23 & 1  # CAP_SYS_NICE
        assert beneficiary.do("enter") == 0
        assert beneficiary.do("change", RR, 48) == 0
        assert beneficiary.do("leave") == 0
        assert policy(beneficiary.tid) == ORDINARY


RACER = (PROGRAMS / "racer.c").read_text()


def test_a_process_that_sets_a_policy_at_the_moment_of_its_end_does_not_keep_it(
        granted, compile_c, as_nobody):
    """The kernel checks a caller's right before it locks the thread: a call may come in between."""
    racer = compile_c(RACER, "cc", "-O1", "-D_GNU_SOURCE", "-pthread")
    beneficiaries = [Beneficiary(granted) for _ in range(6)]
    tids = [beneficiary.tid for beneficiary in beneficiaries]
    racers = subprocess.Popen([*as_nobody, str(racer), "20", *map(str, tids)],
                              stdout=subprocess.PIPE)
    try:
        assert racers.stdout.readline() == b"ready\n"
        begin = time.monotonic()
        while time.monotonic() < begin + 3:
            for beneficiary in beneficiaries:
                assert beneficiary.do("enter") == 0
            for beneficiary in beneficiaries:
                assert beneficiary.do("leave") == 0
        eventually(lambda: all(policy(tid)[0] & ~FLAG == os.SCHED_OTHER for tid in tids))
    finally:
        racers.kill()
        racers.communicate(timeout=60)
        for beneficiary in beneficiaries:
            end(beneficiary.process)
