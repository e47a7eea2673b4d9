# SPDX-License-Identifier: MIT OR Apache-2.0
"""A tekd whose critical threads lift others, and a program whose threads wait for each other."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import eventually
from tekd_client import CRITICAL, RR_RESET, STATUS, scheduling
from tekd_daemon import Daemon
from tekd_daemon import pytestmark as of_tekd

# Other tests give real-time threads work for the same programs of the kernel.
pytestmark = [*of_tekd, pytest.mark.alone("kernel threads")]

GRANT = '[[grant]]\nusers = ["root"]\nrate = 10000\n'

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
