# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd answers on a device under load, whatever slow work it has."""
import contextlib
import os
import signal
import subprocess
import time

import pytest
from conftest import needs
from tekd_client import ENTER, LEAVE, STATUS
from tekd_daemon import USUAL, daemon, pytestmark, thread

assert daemon and pytestmark and thread  # which pytest finds by their names

HOGS = 50
KTHREADS = 'backend = "rt"\nprotected = []\n[kthreads]\n'


@contextlib.contextmanager
def load():
    """Ordinary programs that spin, with a limit that ends them in any case."""
    spin = [needs("prlimit"), "--cpu=60", "sh", "-c", "while :; do :; done"]
    hogs = [subprocess.Popen(spin, stdin=subprocess.DEVNULL) for _ in range(HOGS)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait(60)


def seconds_until_it_answers(daemon, configuration):
    """For a tekd that has just become the most urgent program: before that it is ordinary."""
    daemon.config.write_text(configuration)
    with daemon.log.open("a") as log:
        daemon.process = subprocess.Popen(daemon.command(), stderr=log, stdin=subprocess.DEVNULL)
    begin = time.monotonic()
    while not daemon.serves():
        time.sleep(0.001)
    took = time.monotonic() - begin
    assert daemon.end() == 0
    return took


@pytest.mark.alone()
def test_beside_50_programs_tekd_answers_as_soon_with_kernel_threads_that_follow_as_without(daemon):
    daemon.start(KTHREADS + USUAL)
    info = daemon.client().json(STATUS)["kthreads"]
    if not info["on"]:
        pytest.skip(f"kernel threads cannot follow here: {info['why']}")
    assert daemon.end() == 0
    plain, following = [], []
    with load():
        for _ in range(3):
            plain.append(seconds_until_it_answers(daemon, USUAL))
            following.append(seconds_until_it_answers(daemon, KTHREADS + USUAL))
    print(f"until the first answer: {plain} s, with [kthreads] {following} s")
    # The programs for the kernel take a second and more to load then.
    assert min(following) < 4 * sorted(plain)[1]


def answers(client, thread, seconds=3):
    """How often ENTER and LEAVE are answered in this time."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        assert client.ask(ENTER, thread).error == 0
        assert client.ask(LEAVE, thread).error == 0
        count += 1
        time.sleep(0.005)
    return count


@pytest.mark.alone("real-time load")
def test_a_configuration_that_takes_long_to_read_delays_no_client(daemon, thread):
    # Patterns are compared with all files of a directory.
    peers = "".join(f'[[grant]]\nusers = [{uid}]\nprograms = ["/usr/bin/program-{uid}*"]\n'
                     for uid in range(100_000, 101_000))
    client = daemon.start(USUAL).client()
    quiet = answers(client, thread)
    daemon.config.write_text(USUAL + peers)
    reading = os.fork()
    if reading == 0:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            os.kill(daemon.process.pid, signal.SIGHUP)
            time.sleep(0.01)
        os._exit(0)
    try:
        time.sleep(0.2)
        busy = answers(client, thread)
    finally:
        os.kill(reading, signal.SIGKILL)
        os.waitpid(reading, 0)
    daemon.logs(f"{daemon.config}:")  # the configuration that it read has warnings
    print(f"{quiet} answers, while the configuration is read again and again {busy}")
    assert busy > quiet / 4
