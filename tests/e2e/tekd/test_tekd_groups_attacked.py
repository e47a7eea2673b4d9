# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attacks on groups: no thread gets a better group than it may have, and all are moved back
exactly."""
import errno
import os
import pathlib
import signal
import subprocess
import threading

import pytest
from conftest import eventually, read
from paths import ABI
from tekd_client import CRITICAL, ENTER, GROUP, HELLO, LEAVE, NORMAL, PROCESS, STATUS, scheduling
from tekd_daemon import Other, daemon, pytestmark, resident, thread
from test_tekd_attacked import end, python
from test_tekd_groups import (BACKGROUND, NORMAL_GROUP, SERVICE, URGENT, group_of, grouped,
                              places_of, sleeper,
                              weights)
from test_tekd_stuck import Frozen

assert daemon and grouped and pytestmark and sleeper and thread  # which pytest finds by their names

BACKENDS = pytest.mark.parametrize("backend", ["rt", "fair"])


def top_of(tekd):
    return pathlib.Path(tekd.client().json(STATUS)["groups"]["top"])


def tids_in(group):
    file = group / ("tasks" if (group / "tasks").exists() else "cgroup.threads")
    return [int(tid) for tid in file.read_text().split()]


# Better groups

# SOCKET: is named `evil`; executes its orders as the user nobody, and prints the error.
EVIL = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "tek_abi.h"

static int connection;

static int ask(unsigned int tid, unsigned int group, unsigned int flags)
{
	struct tek_request request = {.magic = TEK_REQUEST_MAGIC, .version = TEK_SOCKET_VERSION,
		.kind = TEK_ASK_GROUP, .number = 1, .tid = tid, .flags = flags, .group = group};
	struct tek_reply reply;
	if (send(connection, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return -1;
	do
		if (recv(connection, &reply, sizeof(reply), 0) <= 0)
			return -1;
	while (!reply.number);
	return reply.error;
}

static void *live(void *unused)
{
	char line[64];
	unsigned int tid, group, flags;
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%u %u %u", &tid, &group, &flags) == 3)
			printf("%d\n", ask(tid, group, flags));
		fflush(stdout);
	}
	exit(0);
	return unused;
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pthread_t thread;
	alarm(60);
	prctl(PR_SET_NAME, "evil");
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 1;
	strcpy(address.sun_path, argv[1]);
	connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	puts("ready");
	fflush(stdout);
	getchar();
	if (connect(connection, (struct sockaddr *)&address, sizeof(address)))
		return 1;
	pthread_create(&thread, NULL, live, NULL);
	if (argc > 2)
		pthread_exit(NULL);
	pause();
}
"""


class Evil:
    """That program, already running when tekd starts: a rule puts it into `background`."""

    def __init__(self, program, path, *options):
        self.process = subprocess.Popen([str(program), str(path), *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def note(self, line):
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, group, tid=0, flags=0):
        self.note(f"{tid} {group} {flags}\n")
        return int(self.process.stdout.readline())


@pytest.fixture
def evil(compile_c, daemon, open_directory, grouped):
    abi = ABI
    program = compile_c(EVIL, "cc", "-pthread", "-I", str(abi))
    daemon.socket = open_directory / "run" / "tekd"
    started = []

    def start(backend, *options):
        started.append(Evil(program, daemon.socket, *options))
        grouped(backend, places='[[place]]\ngroup = "background"\nnames = ["evil"]\n')
        eventually(lambda: group_of(started[-1].pid) == "lazy/background")
        started[-1].note("\n")
        return started[-1]

    yield start
    for each in started:
        end(each.process)


BETTER = pytest.mark.parametrize("better", [NORMAL_GROUP, URGENT, SERVICE])


@BACKENDS
@BETTER
def test_a_process_that_has_no_grant_stays_in_the_group_that_it_was_put_in(evil, backend, better):
    one = evil(backend)
    assert one.ask(better) == errno.EPERM
    assert one.ask(better, tid=one.pid) == errno.EPERM
    assert one.ask(better, tid=one.pid, flags=PROCESS) == errno.EPERM
    assert one.ask(BACKGROUND) == 0
    assert one.ask(better) == errno.EPERM
    assert group_of(one.pid) == "lazy/background"


@BACKENDS
def test_a_process_without_its_first_thread_gets_no_better_group(evil, backend):
    one = evil(backend, "without its first thread")
    eventually(lambda: "\nState:\tZ" in read(f"/proc/{one.pid}/status"))
    other, = [tid for tid in map(int, os.listdir(f"/proc/{one.pid}/task")) if tid != one.pid]
    assert one.ask(NORMAL_GROUP) == errno.EPERM
    assert one.ask(NORMAL_GROUP, tid=other) == errno.EPERM
    assert group_of(other) == "lazy/background"


@BACKENDS
def test_a_process_that_is_critical_by_hand_gets_no_better_group_by_that(evil, daemon, backend):
    one = evil(backend)
    client = daemon.client()
    assert client.ask(CRITICAL, one.pid, flags=PROCESS).error == 0
    assert group_of(one.pid) != "lazy/background"
    assert one.ask(NORMAL_GROUP) == errno.EPERM
    assert client.ask(NORMAL, one.pid, flags=PROCESS).error == 0
    assert one.ask(NORMAL_GROUP) == errno.EPERM
    assert group_of(one.pid) == "lazy/background"


@BACKENDS
def test_no_client_places_a_thread_that_it_may_not_change(evil, daemon, sleeper, backend):
    one = evil(backend)
    before = eventually(lambda: group_of(sleeper))
    for tid in sleeper, os.getpid(), daemon.process.pid, 1, 2, 2**31, 2**32 - 1, 2**22 + 5:
        for flags in 0, PROCESS:
            assert one.ask(BACKGROUND, tid=tid, flags=flags) in (errno.EPERM, errno.ESRCH,
                                                                 errno.EINVAL)
    assert one.ask(4) == errno.EINVAL and one.ask(2**32 - 1) == errno.EINVAL
    assert group_of(sleeper) == before and group_of(daemon.process.pid) is None
    assert daemon.client().ask(GROUP, 1, group=URGENT).error == errno.EPERM
    assert daemon.client().ask(GROUP, daemon.process.pid, group=URGENT).error == errno.EPERM


@BACKENDS
def test_a_process_that_changes_its_group_again_and_again_makes_tekd_no_larger(
        evil, daemon, thread, backend):
    one = evil(backend)
    assert one.ask(BACKGROUND) == 0
    daemon.load_once(thread)
    client = daemon.client()
    assert client.ask(HELLO).error == 0
    size = resident(daemon)
    asked = 0
    while asked < 2000:
        asked += one.ask(BACKGROUND) in (0, errno.EBUSY)
        assert client.ask(GROUP, thread, group=asked % 4).error in (0, errno.EBUSY)
        if asked % 50 == 0:
            assert client.ask(ENTER, thread).error == 0
            assert client.ask(LEAVE, thread).error == 0
    assert resident(daemon) < size + 2048
    assert (daemon.state / "journal").stat().st_size < 1 << 20


# The Fast Region

FORKER = r"""
client = Client(sys.argv[2])
tid = threading.get_native_id()
print(client.ask(ENTER, tid).error, flush=True)
children = []
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
all_are_born, bearing = os.pipe()
while len(children) < 400:
    child = os.fork()
    if child == 0:
        os.closerange(0, 3)
        signal.alarm(60)
        # Every other one does so itself once more.
        if len(children) % 2 and os.fork() == 0:
            os.setsid()
            signal.alarm(60)
        os.close(bearing)
        if len(children) % 10:
            time.sleep(0.02)
            os._exit(0)
        signal.pause()
    children.append(child)
    time.sleep(0.002)
    if len(children) % 7 == 0:
        threading.Thread(target=time.sleep, args=[0.1]).start()
os.close(bearing)
os.read(all_are_born, 1)
print(" ".join(str(child) for child in children[::10]), flush=True)
sys.stdin.readline()
print(client.ask(LEAVE, tid).error, flush=True)
sys.stdin.readline()
"""


@pytest.mark.alone("real-time load")  # beside a flood of births both starve
@BACKENDS
def test_a_process_that_forks_like_mad_while_it_is_fast_has_no_fast_child_and_leaves_nothing(
        grouped, sleeper, backend):
    before = {tid: (places_of(tid), scheduling(tid)) for tid in (sleeper, os.getpid())}
    tekd = grouped(backend)
    top, light = top_of(tekd), weights(tekd)
    forker = python(FORKER, tekd.socket)
    children = []
    try:
        assert forker.stdout.readline() == "0\n"
        children = list(map(int, forker.stdout.readline().split()))
        assert len(children) > 10
        client = tekd.client()
        # tekd moves them back periodically; then only the thread with the request is there.
        eventually(lambda: set(tids_in(top / "fast")) <= {forker.pid})
        assert all(scheduling(child)[0] == os.SCHED_OTHER for child in children)
        eventually(lambda: {group_of(child) for child in children} == {"lazy/normal"})
        forker.stdin.write("\n")
        forker.stdin.flush()
        assert forker.stdout.readline() == "0\n"
        eventually(lambda: not client.json(STATUS)["fast"])
        assert weights(tekd) == light and not tids_in(top / "fast")
        assert group_of(forker.pid) == "lazy/normal"
        assert tekd.end() == 0
        assert not top.exists()
        root = before[os.getpid()][0]
        assert all(places_of(child) == root for child in [*children, forker.pid])
        assert {tid: (places_of(tid), scheduling(tid)) for tid in before} == before
    finally:
        end(forker)
        for child in children:
            os.kill(child, signal.SIGKILL)


@BACKENDS
def test_a_process_that_moves_itself_elsewhere_stays_there_and_everybody_else_is_brought_back(
        grouped, sleeper, thread, backend):
    before = {tid: places_of(tid) for tid in (sleeper, os.getpid())}
    had = scheduling(thread)
    tekd = grouped(backend)
    top = top_of(tekd)
    if not (top / "tasks").exists():
        pytest.skip("needs control groups of version 1")
    elsewhere = top.parent / f"{top.name}-elsewhere"
    elsewhere.mkdir()
    try:
        client = tekd.client()
        for _ in range(3):
            assert client.ask(ENTER, thread).error == 0
            if backend == "rt":  # a group without real-time runtime takes no real-time thread
                assert client.ask(LEAVE, thread).error == 0
            (elsewhere / "tasks").write_text(str(thread))
            assert client.ask(LEAVE, thread).error == 0
            assert tids_in(elsewhere) == [thread] and scheduling(thread) == had
        assert client.ask(GROUP, thread, group=SERVICE).error == 0
        assert group_of(thread) == "lazy/service"
        (elsewhere / "tasks").write_text(str(thread))
        assert tekd.end() == 0
        assert tids_in(elsewhere) == [thread] and scheduling(thread) == had
        assert {tid: places_of(tid) for tid in before} == before
        assert not top.exists()
    finally:
        for tid in tids_in(elsewhere):
            (top.parent / "tasks").write_text(str(tid))
        elsewhere.rmdir()


# The groups themselves


@BACKENDS
def test_where_a_group_was_removed_that_is_reported_and_the_rest_goes_on(
        grouped, sleeper, thread, backend):
    before = {tid: (places_of(tid), scheduling(tid)) for tid in (sleeper, thread, os.getpid())}
    tekd = grouped(backend)
    top = top_of(tekd)
    (top / "lazy" / "background").rmdir()
    client = tekd.client()
    refused = client.ask(GROUP, thread, group=BACKGROUND)
    assert refused.error == errno.ENOENT and refused.text
    eventually(lambda: group_of(thread) == "lazy/normal")
    assert client.ask(ENTER, thread).error == 0
    assert client.ask(LEAVE, thread).error == 0
    (top / "fast").rmdir()
    entered = client.ask(ENTER, thread)
    assert entered.error == (errno.ENOENT if backend == "fair" else 0)
    assert client.ask(LEAVE, thread).error == 0
    assert client.json(STATUS)["groups"]["top"] == str(top)
    tekd.process.send_signal(signal.SIGHUP)
    assert client.ask(HELLO).error == 0
    assert tekd.end() == 0
    assert {tid: (places_of(tid), scheduling(tid)) for tid in before} == before
    assert not top.exists()


@BACKENDS
def test_foreign_groups_in_a_group_stay_and_what_was_placed_is_brought_back(
        grouped, sleeper, thread, backend):
    before = {tid: (places_of(tid), scheduling(tid)) for tid in (sleeper, thread, os.getpid())}
    tekd = grouped(backend)
    top = top_of(tekd)
    if not (top / "tasks").exists():
        pytest.skip("needs control groups of version 1")
    foreign = top / "lazy" / "normal" / "foreign"
    foreign.mkdir()
    guest = subprocess.Popen(["sleep", "60"])
    try:
        (foreign / "tasks").write_text(str(guest.pid))
        client = tekd.client()
        assert client.ask(ENTER, thread).error == 0
        assert client.ask(GROUP, guest.pid, group=SERVICE, flags=PROCESS).error == 0
        (foreign / "tasks").write_text(str(guest.pid))
        assert client.ask(LEAVE, thread).error == 0
        assert tekd.end() == 0
        assert {tid: (places_of(tid), scheduling(tid)) for tid in before} == before
        assert tids_in(foreign) == [guest.pid]
        assert not (top / "fast").exists() and not (top / "lazy" / "urgent").exists()
        # The next tekd does not take over groups that are not its own.
        ended = None
        if backend == "fair":
            ended = subprocess.run(tekd.command(), capture_output=True, text=True, timeout=60,
                                   check=False)
            assert ended.returncode == 1 and str(
                top) in ended.stderr and "choose another name" in ended.stderr
        assert tids_in(foreign) == [guest.pid]
    finally:
        guest.kill()
        guest.wait()
        for group in foreign, foreign.parent, top / "lazy", top:
            if group.exists():
                eventually(lambda group=group: not tids_in(group))
                group.rmdir()


@BACKENDS
def test_a_frozen_client_is_brought_back_all_the_same(grouped, backend):
    tekd = grouped(backend)
    top, light = top_of(tekd), weights(tekd)
    with Other(tekd) as other:
        root = {**places_of(other.tid)}
        had = scheduling(other.tid)
        assert other.do("enter")["error"] == 0
        with Frozen(other.tid):
            assert tekd.client().ask(GROUP, other.tid, group=URGENT, flags=PROCESS).error == 0
            assert tekd.end() == 0
            assert scheduling(other.tid) == had and group_of(other.tid) is None
            assert not top.exists() and light
        own = places_of(os.getpid())
        assert {name: path for name, path in places_of(other.tid).items() if name != "freezer"} == {
            name: path for name, path in own.items() if name != "freezer"}
        assert root != own


@BACKENDS
def test_requests_of_many_threads_at_once_leave_everybody_where_it_was(grouped, daemon, sleeper,
                                                                       backend):
    before = {tid: (places_of(tid), scheduling(tid)) for tid in (sleeper, os.getpid())}
    tekd = grouped(backend)
    top = top_of(tekd)
    failed = []

    def live(seed):
        client, tid = tekd.client(), threading.get_native_id()
        for n in range(60):
            errors = [client.ask(GROUP, tid, group=(seed + n) % 4).error,
                      client.ask(ENTER, tid).error,
                      client.ask(GROUP, group=n % 4).error, client.ask(LEAVE, tid).error]
            failed.extend(error for error in errors if error not in (0, errno.EBUSY, errno.EDQUOT))

    threads = [threading.Thread(target=live, args=[seed]) for seed in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    assert tekd.end() == 0
    assert {tid: (places_of(tid), scheduling(tid)) for tid in before} == before
    assert not top.exists()
