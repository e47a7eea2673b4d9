# SPDX-License-Identifier: MIT OR Apache-2.0
"""A thread of a program is lifted while a critical thread waits for its lock or its answer."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import eventually, needs
from tekd_client import CRITICAL, NORMAL, RR_RESET, STATUS, scheduling
from tekd_daemon import Daemon
from tekd_daemon import pytestmark as of_tekd

# Other tests give real-time threads work for the same programs of the kernel.
pytestmark = [*of_tekd, pytest.mark.alone("kernel threads")]

GRANT = '[[grant]]\nusers = ["root"]\nrate = 10000\n'
KILLS = int(os.environ.get("TEK_KILLS", "10"))

# MODE [TID]: a waiter that becomes critical, and a thread that holds what it waits for. Prints
# both tids. `go` on standard input lets the waiter wait, `give` lets the holder give, and each is
# answered by a line when it is done. Polling has no owner and no receiver.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct common {
	pthread_mutex_t mutex;
	atomic_int go, gone, give, given, holds, tids[3];
} *common;
static pthread_mutex_t private = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], answer[2], behind[2], answer_behind[2];
static const char *mode;

static void until(atomic_int *number, int reached)
{
	while (atomic_load(number) < reached)
		usleep(1000);
}

static int self(void)
{
	return (int)syscall(SYS_gettid);
}

static int is(const char *what)
{
	return !strcmp(mode, what);
}

static void *hold(void *mutex)
{
	atomic_store(&common->tids[1], self());
	for (int n = 1;; n++) {
		pthread_mutex_lock(mutex);
		atomic_store(&common->holds, n);
		until(&common->give, n);
		pthread_mutex_unlock(mutex);
		atomic_store(&common->given, n);
		until(&common->gone, n);
	}
}

static void *serve(void *unused)
{
	char byte;

	atomic_store(&common->tids[1], self());
	for (int n = 1;; n++) {
		if (read(ask[0], &byte, 1) != 1)
			exit(0);
		if (is("chain") && (write(behind[1], &byte, 1) != 1 ||
				    read(answer_behind[0], &byte, 1) != 1))
			exit(1);
		if (!is("chain"))
			until(&common->give, n);
		if (write(answer[1], &byte, 1) != 1)
			exit(1);
		atomic_store(&common->given, n);
	}
	return unused;
}

static void serve_server(void)
{
	char byte;

	atomic_store(&common->tids[2], self());
	for (int n = 1; read(behind[0], &byte, 1) == 1; n++) {
		until(&common->give, n);
		if (write(answer_behind[1], &byte, 1) != 1)
			exit(1);
	}
}

static void *wait_again(void *mutex)
{
	char byte = 'x';

	atomic_store(&common->tids[0], self());
	for (int n = 1;; n++) {
		until(&common->go, n);
		if (mutex) {
			until(&common->holds, n);
			pthread_mutex_lock(mutex);
			pthread_mutex_unlock(mutex);
		} else if (write(ask[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1) {
			exit(1);
		}
		atomic_store(&common->gone, n);
	}
}

static void start(void *(*routine)(void *), void *mutex)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, routine, mutex))
		exit(1);
}

static void in_child(void (*run)(void *), void *of)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(of);
		exit(0);
	}
}

static void hold_there(void *mutex)
{
	hold(mutex);
}

static void serve_there(void *unused)
{
	if (is("other-user") && (setuid(65534) || prctl(PR_SET_PDEATHSIG, SIGKILL)))
		exit(1);
	serve(unused);
}

static void serve_server_there(void *unused)
{
	(void)unused;
	serve_server();
}

static void pairs(void)
{
	int kind = is("stream") ? SOCK_STREAM : is("seqpacket") ? SOCK_SEQPACKET : SOCK_DGRAM;

	if (is("pipe") || is("chain") || is("other-user")) {
		if (pipe(ask) || pipe(answer) || pipe(behind) || pipe(answer_behind))
			exit(1);
		return;
	}
	if (socketpair(AF_UNIX, kind, 0, ask) || socketpair(AF_UNIX, kind, 0, answer))
		exit(1);
}

static void prepare(int argc, char **argv)
{
	pthread_mutexattr_t shared;
	int is_lock = is("private") || is("shared") || is("forged-private") || is("forged-shared");
	void *mutex = is("private") || is("forged-private") ? &private : &common->mutex;

	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&common->mutex, &shared);
	if (argc > 2) { /* a lock that another thread seems to hold */
		int *words = mutex;
		words[0] = 2;
		words[2] = atoi(argv[2]);
		atomic_store(&common->tids[1], words[2]);
		atomic_store(&common->holds, 1000000);
	} else if (is("shared")) {
		in_child(hold_there, mutex);
	} else if (is("private")) {
		start(hold, mutex);
	} else {
		pairs();
		in_child(serve_there, NULL);
		if (is("chain"))
			in_child(serve_server_there, NULL);
	}
	start(wait_again, is_lock ? mutex : NULL);
}

int main(int argc, char **argv)
{
	char line[64];
	int n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mode = argv[1];
	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	prepare(argc, argv);
	until(&common->tids[0], 1);
	until(&common->tids[1], 1);
	if (is("chain"))
		until(&common->tids[2], 1);
	printf("%d %d %d\n", common->tids[0], common->tids[1], common->tids[2]);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "go", 2)) {
			atomic_store(&common->go, ++n);
		} else {
			atomic_store(&common->give, n);
			until(&common->gone, n);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""


class Program:
    def __init__(self, path, mode, *arguments):
        self.process = subprocess.Popen([path, mode, *map(str, arguments)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        tids = self.process.stdout.readline().split()
        self.waiter, self.holder, self.behind = map(int, tids)

    def do(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def program(compile_c):
    path, programs = compile_c(PROGRAM, "cc", "-pthread", "-O1"), []

    def start(mode, *arguments):
        programs.append(Program(path, mode, *arguments))
        return programs[-1]
    yield start
    for one in programs:
        one.end()


@pytest.fixture
def hogs():
    """More busy ordinary threads than CPUs."""
    busy = f"import time\nwhile time.process_time() < 60: pass"
    count = len(os.sched_getaffinity(0)) + 2
    processes = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(count)]
    yield
    for one in processes:
        one.kill()
        one.wait()


@pytest.fixture
def inheriting(tmp_path, real_time):
    """Starts a tekd under which threads inherit, if this machine allows it."""
    memory = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tek-test-", dir=memory))
    daemon = Daemon(tmp_path)
    daemon.state = directory / "state"

    def start(more="", grants=GRANT):
        daemon.start(f'backend = "rt"\nprotected = []\n[inherit]\n{more}\n{grants}')
        return daemon
    yield start
    if daemon.process and daemon.process.poll() is None:
        assert daemon.end() == 0
    shutil.rmtree(directory, ignore_errors=True)


def inherit(daemon):
    return daemon.client().json(STATUS)["inherit"]


def make_critical(daemon, tid):
    """Makes a thread critical, and waits until the programs watch it; its priority."""
    answer = daemon.client().ask(CRITICAL, tid)
    assert answer.error == 0, answer.text
    eventually(lambda: inherit(daemon)["why"] != "its programs are being loaded")
    info = inherit(daemon)
    if not info["on"] or info["locks"] is not True or info["answers"] is not True:
        pytest.skip(f"threads cannot inherit here: {info}")
    return answer.rt_priority


def is_lifted(tid, priority):
    return scheduling(tid)[:2] == (RR_RESET, priority)


def waits_until_lifted(one, tid, priority):
    """Lets the waiter wait until the thread is lifted: the first wait may come too early, when no
    program watches it yet."""
    def is_there():
        one.do("go")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if is_lifted(tid, priority):
                return True
            time.sleep(0.002)
        one.do("give")
        return False
    eventually(is_there)


@pytest.mark.parametrize("mode", ["private", "shared", "pipe", "stream", "seqpacket", "dgram"])
def test_a_thread_is_lifted_while_a_critical_thread_waits_for_it_and_not_longer(
        inheriting, program, hogs, mode):
    daemon, one = inheriting("max_wait_ms = 10000"), program(mode)
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    for _ in range(3):
        waits_until_lifted(one, one.holder, priority - 1)
        one.do("give")
        eventually(lambda: scheduling(one.holder) == before)
    counts = inherit(daemon)["counts"]
    assert counts["lifts"] >= 3 and counts["lifted_ns"] > 0


def test_the_server_of_a_server_is_lifted_for_the_client(inheriting, program, hogs):
    daemon, one = inheriting("max_wait_ms = 10000"), program("chain")
    before = [scheduling(tid) for tid in (one.holder, one.behind)]
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.behind, priority - 1)
    eventually(lambda: is_lifted(one.holder, priority - 1))
    one.do("give")
    eventually(lambda: [scheduling(tid) for tid in (one.holder, one.behind)] == before)


def test_tekd_reports_a_lifted_thread_and_its_waiters(inheriting, program):
    daemon, one = inheriting(), program("private")
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    thread, = [it for it in inherit(daemon)["threads"] if it["tid"] == one.holder]
    assert (thread["priority"], thread["pid"]) == (priority - 1, one.process.pid)
    waiter, = thread["waiters"]
    assert (waiter["tid"], waiter["priority"]) == (one.waiter, priority)
    assert waiter["because"] == "lock" and waiter["lock"].startswith("0x")
    assert waiter["since_ns"] >= thread["since_ns"] > 0
    one.do("give")
    eventually(lambda: not inherit(daemon)["threads"])


def test_no_thread_is_lifted_for_an_ordinary_one(inheriting, program):
    daemon, one, other = inheriting(), program("private"), program("pipe")
    make_critical(daemon, other.waiter)
    one.do("go")
    time.sleep(0.5)
    assert not any(it["tid"] == one.holder for it in inherit(daemon)["threads"])
    one.do("give")


def test_no_thread_is_lifted_where_tekd_toml_forbids_it(inheriting, program):
    daemon = inheriting("locks = false\nanswers = false")
    one = program("private")
    assert daemon.client().ask(CRITICAL, one.waiter).error == 0
    before = scheduling(one.holder)
    one.do("go")
    time.sleep(0.5)
    assert scheduling(one.holder) == before and not inherit(daemon)["on"]
    one.do("give")


def test_a_server_that_never_answers_is_lifted_for_the_longest_wait_only(inheriting, program):
    daemon, one = inheriting("max_wait_ms = 200"), program("pipe")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    eventually(lambda: scheduling(one.holder) == before)
    eventually(lambda: inherit(daemon)["counts"]["too_long"] > 0)
    # The wait goes on, and the thread is not lifted again for it.
    time.sleep(0.5)
    assert scheduling(one.holder) == before
    one.do("give")
    # At the next question it is lifted again.
    waits_until_lifted(one, one.holder, priority - 1)
    one.do("give")


@pytest.mark.parametrize("mode", ["forged-private", "forged-shared"])
def test_a_lock_that_names_a_thread_of_another_process_lifts_nothing(inheriting, program, mode):
    daemon = inheriting()
    with subprocess.Popen(["sleep", "60"]) as victim:
        before = scheduling(victim.pid)
        one, other = program(mode, victim.pid), program("private")
        priority = make_critical(daemon, one.waiter)
        make_critical(daemon, other.waiter)
        waits_until_lifted(other, other.holder, priority - 1)  # so locks are watched now
        one.do("go")
        for _ in range(50):
            assert scheduling(victim.pid) == before
            time.sleep(0.02)
        assert not any(it["tid"] == victim.pid for it in inherit(daemon)["threads"])
        victim.kill()


def test_a_server_of_another_user_is_not_lifted(inheriting, program):
    daemon, one, other = inheriting(), program("other-user"), program("private")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    make_critical(daemon, other.waiter)
    waits_until_lifted(other, other.holder, priority - 1)
    one.do("go")
    for _ in range(25):
        assert scheduling(one.holder) == before
        time.sleep(0.02)
    eventually(lambda: inherit(daemon)["counts"]["not_allowed"] > 0)
    one.do("give")


def test_a_thread_that_is_real_time_by_itself_keeps_its_priority(inheriting, program):
    daemon, one = inheriting(), program("private")
    os.sched_setscheduler(one.holder, os.SCHED_FIFO, os.sched_param(3))
    make_critical(daemon, one.waiter)
    one.do("go")
    for _ in range(25):
        assert scheduling(one.holder)[:2] == (os.SCHED_FIFO, 3)
        time.sleep(0.02)
    one.do("give")


def test_a_lifted_thread_that_becomes_critical_gets_its_own_values_afterwards(inheriting, program):
    daemon, one = inheriting(), program("private")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    client = daemon.client()
    assert client.ask(CRITICAL, one.holder, priority=-20).error == 0
    assert is_lifted(one.holder, 49)
    one.do("give")
    assert is_lifted(one.holder, 49)
    assert client.ask(NORMAL, one.holder).error == 0
    eventually(lambda: scheduling(one.holder) == before)


def test_the_lift_ends_with_the_waiter(inheriting, program):
    daemon, one = inheriting(), program("shared")
    before = scheduling(one.holder)
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    assert daemon.client().ask(NORMAL, one.waiter).error == 0
    eventually(lambda: scheduling(one.holder) == before)


def test_with_nothing_critical_no_program_of_the_kernel_is_attached(inheriting, program):
    daemon, one = inheriting(), program("private")
    assert daemon.attached() == 0
    priority = make_critical(daemon, one.waiter)
    waits_until_lifted(one, one.holder, priority - 1)
    assert daemon.attached() > 0
    one.do("give")
    assert daemon.client().ask(NORMAL, one.waiter).error == 0
    eventually(lambda: daemon.attached() == 0)


def test_whenever_tekd_is_killed_no_thread_stays_lifted(inheriting, program):
    daemon, one = inheriting("max_wait_ms = 10000"), program("pipe")
    before = scheduling(one.holder)
    for _ in range(KILLS):
        priority = make_critical(daemon, one.waiter)
        waits_until_lifted(one, one.holder, priority - 1)
        daemon.process.kill()
        daemon.process.wait()
        assert is_lifted(one.holder, priority - 1)
        one.do("give")
        daemon.start()
        assert scheduling(one.holder) == before


# A D-Bus client that speaks the protocol itself: the first argument is `serve` or `call`.
BUS = r"""
import os, socket, struct, sys, threading
role, address = sys.argv[1], sys.argv[2]
bus = socket.socket(socket.AF_UNIX)
bus.connect(address)
uid = str(os.getuid()).encode().hex()
bus.sendall(b"\0AUTH EXTERNAL " + uid.encode() + b"\r\n")
assert bus.recv(4096).startswith(b"OK")
bus.sendall(b"BEGIN\r\n")
serial = 0

def text(value, code="<I"):
    data = value.encode()
    return struct.pack(code, len(data)) + data + b"\0"

def pad(data, to=8):
    return data + b"\0" * (-len(data) % to)

def send(kind, fields, body=b"", signature=None, reply=0):
    global serial
    serial += 1
    out = b""
    if signature:
        fields = {**fields, 8: signature}
    for code, value in fields.items():
        sign = {1: "o", 5: "u", 8: "g"}.get(code, "s")
        out = pad(out) + bytes([code]) + text(sign, "<B")
        if sign == "u":
            out = pad(out, 4) + struct.pack("<I", value)
        elif sign == "g":
            out += text(value, "<B")
        else:
            out = pad(out, 4) + text(value)
    head = struct.pack("<cBBBIII", b"l", kind, 0, 1, len(body), serial, len(out))
    bus.sendall(pad(head + out) + body)

def exactly(count):
    data = b""
    while len(data) < count:
        data += bus.recv(count - len(data)) or sys.exit("the bus hung up")
    return data

def receive():
    _, kind, _, _, body, number, fields = struct.unpack("<cBBBIII", exactly(16))
    return kind, number, exactly(fields + -fields % 8 + body)[:fields]

def sender(fields):
    at = fields.index(b"\x07\x01s\0")
    length, = struct.unpack_from("<I", fields, at + 4)
    return fields[at + 8:at + 8 + length].decode()

def call(member, to, path, interface, body=b"", signature=None):
    send(1, {1: path, 2: interface, 3: member, 6: to}, body, signature)

def answer():
    while (message := receive())[0] not in (2, 3):
        pass
    assert message[0] == 2

BUS = "org.freedesktop.DBus"
call("Hello", BUS, "/org/freedesktop/DBus", BUS)
answer()
if role == "serve":
    body = pad(text("org.example.Service"), 4) + struct.pack("<I", 0)
    call("RequestName", BUS, "/org/freedesktop/DBus", BUS, body, "su")
    answer()
    print(threading.get_native_id(), flush=True)
    while True:
        kind, number, fields = receive()
        if kind == 1:
            sys.stdin.readline()
            send(2, {5: number, 6: sender(fields)})
print(threading.get_native_id(), flush=True)
for line in sys.stdin:
    call("Ask", "org.example.Service", "/", "org.example.Service")
    answer()
    print("answered", flush=True)
"""


@pytest.fixture
def bus(tmp_path):
    """A bus daemon, the pid of it, a service and a client."""
    needs("dbus-daemon")
    address = tempfile.mktemp(prefix="tek-test-bus-")
    config = tmp_path / "bus.conf"
    config.write_text(f'<busconfig><type>session</type><listen>unix:path={address}</listen>'
                      '<auth>EXTERNAL</auth><policy context="default"><allow send_destination="*"'
                      ' eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>'
                      '</busconfig>')
    processes = [subprocess.Popen(["dbus-daemon", f"--config-file={config}", "--nofork"])]
    eventually(lambda: os.path.exists(address))
    for role in ("serve", "call"):
        processes.append(subprocess.Popen([sys.executable, "-c", BUS, role, address], text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        processes[-1].tid = int(processes[-1].stdout.readline())
    yield processes
    for one in processes:
        one.kill()
        one.wait()
    os.unlink(address)


def test_a_service_of_the_bus_is_lifted_for_its_client(inheriting, bus, hogs):
    daemon = inheriting("max_wait_ms = 10000")
    _, service, client = bus
    before = scheduling(service.tid)
    priority = make_critical(daemon, client.tid)

    def command(one):
        one.stdin.write("go\n")
        one.stdin.flush()

    def is_lifted_once():
        command(client)
        end = time.monotonic() + 1
        while not (lifted := is_lifted(service.tid, priority - 1)) and time.monotonic() < end:
            time.sleep(0.002)
        if not lifted:
            command(service)
            assert client.stdout.readline() == "answered\n"
        return lifted
    eventually(is_lifted_once)
    command(service)
    assert client.stdout.readline() == "answered\n"
    eventually(lambda: scheduling(service.tid) == before)
