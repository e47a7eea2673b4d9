# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers from Debian that several tests start, with TEK and without."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from conftest import eventually, listens_at, needs

SUMS = "select count(*), sum(length(pad)) from test.sbtest1"


def outcome(command, **options):
    ended = subprocess.run(command, capture_output=True, timeout=120, check=False, **options)
    # TEK's report on the threads that it sent back is not the program's output.
    stderr = [line for line in ended.stderr.splitlines() if not line.startswith(b"tek: ")]
    return ended.returncode, ended.stdout, stderr


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


class Server:
    """A server process, ended by SIGTERM."""

    def __init__(self, prefix, *command):
        self.process = subprocess.Popen([*prefix, *map(str, command)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.status = self.process.wait()
            raise


class MariaDb:
    """An empty database, and the results of sysbench on copies of it, with TEK and without."""

    def __init__(self, directory):
        self.directory = directory
        self.served = 0
        needs("mariadbd"), needs("sysbench")
        subprocess.run([needs("mariadb-install-db"), "--no-defaults", *self.user(),
                        f"--datadir={directory}/new/data",
                        "--skip-test-db", "--auth-root-authentication-method=normal"],
                       check=True, capture_output=True, timeout=280)

    @staticmethod
    def user():
        return ["--user=root"] if os.geteuid() == 0 else []

    @functools.cached_property
    def plain(self):
        """The replies to 16 clients without TEK, and the exit status."""
        return self.serve([], 16)

    def serve(self, prefix, clients):
        """The replies to so many clients, and the exit status."""
        self.served += 1
        directory = self.directory / str(self.served)
        shutil.copytree(self.directory / "new", directory)
        options = ["--no-defaults", *self.user(), f"--datadir={directory}/data",
                   f"--socket={directory}/socket",
                   "--skip-networking", "--skip-grant-tables", "--innodb-buffer-pool-size=32M",
                   "--innodb-flush-log-at-trx-commit=0", f"--pid-file={directory}/pid"]
        with Server(prefix, needs("mariadbd"), *options) as server:
            def ask(text):
                return outcome([needs("mariadb"), "--no-defaults", "-S", f"{directory}/socket",
                                "-N", "-e", text])
            eventually(lambda: ask("select 1")[0] == 0, seconds=120)
            answers = [ask("create database if not exists test"),
                       sysbench(directory, clients, "prepare")]
            answers += [sysbench(directory, clients, "run"), ask(SUMS)]
        shutil.rmtree(directory)
        return answers, server.status


def sysbench(directory, clients, command):
    """The counts that sysbench reports, without times."""
    ended = subprocess.run(
        [needs("sysbench"), "oltp_read_write", "--mysql-user=root", "--mysql-db=test",
         f"--mysql-socket={directory}/socket", "--table-size=2000", "--rand-seed=1", "--time=0",
         "--events=300", f"--threads={clients}", command],
        capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return re.findall(r"(transactions|reconnects): +([0-9]+)", ended.stdout)
