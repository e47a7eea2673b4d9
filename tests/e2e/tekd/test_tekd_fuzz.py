# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random requests of several users at once: tekd lives, grows no larger, and gives no user more
than its grant.

TEK_FUZZ_REQUESTS=1000000 TEK_SEED=7 runs it for longer, or otherwise.
"""
import os
import subprocess
import threading
import time

import pytest
from conftest import eventually
from tekd_client import HELLO, STATUS, is_fast, scheduling
from tekd_daemon import daemon, pytestmark, resident, thread
from test_tekd_attacked import end, python
from test_tekd_crowd import descriptors

assert daemon and thread and pytestmark  # which pytest finds by their names

REQUESTS = int(os.environ.get("TEK_FUZZ_REQUESTS", "8000"))
SEED = int(os.environ.get("TEK_SEED", "6"))
GRANTED, ROGUE = 54321, 54322
MOST_THREADS, MOST_PRIORITY = 2, 29

GRANTS = f"""
[[grant]]
users = [{GRANTED}]
threads = {MOST_THREADS}
user_threads = {MOST_THREADS}
priorities = [0, 19]
rate = 10000
budget = "off"
"""

# SOCKET UID SEED COUNT TID...: COUNT requests of that user, most of them nearly valid, about its
# own threads, those tids, and any other ids. After them it prints a line and stays.
FUZZER = r"""
import random
uid, seed, count = map(int, sys.argv[3:6])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
generator = random.Random(seed)
sleepers = []
def live():
    sleepers.append(threading.get_native_id())
    time.sleep(3600)
for _ in range(4):
    threading.Thread(target=live, daemon=True).start()
while len(sleepers) < 4:
    time.sleep(0.001)
tids = [*sleepers * 4, threading.get_native_id(), *map(int, sys.argv[6:]),
        0, 1, 2, 2**31 - 1, 2**32 - 1]
print(" ".join(map(str, sleepers)), flush=True)

def number(bits):
    return generator.choice([0, 1, 2**bits - 1, 2**(bits - 1), generator.getrandbits(bits)])

def nearly_right():
    fields = dict(kind=generator.choice([1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8]),
                  number=generator.getrandbits(32), tid=generator.choice(tids),
                  priority=generator.randrange(-22, 22))
    match generator.randrange(6):
        case 0:
            fields["until"] = time.monotonic_ns() + generator.randrange(-10**6, 10**7)
            if fields["kind"] == ENTER and generator.randrange(2):
                fields["flags"], fields["then"] = 4, generator.randrange(-2, 21)
                fields["priority"] = abs(fields["priority"])
        case 1: fields["flags"] = generator.randrange(8)
        case 2: fields["group"] = generator.randrange(8)
        case 3: fields["start"] = number(64)
        case 4: fields["kind"] = number(16)
    # What a kind has no use for must be zero: mostly it is.
    if generator.randrange(8):
        if fields["kind"] not in (2, 7):
            fields["priority"] = 0
        if fields["kind"] in (1, 5):
            fields["tid"] = 0
    return bytearray(request(**fields))

def packet():
    bytes_ = nearly_right()
    match generator.randrange(150):  # each of these ends the connection
        case 0: return generator.randbytes(generator.randrange(1, 400))
        case 1: return bytes_[: generator.randrange(1, 64)]
        case 2: return bytes_ + generator.randbytes(generator.randrange(1, 300))
        case 3 | 4: bytes_[generator.randrange(64)] ^= 1 << generator.randrange(8)
        case 5: bytes_[generator.randrange(16) * 4:][:4] = struct.pack("<I", number(32))
    return bytes_

def connect():
    while True:
        try:
            client = Client(sys.argv[2])
            client.socket.settimeout(5)
            return client
        except OSError:
            time.sleep(0.01)

client, asked = connect(), 0
while asked < count:
    try:
        burst = generator.randrange(1, 5)
        asked += burst
        for _ in range(burst):
            client.socket.send(packet())
        if generator.randrange(200) == 0:
            client.close()  # reads nothing
            client = connect()
            continue
        for _ in range(burst):
            packet_, fds, _, _ = socket.recv_fds(client.socket, 4096, 4)
            for fd in fds:
                os.close(fd)
            if not packet_:
                raise Closed
        client.socket.setblocking(False)
        try:
            while client.socket.recv(4096):
                pass
            raise Closed
        except BlockingIOError:
            client.socket.settimeout(5)
    except OSError:
        client.close()
        client = connect()
print("done", flush=True)
sys.stdin.readline()
"""


def test_random_requests_give_no_client_more_than_it_was_granted(daemon, open_directory, thread):
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(GRANTS)
    victim = subprocess.Popen(["sleep", "3600"])
    wanted = [thread, os.getpid(), victim.pid, daemon.process.pid]
    before = {tid: scheduling(tid) for tid in wanted}
    fuzzers = []
    try:
        for n, uid in enumerate([GRANTED, GRANTED, ROGUE, 65534]):
            peers = [*wanted, *[tid for _, _, tids in fuzzers for tid in tids]]
            process = python(FUZZER, daemon.socket, uid, SEED * 100 + n, REQUESTS // 4, *peers)
            tids = [process.pid, *map(int, process.stdout.readline().split())]
            fuzzers.append((process, uid, tids))
        view_while_they_ask(daemon, fuzzers, before)
    finally:
        for process, _, _ in fuzzers:
            end(process)
        victim.kill()
        victim.wait()
    client = daemon.client()
    eventually(lambda: client.json(STATUS)["counts"]["connections"] == 1)
    assert not client.json(STATUS)["fast"]
    del before[victim.pid]
    assert {tid: scheduling(tid) for tid in before} == before
    assert daemon.end() == 0
    assert "panicked" not in daemon.log.read_text()


def view_while_they_ask(tekd, fuzzers, before):
    """Until all have sent their requests: the invariants hold meanwhile."""
    sizes, finished = [], set()
    readers = [threading.Thread(target=lambda p=process: p.stdout.readline() == "done\n"
                                and finished.add(p.pid))
               for process, _, _ in fuzzers]
    for reader in readers:
        reader.start()
    client = tekd.client()
    eventually(tekd.has_loaded)
    end_at = time.monotonic() + 120 + REQUESTS / 100
    while len(finished) < len(fuzzers):
        assert time.monotonic() < end_at, "they are not served"
        assert all(process.poll() is None for process, _, _ in fuzzers)
        fast = {fast["tid"]: fast for fast in client.json(STATUS)["fast"]}
        own = [tid for _, uid, tids in fuzzers if uid == GRANTED for tid in tids]
        assert len(fast) <= MOST_THREADS and set(fast) <= set(own)
        assert all(thread["rt_priority"] <= MOST_PRIORITY for thread in fast.values())
        not_granted = [tid for _, uid, tids in fuzzers if uid != GRANTED for tid in tids]
        assert not any(is_fast(tid) for tid in not_granted)
        assert {tid: scheduling(tid) for tid in before} == before
        sizes.append(resident(tekd))
        assert descriptors(tekd) < 100
        time.sleep(0.05)
    assert client.json(STATUS)["counts"]["granted"] > REQUESTS / 400
    assert client.ask(HELLO).error != 0  # nothing is granted to root
    assert max(sizes) < sizes[0] + 3072
    for reader in readers:
        reader.join()


@pytest.mark.parametrize("fixed", [0x41, 0x00, 0xff])
def test_packets_of_one_byte_value_and_any_length_are_none(daemon, fixed):
    daemon.start('[[grant]]\nusers = ["root"]\n')
    for length in [*range(1, 130), 255, 256, 257, 4096, 65536]:
        client = daemon.client()
        client.socket.send(bytes([fixed]) * length)
        assert client.receive().number == 0
        client.close()
    assert daemon.client().ask(HELLO).error == 0
