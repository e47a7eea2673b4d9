# SPDX-License-Identifier: MIT OR Apache-2.0
"""No client gets anything from tekd in another one's name: by forged credentials, sockets of other
processes, reused ids, set-uid programs, namespaces."""
import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from conftest import eventually, needs, read
from paths import ABI, E2E
from tekd_client import ENTER, HELLO, REFUSED, STATUS, Client, Closed, is_fast, request, scheduling
from tekd_daemon import USUAL, daemon, pytestmark, tekd, thread, wait_for
from test_tekd_attacked import end, python

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names

NOBODY = 65534
SCM_CREDENTIALS = 2


def send_as(client, packet, pid, uid):
    credentials = struct.pack("3i", pid, uid, uid)
    client.socket.sendmsg([packet], [(socket.SOL_SOCKET, SCM_CREDENTIALS, credentials)])


# Credentials


def test_credentials_of_another_process_are_refused_even_of_root(tekd, thread):
    victim = subprocess.Popen(["sleep", "60"])
    try:
        for pid in victim.pid, 1, tekd.process.pid, os.getppid():
            client = tekd.client()
            try:
                send_as(client, request(ENTER, 1, thread), pid, 0)
            except PermissionError:
                pytest.skip("the kernel lets this root not forge credentials")
            answer = client.receive()
            assert (answer.kind, answer.number) == (REFUSED, 0)
            with pytest.raises(Closed):
                client.receive()
            assert not is_fast(thread) and not is_fast(victim.pid)
    finally:
        victim.kill()
        victim.wait()


def test_another_uid_in_credentials_gives_no_more(daemon, open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(USUAL)
    # A set-uid program that has dropped its rights: the kernel still lets it pass root's uid.
    program = r"""
import struct
os.setresuid(65534, 65534, 0)
client = Client(sys.argv[2])
tid = threading.get_native_id()
for uid in 0, 65534:
    credentials = struct.pack("3i", os.getpid(), uid, os.getgid())
    client.socket.sendmsg([request(ENTER, 1, tid)], [(socket.SOL_SOCKET, 2, credentials)])
    print(client.receive().error, flush=True)
print(is_fast(tid), flush=True)
"""
    process = python(program, daemon.socket)
    try:
        assert process.stdout.readline() == f"{errno.EPERM}\n"
        assert process.stdout.readline() == f"{errno.EPERM}\n"
        assert process.stdout.readline() == "False\n"
    finally:
        end(process)


# Sockets of other processes


def test_a_child_that_inherits_a_socket_gets_nothing_by_it(tekd):
    client = tekd.client()
    assert client.ask(HELLO).error == 0
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        tid = threading.get_native_id()
        try:
            client.send(ENTER, tid)
            answer = client.receive()
            seen = [answer.kind, answer.number, is_fast(tid)]
        except OSError:
            seen = None
        os.write(writing, json.dumps(seen).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(os.read(reading, 100)) == [REFUSED, 0, False]
    os.close(reading)
    os.close(writing)


def test_what_a_child_keeps_open_ends_with_the_process_that_opened_it(tekd):
    program = r"""
client = Client(sys.argv[2])
tid = threading.get_native_id()
print(client.ask(ENTER, tid).error, flush=True)
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
sys.stdin.readline()
"""
    process = python(program, tekd.socket)
    assert process.stdout.readline() == "0\n"
    child = int(process.stdout.readline())
    try:
        assert not is_fast(child)
        end_now(process)
        client = tekd.client()
        eventually(lambda: client.json(STATUS)["counts"]["connections"] == 1)
        assert not client.json(STATUS)["fast"] and not is_fast(child)
    finally:
        os.kill(child, signal.SIGKILL)


def end_now(process):
    process.kill()
    process.wait(60)
    process.stdin.close()
    process.stdout.close()


# Reused ids

# PID: a process with that id, which sleeps until standard input ends.
BORN_AS = r"""
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t pid = atoi(argv[argc - 1]);
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
	char byte;
	long child = syscall(SYS_clone3, &args, sizeof(args));
	if (child < 0) {
		perror("clone3");
		return 1;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
		for (;;)
			pause();
	}
	puts("born");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
"""


class Namesake:
    """A process with an id that another one had."""

    def __init__(self, program, pid):
        time.sleep(0.05)  # start times are in ticks
        self.pid = pid
        self.process = subprocess.Popen([str(program), str(pid)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "born\n":
            pytest.skip("no process can be born with a given id here: "
                        f"{self.process.communicate()[1]}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.communicate(timeout=60)


@pytest.fixture(scope="session")
def born_as(compile_c):
    return compile_c(BORN_AS, "cc")


ENTERING = r"""
client = Client(sys.argv[2])
tid = threading.get_native_id()
if sys.argv[3] == "ask":
    print(client.ask(ENTER, tid).error, flush=True)
    sys.stdin.readline()
else:
    client.send(ENTER, tid)
    if os.fork():
        os._exit(0)
    os.close(1)
    time.sleep(60)  # so that the connection stays
"""


def test_a_process_that_is_born_with_the_id_of_a_client_gets_nothing_and_keeps_what_it_has(
        tekd, born_as):
    process = python(ENTERING, tekd.socket, "ask")
    assert process.stdout.readline() == "0\n" and is_fast(process.pid)
    tekd.process.send_signal(signal.SIGSTOP)
    end_now(process)
    try:
        with Namesake(born_as, process.pid) as namesake:
            os.sched_setscheduler(namesake.pid, os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, namesake.pid, 7)
            before = scheduling(namesake.pid)
            tekd.process.send_signal(signal.SIGCONT)
            client = tekd.client()
            assert client.ask(HELLO).error == 0
            eventually(lambda: not client.json(STATUS)["fast"])
            assert [peer["pid"] for peer in client.json(STATUS)["clients"]] == [os.getpid()]
            assert scheduling(namesake.pid) == before
    finally:
        tekd.process.send_signal(signal.SIGCONT)


def test_what_a_client_asked_before_it_ended_is_not_given_to_a_process_with_its_id(tekd, born_as):
    tekd.process.send_signal(signal.SIGSTOP)
    heir = None
    try:
        process = python(ENTERING, tekd.socket, "leave")
        process.wait(60)
        heir = int(eventually(lambda: children_that_sleep(process.pid)))
        with Namesake(born_as, process.pid) as namesake:
            tekd.process.send_signal(signal.SIGCONT)
            client = tekd.client()
            assert client.ask(HELLO).error == 0
            status = client.json(STATUS)
            assert not is_fast(namesake.pid) and not status["fast"]
            assert [peer["pid"] for peer in status["clients"]] == [os.getpid()]
            assert status["counts"]["granted"] == 0
    finally:
        tekd.process.send_signal(signal.SIGCONT)
        if heir:
            os.kill(heir, signal.SIGKILL)
        process.stdin.close()
        process.stdout.close()


def children_that_sleep(group):
    """A process with the arguments of ENTERING, and another id."""
    for directory in os.listdir("/proc"):
        if directory.isdigit() and int(directory) != group:
            command = read(f"/proc/{directory}/cmdline")
            if "\0leave\0" in command and "client.send(ENTER, tid)" in command:
                return directory
    return None


def test_a_restore_leaves_a_process_with_the_id_of_a_dead_client_alone(tekd, born_as):
    process = python(ENTERING, tekd.socket, "ask")
    assert process.stdout.readline() == "0\n"
    tekd.end(signal.SIGKILL)
    had = scheduling(process.pid)
    end_now(process)
    with Namesake(born_as, process.pid) as namesake:
        # Exactly the scheduling that tekd had set for the other process.
        os.sched_setscheduler(namesake.pid, had[0], os.sched_param(had[1]))
        ended = subprocess.run(tekd.command("--restore"), capture_output=True, text=True,
                               timeout=60, check=False)
        assert ended.returncode == 0 and ended.stdout.startswith("0 changes were undone; 1 were")
        assert scheduling(namesake.pid)[:2] == had[:2]


# Set-uid programs

# FD: a set-uid program that a client executes prints its user ids, policy and limit, and whether
# tekd grants its request on the client's connection.
SET_UID = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "tek_abi.h"

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct tek_request request = {.magic = TEK_REQUEST_MAGIC, .version = TEK_SOCKET_VERSION,
		.kind = TEK_ASK_ENTER, .number = 9, .tid = (tek_u32)getpid()};
	struct tek_reply reply = {0};
	struct rlimit limit;
	double begin = now();
	int fd = atoi(argv[argc - 1]), granted = 0;

	while (sched_getscheduler(0) != SCHED_OTHER && now() - begin < 30)
		usleep(100);
	double took = now() - begin;
	send(fd, &request, sizeof(request), MSG_NOSIGNAL);
	while (recv(fd, &reply, sizeof(reply), 0) == sizeof(reply))
		if (reply.number == 9 && !reply.error)
			granted = 1;
	getrlimit(RLIMIT_RTPRIO, &limit);
	printf("%d %d %d %d %f %ld\n", (int)geteuid(), (int)getuid(), sched_getscheduler(0),
	       granted, took, (long)limit.rlim_cur);
	return 0;
}
"""


@pytest.mark.parametrize("of", ["first", "other"])
def test_a_set_uid_program_holds_nothing_of_what_its_caller_was_granted(daemon, open_directory,
                                                                        compile_c, of):
    program = compile_c(SET_UID, "cc", "-I",
                        str(ABI))
    os.chmod(program, 0o4755)
    daemon.socket = open_directory / "run" / "tekd"
    # Root may have a grant of its own: the rights of the caller must go nevertheless.
    daemon.start(f"[[grant]]\nusers = [{NOBODY}, 0]\n")
    caller = r"""
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
client = Client(sys.argv[2])
os.set_inheritable(client.socket.fileno(), True)
def execute():
    print(client.ask(ENTER, threading.get_native_id()).error, flush=True)
    os.execv(sys.argv[3], [sys.argv[3], str(client.socket.fileno())])
if sys.argv[4] == "first":
    execute()
threading.Thread(target=execute).start()
time.sleep(60)
"""
    process = python(caller, daemon.socket, program, of)
    try:
        assert process.stdout.readline() == "0\n"
        euid, uid, policy, granted, took, limit = process.stdout.readline().split()
        if euid != "0":
            pytest.skip("set-uid programs are not in force here (nosuid)")
        assert (uid, policy, granted) == (str(NOBODY), str(os.SCHED_OTHER), "0")
        assert float(took) < 20 and int(limit) < 10
        client = daemon.client()
        assert client.ask(HELLO).error == 0
        eventually(lambda: not client.json(STATUS)["fast"])
        assert [peer["pid"] for peer in client.json(STATUS)["clients"]] == [os.getpid()]
    finally:
        end(process)


# Namespaces


def ask_in(daemon, *prefix):
    """HELLO and ENTER of a client started so: both errors, the reason, whether it is Fast."""
    program = r"""
client = Client(sys.argv[2])
own = int(os.readlink("/proc/self"))
print("\n".join([str(client.ask(HELLO).error), str((answer := client.ask(ENTER, own)).error),
                 answer.text,
                 str(os.sched_getscheduler(0) == RR_RESET)]), flush=True)
sys.stdin.readline()
"""
    begin = "import sys\nsys.path.insert(0, sys.argv[1])\nfrom tekd_client import *\n"
    directory = str(E2E)
    ended = subprocess.run([*prefix, sys.executable, "-c", begin + program, directory,
                            str(daemon.socket)],
                           input="\n", capture_output=True, text=True, timeout=60, check=False)
    if ("unshare" in ended.stderr or "setpriv" in ended.stderr
        or "Permission denied" in ended.stderr):
        pytest.skip(f"cannot be done here: {ended.stderr.splitlines()[-1]}")
    hello, enter, text, fast = ended.stdout.splitlines()
    return int(hello), int(enter), text, fast


def test_a_client_in_a_pid_namespace_gets_nothing_but_the_reason(tekd):
    hello, enter, text, fast = ask_in(tekd, needs("unshare"), "--pid", "--fork")
    assert (hello, enter, fast) == (errno.EOPNOTSUPP, errno.EOPNOTSUPP, "False")
    assert "pid namespace" in text


def test_root_of_a_user_namespace_has_the_rights_of_its_user_outside(daemon, open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(USUAL)
    program = r"""
import ctypes
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
libc = ctypes.CDLL(None)
libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, so that its files in /proc are its own
if libc.unshare(0x10000000):  # CLONE_NEWUSER
    print("none", flush=True)
for name, text in ("setgroups", "deny"), ("uid_map", "0 65534 1"), ("gid_map", "0 65534 1"):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
client = Client(sys.argv[2])
tid = threading.get_native_id()
print(os.geteuid(), client.ask(HELLO).error, client.ask(ENTER, tid).error, is_fast(tid), flush=True)
"""
    process = python(program, daemon.socket)
    try:
        seen = process.stdout.readline()
        if seen in ("none\n", ""):
            pytest.skip("users may have no user namespaces here")
        assert seen == f"0 {errno.EPERM} {errno.EPERM} False\n"
    finally:
        end(process)


def test_a_client_in_a_chroot_and_one_with_its_own_mounts_get_what_the_grant_permits(
        daemon, tmp_path):
    daemon.start(f'[[grant]]\nprograms = ["{os.path.realpath(sys.executable)}"]\n')
    assert ask_in(daemon, needs("unshare"), "--mount")[:2] == (0, 0)
    program = r"""
client = Client(sys.argv[2])
os.chroot(sys.argv[3])
tid = threading.get_native_id()
print(client.ask(ENTER, tid).error, is_fast(tid), flush=True)
"""
    process = python(program, daemon.socket, tmp_path)
    try:
        assert process.stdout.readline() == "0 True\n"
    finally:
        end(process)


def test_a_program_that_is_mounted_over_a_granted_one_gets_nothing(daemon, tmp_path):
    granted = tmp_path / "granted"
    shutil.copy("/bin/true", granted)
    daemon.start(f'[[grant]]\nprograms = ["{granted}"]\n')
    own = os.path.realpath(sys.executable)
    # Python finds its own files where it would if it were called by its usual name.
    prefix = [needs("unshare"), "--mount", "sh", "-c",
              f'mount --bind {own} {granted} && shift && exec -a {own} {granted} "$@"']
    if shutil.which("bash"):
        prefix[2] = "bash"
    hello, enter, text, fast = ask_in(daemon, *prefix, "sh")
    assert (hello, enter, fast) == (errno.EPERM, errno.EPERM, "False") and "[[grant]]" in text


def test_a_process_that_was_critical_is_not_in_another_namespace_of_users(tekd):
    program = r"""
import ctypes
client = Client(sys.argv[2])
tid = threading.get_native_id()
print(client.ask(ENTER, tid).error, flush=True)
os.setresuid(65534, 65534, 65534)
print(ctypes.CDLL(None).unshare(0x10000000), flush=True)
sys.stdin.readline()
"""
    process = python(program, tekd.socket)
    try:
        assert process.stdout.readline() == "0\n"
        process.stdout.readline()
        wait_for(process.pid, False)
    finally:
        end(process)
    assert Client(tekd.socket).ask(HELLO).error == 0
