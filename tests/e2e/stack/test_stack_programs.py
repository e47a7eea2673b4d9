# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs from Debian have the same results with fitted stacks, in the first run and the next."""
import hashlib
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys

import pytest

from conftest import BUILD, eventually, listens_at, needs
from paths import PROGRAMS
from servers import Server, outcome, plain_redis, serve_redis

pytestmark = pytest.mark.spread
TEK = str(BUILD / "bin" / "tek")

PYTHON_300_THREADS = """
import threading, hashlib, re
all_there = threading.Barrier(300)
results = [None] * 300
def work(n):
    all_there.wait()
    text = hashlib.sha256(str(n).encode()).hexdigest()
    results[n] = re.sub(r"[0-9]+", lambda found: str(int(found[0]) % 97), text)
threads = [threading.Thread(target=work, args=(n,)) for n in range(300)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("\\n".join(results))
raise SystemExit(7)
"""

NODE_4_WORKERS = """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { createHash } = require('crypto');
if (isMainThread) {
  const results = [];
  for (let n = 0; n < 4; n++)
    new Worker(__filename, { workerData: n }).on('message', text => {
      if (results.push(text) === 4) console.log(results.sort().join('\\n'));
    });
} else {
  const deep = n => n === 0 ? 0 : 1 + deep(n - 1);
  let text = String(workerData + deep(5000));
  for (let i = 0; i < 1000; i++) text = createHash('sha256').update(text).digest('hex');
  parentPort.postMessage(text);
}
"""

UNBOUND = """
server:
  interface: 127.0.0.1
  port: {port}
  num-threads: 4
  username: ""
  chroot: ""
  directory: "{directory}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  module-config: "iterator"
  local-zone: "example." static
  local-data: "fridge.example. A 192.0.2.1"
  local-data: "door.example. A 192.0.2.2"
remote-control:
  control-enable: no
"""


@pytest.fixture
def prefixes(tmp_path):
    """Without TEK, then with the run that measures, then with the one that fits."""
    tuned = [TEK, "run", "--stack", "auto", "--stack-profiles", str(tmp_path / "profiles"), "--"]
    return [[], tuned, tuned]


def learnt(tmp_path):
    """The kinds in all profiles."""
    files = list((tmp_path / "profiles").glob("*.stack"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [dict(re.findall(r"([a-z]+)=(\S+)", line)) for line in lines if line.startswith("kind ")]


def same(tmp_path, outcomes, threads=1):
    """All had the same result, and the profiles have data on the threads."""
    without, first, second = outcomes
    assert first == without
    assert second == without
    assert sum(int(kind["threads"]) for kind in learnt(tmp_path)) >= threads


def may_open_no_files(program):
    """Whether it is an xz that forbids itself to open files, where the kernel has Landlock."""
    if pathlib.Path(program).name != "xz":
        return False
    info = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+)\.(\d+)", info)
    listed = pathlib.Path("/sys/kernel/security/lsm")
    without = listed.exists() and "landlock" not in listed.read_text()
    return (int(version[1]), int(version[2])) >= (5, 6) and not without


@pytest.mark.parametrize("command", [
    ["pigz", "-n", "-c", "-p", "4"], ["pbzip2", "-c", "-p4"], ["xz", "-1", "-T2", "-c"],
    ["zstd", "-T2", "-c", "-q"],
], ids=lambda command: command[0])
def test_compressors_compress_to_the_same_bytes(tmp_path, prefixes, data, command):
    command = [needs(command[0]), *command[1:], str(data)]
    locks_itself_in = may_open_no_files(command[0])
    same(tmp_path, [outcome([*prefix, *command]) for prefix in prefixes],
         threads=0 if locks_itself_in else 1)
    if locks_itself_in:
        pytest.skip("the same bytes, but this xz forbids itself to open files (Landlock), so it "
                    "can record nothing of its stacks")


def test_python_with_300_threads_computes_the_same(tmp_path, prefixes):
    command = [sys.executable, "-c", PYTHON_300_THREADS]
    same(tmp_path, [outcome([*prefix, *command]) for prefix in prefixes], threads=300)


def test_node_with_4_workers_computes_the_same(tmp_path, prefixes):
    script = tmp_path / "workers.js"
    script.write_text(NODE_4_WORKERS)
    same(tmp_path, [outcome([*prefix, needs("node"), str(script)]) for prefix in prefixes])


def test_java_prints_its_own_version(tmp_path, prefixes):
    same(tmp_path, [outcome([*prefix, needs("java"), "-version"]) for prefix in prefixes])


def test_three_kinds_of_std_thread_are_distinguished(tmp_path, prefixes, compile_c):
    source = (PROGRAMS / "stack_kinds.cpp").read_text()
    program = compile_c(source, "g++", "-x", "c++", "-O1", "-pthread")
    same(tmp_path, [outcome([*prefix, str(program)]) for prefix in prefixes], threads=3)
    bounds = {kind["function"]: int(kind["bound"]) for kind in learnt(tmp_path)}
    assert len(bounds) == 3
    low, middle, high = sorted(bounds.values())
    assert low < 60_000 < middle < 160_000 < high


def test_redis_serves_its_clients_the_same(tmp_path, prefixes):
    outcomes = [plain_redis()]
    for number, prefix in enumerate(prefixes[1:]):
        directory = tmp_path / str(number)
        directory.mkdir()
        outcomes.append(serve_redis(prefix, directory))
    same(tmp_path, outcomes)


def ask_memcached(path):
    """The replies to a client on 8 connections."""
    clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    answers = []
    for client in clients:
        client.settimeout(60)
        client.connect(str(path))
    for n in range(400):
        client = clients[n % 8]
        value = hashlib.sha256(str(n % 50).encode()).hexdigest().encode() * (n % 40)
        client.sendall(b"set key%d 0 0 %d\r\n%s\r\nget key%d\r\n" % (n % 50, len(value), value,
                                                                     n % 50))
        answer = b""
        while not answer.endswith(b"END\r\n"):
            answer += client.recv(65536)
        answers.append(answer)
    for client in clients:
        client.close()
    return answers


def test_memcached_serves_its_clients_the_same(tmp_path, prefixes):
    outcomes = []
    user = ["-u", "root"] if os.geteuid() == 0 else []
    for number, prefix in enumerate(prefixes):
        path = tmp_path / f"socket{number}"
        with Server(prefix, needs("memcached"), *user, "-t", "8", "-s", path) as server:
            eventually(lambda: listens_at(path))
            answers = ask_memcached(path)
        outcomes.append((answers, server.status))
    same(tmp_path, outcomes, threads=8)


def free_port():
    """A free port for UDP and TCP. It is outside of the kernel's range of local ports: connections
    of an earlier test occupy many of these for a minute after their end."""
    while True:
        port = random.randrange(10000, 30000)
        try:
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("127.0.0.1", port))
            return port
        except OSError:
            continue


def ask_dns(port, name):
    """The reply to a query for an address, without its number; None until there is one."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0,
                           0) + labels + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.5)
        client.connect(("127.0.0.1", port))
        try:
            client.send(question)
            return client.recv(4096)
        except OSError:
            return None


def test_unbound_answers_the_same(tmp_path, prefixes):
    outcomes = []
    for prefix in prefixes:
        port = free_port()
        config = tmp_path / "unbound.conf"
        config.write_text(UNBOUND.format(port=port, directory=tmp_path))
        with Server(prefix, needs("unbound"), "-d", "-c", config) as server:
            eventually(lambda: ask_dns(port, "fridge.example"))
            names = [f"{name}.example" for name in ("fridge", "door", "nobody")] * 30
            answers = [eventually(lambda name=name: ask_dns(port, name)) for name in names]
        outcomes.append((answers, server.status))
    same(tmp_path, outcomes, threads=3)


def test_mariadb_serves_sysbench_with_16_clients_the_same(tmp_path, prefixes, mariadb):
    same(tmp_path, [mariadb.plain, *(mariadb.serve(prefix, 16) for prefix in prefixes[1:])],
         threads=16)
