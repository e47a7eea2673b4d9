# SPDX-License-Identifier: MIT OR Apache-2.0
"""Unmodified programs run on user-level threads, M:1 and M:N, with the same results."""
import collections
import contextlib
import functools
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import tempfile

import pytest
from conftest import BUILD, eventually, listens_at, needs
from paths import PROGRAMS

pytestmark = pytest.mark.spread

TEK = str(BUILD / "bin" / "tek")

# Quanta are short, so that threads are interrupted often.
MODELS = {
    "m:1": ["--model", "m:1", "--sched", "rr", "--quantum", "1ms"],
    "m:n": ["--model", "m:n", "--workers", "2", "--sched", "steal", "--quantum", "1ms"],
    "m:1 klt": ["--model", "m:1", "--sched", "psjf", "--quantum", "2ms", "--preempt", "klt"],
    "m:n mlfq": ["--model", "m:n", "--workers", "2", "--sched", "mlfq", "--quantum", "200us"],
}


@pytest.fixture(scope="session", autouse=True)
def library(open_build):
    """Without the library there is nothing to test."""
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    found = open_build / "lib" / "libtek-uthread.so"
    assert found.exists(), f"{found} is missing: run `make build`, or set TEK_BUILD"
    return found


@pytest.fixture(params=MODELS)
def model(request):
    return [TEK, "run", *MODELS[request.param], "--"]


def outcome(command, **options):
    options.setdefault("timeout", 120)
    ended = subprocess.run(command, capture_output=True, check=False, **options)
    return ended.returncode, ended.stdout, ended.stderr


@contextlib.contextmanager
def server_of(command, **options):
    """A process that ends with its test, and the program with it."""
    with subprocess.Popen(command, start_new_session=True, text=True, **options) as server:
        try:
            yield server
        finally:
            # Processes that the program started would outlive tek.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


@functools.cache
def plain(*command):
    """The result of a program without TEK, the same each time."""
    return outcome(command)


def assert_same(model, *command):
    assert outcome([*model, *command]) == plain(*command)


def test_pigz_compresses_to_the_same_bytes(data, model):
    assert_same(model, needs("pigz"), "-n", "-c", "-p", "4", str(data))


def test_xz_with_four_threads_compresses_to_the_same_bytes(data, model):
    assert_same(model, needs("xz"), "-1", "-T4", "-c", str(data))


def test_20_threads_of_python_talk_by_sockets_and_share_locks(model, tmp_path):
    talk = [sys.executable, str(PROGRAMS / "talk.py")]
    seen = []
    for name, prefix in (("with", model), ("without", [])):
        count = tmp_path / name
        seen.append(outcome([*prefix, *talk], env={**os.environ, "KERNEL_THREADS": str(count)}))
    assert seen[0] == seen[1]
    assert seen[0][0] == 0
    assert int((tmp_path / "without").read_text()) == 21
    # Workers, their spare carriers, and helpers.
    assert int((tmp_path / "with").read_text()) < 12


def test_threads_move_money_in_an_sqlite_database_and_lose_none(model, tmp_path):
    pytest.importorskip("sqlite3")
    bank = [sys.executable, str(PROGRAMS / "bank.py")]
    ended = [outcome([*prefix, *bank, str(tmp_path / name)])
             for name, prefix in (("with", model), ("without", []))]
    assert ended[0] == ended[1]
    assert ended[0][0] == 0
    assert b"[] [('ok',)]\n[(10, 10000)]\n" in ended[0][1]


@pytest.fixture(scope="session")
def echo(compile_c):
    return compile_c((PROGRAMS / "echo.c").read_text(), "cc", "-O2", "-pthread")


def test_an_echo_server_serves_5000_connections(echo, model):
    clients, rounds = 5000, 3
    files = int(subprocess.run(["sh", "-c", "ulimit -Hn"], capture_output=True, check=True).stdout)
    if files < clients + 100:
        pytest.skip(f"needs {clients + 100} open files: the limit is {files}")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with server_of([*model, echo, "server", str(clients)], **pipes) as server:
        port = server.stdout.readline().strip()
        assert outcome([echo, "client", port, str(clients), str(rounds)]) == (0, b"all came back\n",
                                                                              b"")
        out, err = server.communicate(timeout=60)
        done = f"{clients} connections, {clients * rounds * 64} bytes\n"
        assert (server.returncode, out, err) == (0, done, "")


def test_clients_of_the_echo_server_can_be_on_user_level_threads_too(echo, model):
    with server_of([*model, echo, "server", "200"], stdout=subprocess.PIPE) as server:
        port = server.stdout.readline().strip()
        assert outcome([*model, echo, "client", port, "200", "20"])[:2] == (0, b"all came back\n")
        assert server.wait(timeout=60) == 0


def talk_to_memcached(path):
    """Eight clients at once that set, read and count; returns the replies."""
    with_client = []
    for _ in range(8):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(str(path))
        with_client.append((client, client.makefile("rb")))
    info = []
    for step in range(100):
        for number, (client, _) in enumerate(with_client):
            value = f"value {step} of {number}".encode() * 20
            client.sendall(b"set key%d 0 0 %d\r\n%s\r\nget key%d\r\n" % (number, len(value), value,
                                                                         number))
        for client, answer in with_client:
            info.append([answer.readline() for _ in range(4)])
    client, answer = with_client[0]
    client.sendall(b"set count 0 0 1\r\n0\r\n")
    info.append(answer.readline())
    for client, answer in with_client:
        client.sendall(b"incr count 5\r\n")
        info.append(answer.readline())
        answer.close()
        client.close()
    return info


def serve_memcached(prefix, directory, threads=4):
    path = directory / "socket"
    user = ["-u", "root"] if os.geteuid() == 0 else []
    command = [*prefix, needs("memcached"), "-t", str(threads), "-s", str(path), *user]
    with server_of(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        eventually(lambda: listens_at(path))
        info = talk_to_memcached(path)
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=60)
        return info, server.returncode, err


@functools.cache
def plain_memcached():
    with tempfile.TemporaryDirectory(prefix="tek-test-") as directory:
        return serve_memcached([], pathlib.Path(directory))


def test_memcached_answers_its_clients_the_same(model, tmp_path):
    without = plain_memcached()
    assert serve_memcached(model, tmp_path) == without
    assert without[0][0][0] == b"STORED\r\n"
    assert without[0][-1] == b"40\r\n"


# Threads by name: each takes the lock, and computes; the arguments set how the program ends.
NAMED = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned int sum;
static void burn(long ms)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	do {
		for (int i = 0; i < 20000; i++)
			sum++;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}
static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	burn(120);
	pthread_mutex_lock(&lock);
	usleep(20000);
	pthread_mutex_unlock(&lock);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t threads[16];
	int count = argc - 2;
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, argv[i + 2]);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (strcmp(argv[1], "killed") == 0)
		raise(SIGKILL);
	return atoi(argv[1]);
}
"""


@pytest.fixture(scope="session")
def named(compile_c):
    return compile_c(NAMED, "cc", "-O2", "-pthread")


@pytest.mark.parametrize("end", ["7", "killed"])
@pytest.mark.parametrize("options", [["m:1"], ["m:n", "--workers", "2"]], ids=["m:1", "m:n"])
def test_a_trace_shows_which_thread_ran_where_and_why_it_left(tek, named, tmp_path, options, end):
    path = tmp_path / "trace.json"
    ended = tek("run", "--model", *options, "--quantum", "1ms", "--trace", path, "--",
                named, end, "gas", "touch", "radio")
    assert ended.returncode == (7 if end == "7" else -signal.SIGKILL)
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"tek: {path}: ") and "user-level threads" in ended.stderr
    assert os.listdir(tmp_path) == ["trace.json"]
    events = json.loads(path.read_text())["traceEvents"]
    groups = {event["pid"]: event["args"]["name"] for event in events
              if event["name"] == "process_name"}
    workers, = [pid for pid, name in groups.items() if name.endswith(": workers")]
    threads, = [pid for pid, name in groups.items() if name.endswith(": threads")]
    runs = [event for event in events if event["ph"] == "X" and event["pid"] == workers]
    assert {"main", "gas", "touch", "radio"} <= {event["name"] for event in runs}
    assert {event["tid"] for event in runs} <= ({0} if options == ["m:1"] else {0, 1})
    # A worker runs one thread at a time.
    for worker in {event["tid"] for event in runs}:
        until = 0
        for event in sorted((e for e in runs if e["tid"] == worker), key=lambda e: e["ts"]):
            assert event["ts"] >= until - 0.001
            until = event["ts"] + event["dur"]
    left = collections.Counter(event["args"]["left"] for event in runs)
    assert left["preempted"] >= 10
    assert left["ended"] == 3
    assert any(why.startswith("waits") for why in left)
    does = {(event["name"], event["cat"]) for event in events
            if event["ph"] == "X" and event["pid"] == threads}
    assert ("mutex", "wait") in does and ("ready (preempted)", "ready") in does, does


def test_what_a_traced_program_starts_is_in_the_same_trace(tek, named, tmp_path):
    path = tmp_path / "trace.json"
    ended = tek("run", "--model", "m:1", "--trace", path, "--",
                "sh", "-c", f"{named} 0 gas; {named} 3 touch; exit $?")
    assert ended.returncode == 3
    names = [event["args"]["name"] for event in json.loads(path.read_text())["traceEvents"]
             if event["name"] == "process_name"]
    assert len([name for name in names if name.startswith(named.name[:31])]) == 4, names


def test_exit_status_signal_and_output_are_the_programs_own(tek, model):
    prefix = model[2:-1]
    ended = tek("run", *prefix, "--", "sh", "-c", "echo out; echo err >&2; exit 5")
    assert (ended.returncode, ended.stdout, ended.stderr) == (5, "out\n", "err\n")
    assert tek("run", *prefix, "--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


# Each of 8 threads uses nearly all of the stack that the C library gives it.
DEEP = r"""
#include <pthread.h>
#include <stdio.h>
enum { BYTES = 7 << 20 };
static void *use(void *unused)
{
	volatile char all[BYTES];
	for (int i = 0; i < BYTES; i += 1024)
		all[i] = 1;
	return unused;
}
int main(void)
{
	pthread_t threads[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, use, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	puts("used");
	return 0;
}
"""


def test_a_thread_has_the_stack_that_it_would_have_without(compile_c, model):
    program = compile_c(DEEP, "cc", "-O1", "-pthread")
    with_limit = ["sh", "-c", 'ulimit -s 8192 && exec "$@"', "sh"]
    assert outcome([*with_limit, *model, program]) == (0, b"used\n", b"")
