# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs from Debian run under TEK as without it: same output, same exit status."""
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

from conftest import BUILD, eventually, listens_at, needs

TEK = str(BUILD / "bin" / "tek")

# Nothing asked for; every thread that has a name of its own, until the guard sends it back.
OPTIONS = {"plain": [], "critical": ["--critical", "*", "--budget", "50ms/100ms"]}


@pytest.fixture(params=OPTIONS)
def options(request):
    if request.param == "critical":
        request.getfixturevalue("real_time")  # else it would show the same as "plain"
    return OPTIONS[request.param]


PYTHON_50_THREADS = """
import threading, hashlib
results = [None] * 50
def work(n):
    results[n] = hashlib.sha256(bytes([n]) * 200000).hexdigest()
threads = [threading.Thread(target=work, args=(n,), name=f"worker-{n}") for n in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("\\n".join(results))
raise SystemExit(7)
"""

CHILDREN = """
echo start; (sleep 0.1; echo background >&2) & seq 1 1000 | sort -r | tail -n 3
ls /nonexistent-directory 2>/dev/null; echo "status $?"; wait; echo end >&2; exit 3
"""


def outcome(command, **options):
    ended = subprocess.run(command, capture_output=True, timeout=120, check=False, **options)
    # TEK's report on the threads that it sent back is not the program's output.
    stderr = [line for line in ended.stderr.splitlines() if not line.startswith(b"tek: ")]
    return ended.returncode, ended.stdout, stderr


@functools.cache
def plain(*command):
    """The result of a program without TEK, the same each time."""
    return outcome(command)


def assert_same(options, *command):
    assert outcome([TEK, "run", *options, "--", *command]) == plain(*command)


def test_pigz_compresses_to_the_same_bytes(data, options):
    assert_same(options, needs("pigz"), "-n", "-c", "-p", "4", str(data))


def test_xz_with_two_threads_compresses_to_the_same_bytes(data, options):
    assert_same(options, needs("xz"), "-1", "-T2", "-c", str(data))


def test_python_with_50_threads_computes_the_same(options):
    assert_same(options, sys.executable, "-c", PYTHON_50_THREADS)


def test_a_shell_with_children_prints_and_returns_the_same(options):
    assert_same(options, "sh", "-c", CHILDREN)


def serve_redis(prefix, directory):
    """The results of redis's own client and benchmark for a server, and how the server ends."""
    socket = directory / "redis.sock"
    server = subprocess.Popen(
        [*prefix, needs("redis-server"), "--port", "0", "--unixsocket", str(socket), "--save", "",
         "--dir", str(directory), "--io-threads", "2"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: listens_at(socket))
        client = [*prefix, needs("redis-cli"), "-s", str(socket)]
        seen = [outcome([*client, *words]) for words in (
            ["set", "key", "value"], ["get", "key"], ["lrange", "none", "0", "-1"], ["nonsense"])]
        benchmark = outcome([*prefix, needs("redis-benchmark"), "-s", str(socket), "-q",
                             "-n", "5000",
                             "-t", "set,get,lpush", "--threads", "2"])
        tests = re.findall(rb"^([A-Z]+): [0-9.]+ requests per second",
                           benchmark[1].replace(b"\r", b"\n"),
                           re.MULTILINE)
        seen.append((benchmark[0], sorted(set(tests))))
        seen.append(outcome([*client, "shutdown", "nosave"]))
        return seen, server.wait(timeout=60)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


@functools.cache
def plain_redis():
    with tempfile.TemporaryDirectory(prefix="tek-test-") as directory:
        return serve_redis([], pathlib.Path(directory))


def test_redis_serves_its_clients_the_same(tmp_path, options):
    without = plain_redis()
    assert serve_redis([TEK, "run", *options, "--"], tmp_path) == without
    assert without[0][4] == (0, [b"GET", b"LPUSH", b"SET"])
