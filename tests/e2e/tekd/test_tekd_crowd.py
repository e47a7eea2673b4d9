# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many clients connect to tekd, stay, read nothing, or come and go: tekd serves the other ones."""
import socket
import time

import pytest
from conftest import eventually, read
from tekd_client import ENTER, HELLO, LEAVE, STATUS, Client, Closed, is_fast
from tekd_daemon import daemon, pytestmark, resident, tekd, thread
from test_tekd_attacked import end, python

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names

CROWD = 10_000
GRANTED = 54321
GRANTS = f'[[grant]]\nusers = ["root", {GRANTED}]\nrate = 10000\n'

# SOCKET UID COUNT: opens so many connections and keeps those that it gets.
KEEPER = r"""
uid, count = int(sys.argv[3]), int(sys.argv[4])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
signal.alarm(300)
kept = []
for _ in range(count):
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    kept[-1].connect(sys.argv[2])
print(len(kept), flush=True)
sys.stdin.readline()
"""

# SOCKET UID COUNT: connects so often, enters and leaves; prints how often, and the errors.
ASKER = r"""
uid, count = int(sys.argv[3]), int(sys.argv[4])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
tid, errors = threading.get_native_id(), []
for n in range(count):
    client = Client(sys.argv[2])
    try:
        errors += [client.ask(ENTER, tid).error, client.ask(LEAVE, tid).error]
    except Closed:
        errors.append(-1)
    client.close()
print(len(errors), sum(error != 0 for error in errors), is_fast(tid), flush=True)
"""


def descriptors(of):
    """Without those of the programs that watch waits, which no client can make more."""
    return sum(not name.startswith("anon_inode:bpf") for name in of.files())


@pytest.mark.parametrize("users", [1, 20])
def test_beside_10000_connections_other_clients_are_served_and_tekd_does_not_grow(
        daemon, open_directory, thread, users):
    daemon.socket = open_directory / "run" / "tekd"
    assert daemon.start(GRANTS).client().ask(HELLO).error == 0
    daemon.load_once(thread)
    size, files = resident(daemon), descriptors(daemon)
    keepers = [python(KEEPER, daemon.socket, 60_000 + n, CROWD // users) for n in range(users)]
    asker = None
    try:
        opened = sum(int(keeper.stdout.readline()) for keeper in keepers)
        assert opened == CROWD
        client = daemon.client()
        begin = time.monotonic()
        for _ in range(20):
            assert client.ask(ENTER, thread).error == 0 and is_fast(thread)
            assert client.ask(LEAVE, thread).error == 0 and not is_fast(thread)
        assert time.monotonic() - begin < 30
        asker = python(ASKER, daemon.socket, GRANTED, 10)
        assert asker.stdout.readline() == "20 0 False\n"
        assert descriptors(daemon) < 512 * 2 + files + 20
        # The need of 512 clients, whatever the number of connections.
        assert resident(daemon) < size + 4096
    finally:
        for keeper in keepers + ([asker] if asker else []):
            end(keeper)
    client.close()
    eventually(lambda: descriptors(daemon) <= files)
    assert daemon.client().json(STATUS)["counts"]["connections"] == 1


def test_a_process_that_was_given_something_keeps_its_connection_beside_many_other_ones(
        daemon, open_directory):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(GRANTS)
    program = r"""
os.setresuid(54321, 54321, 54321)
clients = [Client(sys.argv[2]) for _ in range(30)]
tid = threading.get_native_id()
print(clients[0].ask(ENTER, tid).error, flush=True)
sys.stdin.readline()
print(is_fast(tid), clients[0].ask(LEAVE, tid).error, flush=True)
"""
    holder = python(program, daemon.socket)
    keepers = []
    try:
        assert holder.stdout.readline() == "0\n"
        keepers = [python(KEEPER, daemon.socket, 60_000 + n, 30) for n in range(30)]
        for keeper in keepers:
            assert keeper.stdout.readline() == "30\n"
        assert daemon.client().ask(HELLO).error == 0
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "True 0\n"
    finally:
        for process in [holder, *keepers]:
            end(process)


def test_a_process_that_comes_and_goes_at_once_leaves_nothing(tekd, thread):
    tekd.client().ask(HELLO)
    tekd.load_once(thread)
    size, files = resident(tekd), descriptors(tekd)
    for n in range(2000):
        client = Client(tekd.socket)
        try:
            client.send(ENTER, thread)
            if n % 3 == 0:
                client.socket.shutdown(socket.SHUT_RDWR)
            elif n % 3 == 1:
                client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        client.close()
    # Clients that waited for a connection got it before this one.
    client = tekd.client()
    assert client.ask(HELLO).error == 0
    assert client.json(STATUS)["counts"]["granted"] > 1000
    client.close()
    eventually(lambda: not is_fast(thread) and descriptors(tekd) <= files)
    assert resident(tekd) < size + 2048
    assert not tekd.client().json(STATUS)["fast"]


def test_a_client_that_only_shuts_its_half_is_ended(tekd, thread):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    client.socket.shutdown(socket.SHUT_WR)
    eventually(lambda: not is_fast(thread))
    with pytest.raises(Closed):
        client.receive()


def shared_memory_kib():
    return int(read("/proc/meminfo").split("Shmem:")[1].split()[0])


def test_files_that_are_not_read_do_not_pile_up(tekd, thread):
    assert tekd.client().ask(ENTER, thread).error == 0

    def grown_by_those_that_read_nothing():
        clients = [tekd.client() for _ in range(60)]
        before = shared_memory_kib()
        for client in clients:
            client.socket.setblocking(False)
            for _ in range(100):
                try:
                    client.send(STATUS)
                except OSError:
                    break
        good = tekd.client()
        assert good.json(STATUS)["pid"] == tekd.process.pid
        grown = shared_memory_kib() - before
        for client in clients:
            client.close()
        eventually(lambda: good.json(STATUS)["counts"]["connections"] == 1)
        good.close()
        return grown

    # Only a few messages to each client are queued. Other programs may allocate meanwhile.
    assert min(grown_by_those_that_read_nothing() for _ in range(3)) < 60 * 4 * 64
