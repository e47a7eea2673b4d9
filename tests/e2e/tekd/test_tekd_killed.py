# SPDX-License-Identifier: MIT OR Apache-2.0
"""After any process is killed at any time, every thread has what it had before.

TEK_KILLS=300 TEK_SEED=7 runs it for longer, or otherwise.
"""
import json
import os
import subprocess

import pytest
from conftest import BUILD
from paths import ABI
from tekd_daemon import daemon, pytestmark

assert daemon and pytestmark  # which pytest finds by their names

# The kills and comparisons are in one place for this test and the benchmark: crates/tek-bench,
# bench/device/faults. Control groups are compared, too, where the machine allows some.


@pytest.mark.usefixtures("real_time")
def test_every_thread_has_what_it_had_after_any_kill(tmp_path):
    result = tmp_path / "result.json"
    kills, seed = os.environ.get("TEK_KILLS", "50"), os.environ.get("TEK_SEED", "6")
    command = [BUILD / "bin" / "tek", "bench", "device", "--parts", "faults", "--faults", kills,
               "--seed", seed,
               "--json", result]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                   timeout=120 + 4 * int(kills))
    document = json.loads(result.read_text())
    faults = document["raw"]["faults"]
    assert faults, document["not_run"]
    assert faults["kills"] == int(kills)
    assert not faults["differences"], faults["told"]
    assert not faults["complaints"]
    assert faults["executed"] > 5 and faults["undone"] > 10
    assert "rt" in faults["of"]
    # Backends that cannot run here are named.
    assert {"rt", "rt with groups", "fair"} - set(faults["of"]) == {
        entry["variant"].removeprefix("faults, ") for entry in document["not_run"]}


# While one thread creates threads, another makes it critical and normal again; prints how many of
# those threads started real-time.
BORN_REAL_TIME = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(address.sun_path, argv[argc - 1]);
	alarm(60);
	connect(fd, (struct sockaddr *)&address, sizeof(address));
	pthread_create(&thread, NULL, create, NULL);
	while (!creator)
		usleep(100);
	for (int i = 0; i < 4000 && !born && ask(fd, TEK_ASK_ENTER) && ask(fd, TEK_ASK_LEAVE); i++)
		;
	stop = 1;
	pthread_join(thread, NULL);
	printf("%d\n", born);
}
"""


def test_a_process_that_forks_while_it_is_made_normal_again_has_no_real_time_child(
        daemon, compile_c):
    program = compile_c(BORN_REAL_TIME, "cc", "-pthread", "-I",
                        str(ABI))
    # A lift is off: the creator joins its children while it is Fast.
    daemon.start('[inherit]\nlocks = false\n[[grant]]\nusers = ["root"]\nrate = 10000\n')
    ended = subprocess.run([str(program), str(daemon.socket)], capture_output=True, text=True,
                           timeout=60,
                           check=False)
    assert ended.stdout == "0\n"
