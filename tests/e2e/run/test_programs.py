# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs from Debian run under TEK as without it: same output, same exit status."""
import functools
import sys

import pytest

from conftest import BUILD, needs
from servers import outcome, plain_redis, serve_redis

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


def test_redis_serves_its_clients_the_same(tmp_path, options):
    without = plain_redis()
    assert serve_redis([TEK, "run", *options, "--"], tmp_path) == without
    assert without[0][4] == (0, [b"GET", b"LPUSH", b"SET"])
