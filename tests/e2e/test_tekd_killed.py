# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whoever is killed, and whenever: every thread has afterwards what it had before.

TEK_KILLS=300 TEK_SEED=7 runs it for longer, or otherwise.
"""
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest
from conftest import eventually
from test_tekd import Daemon, daemon, pytestmark

assert daemon and pytestmark  # which pytest looks for by their names

# SOCKET SEED POLICY PRIORITY NICE: three threads that become critical and normal again as fast as
# they can, fork, and now and then execute the program anew. Without tekd they wait for it.
SWITCHER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <signal.h>
#include "tek_abi.h"

static char **arguments;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int is_answered(int socket, unsigned int kind, int priority)
{
	struct tek_request request = {.magic = TEK_REQUEST_MAGIC, .version = TEK_SOCKET_VERSION,
		.kind = kind, .number = 1, .tid = gettid(), .priority = priority};
	struct tek_reply reply;
	if (send(socket, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return 0;
	do
		if (recv(socket, &reply, sizeof(reply), 0) <= 0)
			return 0;
	while (!reply.number);
	return 1;
}

static void become_another(unsigned int *seed)
{
	switch (rand_r(seed) % 40) {
	case 0:
		if (fork() == 0) {
			signal(SIGALRM, SIG_DFL);
			alarm(2);
			for (;;)
				pause();
		}
		break;
	case 1:
		arguments[3] = NULL;
		execv("/proc/self/exe", arguments);
	}
}

static void *live(void *number)
{
	unsigned int seed = atoi(arguments[2]) + gettid();
	for (;; usleep(2000)) {
		int new = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (!connect(new, (struct sockaddr *)&address, sizeof(address)))
			while (is_answered(new, TEK_ASK_ENTER, (int)(rand_r(&seed) % 40) - 20)) {
				usleep(rand_r(&seed) % 300);
				become_another(&seed);
				if (rand_r(&seed) % 4 && !is_answered(new, TEK_ASK_LEAVE, 0))
					break;
			}
		close(new);
	}
	return number;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	arguments = argv;
	signal(SIGCHLD, SIG_IGN);
	alarm(120);
	strcpy(address.sun_path, argv[1]);
	if (argc > 3) {
		struct sched_param param = {.sched_priority = atoi(argv[4])};
		sched_setscheduler(0, atoi(argv[3]), &param);
		setpriority(PRIO_PROCESS, 0, atoi(argv[5]));
	}
	pthread_create(&thread, NULL, live, NULL);
	pthread_create(&thread, NULL, live, NULL);
	live(NULL);
}
"""

BASES = [(os.SCHED_OTHER, 0, -3), (os.SCHED_BATCH, 0, 5), (os.SCHED_FIFO, 3, 0), (os.SCHED_IDLE, 0, 7)]
# What the child of a real-time thread has that does not pass that on.
BORN = (os.SCHED_OTHER, 0, 0)


class Switcher:
    def __init__(self, program, path, seed):
        self.base = BASES[seed % len(BASES)]
        arguments = [str(program), str(path), str(seed), *map(str, self.base)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)
        # Its threads come when it has its policy.
        eventually(lambda: len(os.listdir(f"/proc/{self.process.pid}/task")) == 3)

    def end(self):
        self.process.kill()
        self.process.wait(20)


def stat(path):
    return (path / "stat").read_text().rsplit(")", 1)[1].split()


def look(switchers):
    """Of each thread of each process of these, and of their children: what it has. A thread is
    another one when its process has executed a program."""
    seen = {}
    of = {switcher.process.pid: switcher for switcher in switchers}
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            pid, fields = int(directory.name), stat(directory)
            switcher = of.get(pid) or of.get(int(fields[1]))
            if not switcher or fields[0] == "Z":
                continue
            for task in (directory / "task").iterdir():
                tid = int(task.name)
                has = (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority,
                       os.getpriority(os.PRIO_PROCESS, tid))
                # Start time, and where the first stack lies.
                seen[pid, tid, stat(task)[19], fields[25]] = (has, switcher.base)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return seen


def wrong(seen, before):
    """What is not as it was, and what a new thread cannot have got from anybody but tekd."""
    return {key: (has, before.get(key)) for key, (has, base) in seen.items()
            if (has != before[key][0] if key in before else has not in (base, BORN))}


def test_whoever_is_killed_every_thread_has_what_it_had(daemon, compile_c, tmp_path):
    generator = random.Random(int(os.environ.get("TEK_SEED", "6")))
    program = compile_c(SWITCHER, "cc", "-pthread", "-I", str(pathlib.Path(__file__).parents[2] / "abi"))
    other = Daemon(tmp_path)
    other.socket = tmp_path / "run" / "other"
    path = daemon.socket
    switchers = [Switcher(program, path, n) for n in range(4)]
    executed = undone = 0
    try:
        before = look(switchers)
        for _ in range(int(os.environ.get("TEK_KILLS", "50"))):
            daemon.start('[[grant]]\nusers = ["root"]\nrate = 10000\nbudget = "off"\nuser_threads = 1024\n')
            time.sleep(generator.random() * 0.04)
            whom = generator.choice(["tekd", "client", "both"])
            killed = generator.randrange(len(switchers))
            if whom != "tekd":
                switchers[killed].process.kill()
                if whom == "client":
                    time.sleep(generator.random() * 0.02)
            daemon.end(signal.SIGTERM if whom == "client" and generator.random() < 0.5 else signal.SIGKILL)
            if generator.random() < 0.5:
                ended = subprocess.run(daemon.command("--restore"), capture_output=True, text=True,
                                       timeout=20, check=False)
                assert ended.returncode == 0, ended.stderr
                undone += int(ended.stdout.split()[0]) if ended.stdout[0].isdigit() else 0
            else:
                other.start()
                other.end()
            assert not daemon.state.exists()
            time.sleep(0.004)  # who is executing a program just now has executed it
            seen = look(switchers)
            assert not wrong(seen, before), (whom, wrong(seen, before))
            executed += len({key[0::3] for key in seen} - {key[0::3] for key in before})
            if whom != "tekd":
                switchers[killed].end()
                switchers[killed] = Switcher(program, path, generator.randrange(100))
            before = look(switchers)
        assert executed > 5 and undone > 10
        assert "failed" not in daemon.log.read_text()
    finally:
        for switcher in switchers:
            switcher.end()


# While one thread creates threads, another makes it critical and normal again; how many of those
# threads were born real-time.
BORN_REAL_TIME = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "tek_abi.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static volatile pid_t creator;
static volatile int born, stop;

static int ask(int socket, unsigned int kind)
{
	struct tek_request request = {.magic = TEK_REQUEST_MAGIC, .version = TEK_SOCKET_VERSION,
		.kind = kind, .number = 1, .tid = creator};
	struct tek_reply reply;
	return send(socket, &request, sizeof(request), MSG_NOSIGNAL) > 0 &&
	       recv(socket, &reply, sizeof(reply), 0) > 0;
}

static void *be_born(void *unused)
{
	if (sched_getscheduler(0) != SCHED_OTHER)
		born++;
	return unused;
}

static void *create(void *unused)
{
	pthread_t thread;
	creator = gettid();
	while (!stop)
		if (!pthread_create(&thread, NULL, be_born, NULL))
			pthread_join(thread, NULL);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	time_t end = time(NULL) + 8;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(address.sun_path, argv[argc - 1]);
	alarm(60);
	connect(fd, (struct sockaddr *)&address, sizeof(address));
	pthread_create(&thread, NULL, create, NULL);
	while (!creator)
		usleep(100);
	while (time(NULL) < end && !born && ask(fd, TEK_ASK_ENTER) && ask(fd, TEK_ASK_LEAVE))
		;
	stop = 1;
	pthread_join(thread, NULL);
	printf("%d\n", born);
}
"""


def test_who_forks_while_it_is_made_normal_again_has_no_real_time_child(daemon, compile_c):
    program = compile_c(BORN_REAL_TIME, "cc", "-pthread", "-I", str(pathlib.Path(__file__).parents[2] / "abi"))
    daemon.start('[[grant]]\nusers = ["root"]\nrate = 10000\n')
    ended = subprocess.run([str(program), str(daemon.socket)], capture_output=True, text=True, timeout=60,
                           check=False)
    assert ended.stdout == "0\n"
