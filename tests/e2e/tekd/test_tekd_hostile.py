# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clients that send what is no request, send too much, or have no rights gain nothing."""
import errno
import os
import random
import socket
import subprocess
import time

import pytest
from conftest import eventually
from tekd_client import ENTER, GROUP, HELLO, REFUSED, STATUS, Closed, request, scheduling
from tekd_daemon import USUAL, daemon, pytestmark, resident, tekd, thread

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names


def test_what_is_no_request_ends_the_connection_and_gives_nothing(tekd, thread):
    generator = random.Random(6)
    good = tekd.client()
    before, size = scheduling(thread), resident(tekd)
    for n in range(2000):
        match n % 4:
            case 0:
                packet = generator.randbytes(generator.randrange(1, 300))
            case 1:
                packet = request(ENTER, n, thread)[: generator.randrange(1, 64)]
            case 2:
                packet = bytearray(request(generator.randrange(1, 9), n, generator.getrandbits(32)))
                packet[generator.randrange(64)] ^= 1 << generator.randrange(8)
            case _:
                packet = request(ENTER, n, thread) + bytes(generator.randrange(1, 5000))
        client = tekd.client()
        client.socket.send(bytes(packet))
        try:
            answer = client.receive()
            assert answer.kind == REFUSED or n % 4 == 2
        except Closed:
            pass
        client.close()
        if n % 100 == 0:
            assert good.ask(HELLO).error == 0
    assert scheduling(thread) == before
    assert resident(tekd) < size + 2048


def test_a_replayed_request_gives_no_more_than_the_first(daemon, thread):
    client = daemon.start(USUAL + "threads = 1\n").client()
    packet = request(ENTER, 7, thread)
    for _ in range(50):
        client.socket.send(packet)
        answer = client.receive()
        assert (answer.number, answer.error) == (7, 0)
    assert len(client.json(STATUS)["fast"]) == 1


def test_descriptors_that_a_client_passes_are_closed(tekd):
    before = len(os.listdir(f"/proc/{tekd.process.pid}/fd"))
    for _ in range(20):
        client = tekd.client()
        with open("/dev/null", "rb") as file:
            try:
                socket.send_fds(client.socket, [request(HELLO, 1)], [file.fileno()] * 50)
            except OSError:
                pass  # newer kernels refuse it themselves
        client.close()
    eventually(lambda: len(os.listdir(f"/proc/{tekd.process.pid}/fd")) <= before)


def test_of_600_connections_some_are_sent_away_and_the_rest_is_served(tekd, thread):
    first = tekd.client()
    assert first.ask(HELLO).error == 0
    clients, away = [], 0
    for _ in range(600):
        client = tekd.client()
        try:
            client.send(HELLO)
            served = client.receive().kind == HELLO
        except Closed:
            served = False
        clients.append(client)
        away += not served
    assert away >= 600 - 64
    assert first.ask(ENTER, thread).error == 0
    for client in clients:
        client.close()
    eventually(tekd.answers)


def test_a_client_that_does_not_read_is_dropped(tekd, thread):
    client, good = tekd.client(), tekd.client()
    client.socket.setblocking(False)
    with pytest.raises(OSError):
        for _ in range(100_000):
            try:
                client.send(STATUS)
            except BlockingIOError:
                time.sleep(0.001)
    assert good.ask(ENTER, thread).error == 0
    eventually(lambda: good.json(STATUS)["counts"]["connections"] == 1)


def test_more_requests_than_anybody_needs_are_refused(tekd):
    client = tekd.client()
    errors = {client.ask(GROUP, 1).error for _ in range(20)}
    assert errors == {errno.EOPNOTSUPP}
    end = time.monotonic() + 20
    while errno.EBUSY not in errors and time.monotonic() < end:
        for _ in range(8):
            client.send(GROUP, 1)
        errors |= {client.receive().error for _ in range(8)}
    if errno.EBUSY not in errors:
        pytest.skip("this machine is too slow to ask so often")


def test_a_user_without_rights_gets_nothing(daemon, open_directory, as_nobody):
    script = open_directory / "nobody.py"
    script.write_text(NOBODY)
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(USUAL)
    ended = subprocess.run([*as_nobody, "/usr/bin/python3", str(script), str(daemon.socket)],
                           capture_output=True, text=True, timeout=60, check=False)
    if "Permission denied" in ended.stderr and "python" in ended.stderr:
        pytest.skip("nobody may not run python3 here")
    assert ended.stdout.split() == [str(errno.EPERM)] * 4, ended.stderr


NOBODY = r"""
import os, socket, struct, sys
client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
client.connect(sys.argv[1])
for kind, tid in (1, 0), (2, os.getpid()), (7, os.getpid()), (7, os.getppid()):
    client.send(struct.pack("<IHHIIQQiII5I", 0x514B4554, 1, kind, 1, tid, *[0] * 10))
    print(struct.unpack_from("<i", client.recv(200), 16)[0])
"""
