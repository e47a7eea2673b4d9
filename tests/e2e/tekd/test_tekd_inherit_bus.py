# SPDX-License-Identifier: MIT OR Apache-2.0
"""A service of a message bus is lifted for its client."""
import os
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import eventually, needs
from tekd_client import scheduling
from tekd_inheriting import hogs, inheriting, is_lifted, make_critical, pytestmark

assert hogs and inheriting and pytestmark  # which pytest finds by their names

# A D-Bus client that speaks the protocol itself: the first argument is `serve` or `call`.
BUS = r"""
import os, socket, struct, sys, threading
role, address = sys.argv[1], sys.argv[2]
bus = socket.socket(socket.AF_UNIX)
bus.connect(address)
uid = str(os.getuid()).encode().hex()
bus.sendall(b"\0AUTH EXTERNAL " + uid.encode() + b"\r\n")
assert bus.recv(4096).startswith(b"OK")
bus.sendall(b"BEGIN\r\n")
serial = 0

def text(value, code="<I"):
    data = value.encode()
    return struct.pack(code, len(data)) + data + b"\0"

def pad(data, to=8):
    return data + b"\0" * (-len(data) % to)

def send(kind, fields, body=b"", signature=None, reply=0):
    global serial
    serial += 1
    out = b""
    if signature:
        fields = {**fields, 8: signature}
    for code, value in fields.items():
        sign = {1: "o", 5: "u", 8: "g"}.get(code, "s")
        out = pad(out) + bytes([code]) + text(sign, "<B")
        if sign == "u":
            out = pad(out, 4) + struct.pack("<I", value)
        elif sign == "g":
            out += text(value, "<B")
        else:
            out = pad(out, 4) + text(value)
    head = struct.pack("<cBBBIII", b"l", kind, 0, 1, len(body), serial, len(out))
    bus.sendall(pad(head + out) + body)

def exactly(count):
    data = b""
    while len(data) < count:
        data += bus.recv(count - len(data)) or sys.exit("the bus hung up")
    return data

def receive():
    _, kind, _, _, body, number, fields = struct.unpack("<cBBBIII", exactly(16))
    return kind, number, exactly(fields + -fields % 8 + body)[:fields]

def sender(fields):
    at = fields.index(b"\x07\x01s\0")
    length, = struct.unpack_from("<I", fields, at + 4)
    return fields[at + 8:at + 8 + length].decode()

def call(member, to, path, interface, body=b"", signature=None):
    send(1, {1: path, 2: interface, 3: member, 6: to}, body, signature)

def answer():
    while (message := receive())[0] not in (2, 3):
        pass
    assert message[0] == 2

BUS = "org.freedesktop.DBus"
call("Hello", BUS, "/org/freedesktop/DBus", BUS)
answer()
if role == "serve":
    body = pad(text("org.example.Service"), 4) + struct.pack("<I", 0)
    call("RequestName", BUS, "/org/freedesktop/DBus", BUS, body, "su")
    answer()
    print(threading.get_native_id(), flush=True)
    while True:
        kind, number, fields = receive()
        if kind == 1:
            sys.stdin.readline()
            send(2, {5: number, 6: sender(fields)})
print(threading.get_native_id(), flush=True)
for line in sys.stdin:
    call("Ask", "org.example.Service", "/", "org.example.Service")
    answer()
    print("answered", flush=True)
"""


@pytest.fixture
def bus(tmp_path):
    """A bus daemon, the pid of it, a service and a client."""
    needs("dbus-daemon")
    address = tempfile.mktemp(prefix="tek-test-bus-")
    config = tmp_path / "bus.conf"
    config.write_text(f'<busconfig><type>session</type><listen>unix:path={address}</listen>'
                      '<auth>EXTERNAL</auth><policy context="default"><allow send_destination="*"'
                      ' eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>'
                      '</busconfig>')
    processes = [subprocess.Popen(["dbus-daemon", f"--config-file={config}", "--nofork"])]
    eventually(lambda: os.path.exists(address))
    for role in ("serve", "call"):
        processes.append(subprocess.Popen([sys.executable, "-c", BUS, role, address], text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        processes[-1].tid = int(processes[-1].stdout.readline())
    yield processes
    for one in processes:
        one.kill()
        one.wait()
    os.unlink(address)


def test_a_service_of_the_bus_is_lifted_for_its_client(inheriting, bus, hogs):
    daemon = inheriting("max_wait_ms = 10000")
    _, service, client = bus
    before = scheduling(service.tid)
    priority = make_critical(daemon, client.tid)

    def command(one):
        one.stdin.write("go\n")
        one.stdin.flush()

    def is_lifted_once():
        command(client)
        end = time.monotonic() + 1
        while not (lifted := is_lifted(service.tid, priority - 1)) and time.monotonic() < end:
            time.sleep(0.002)
        if not lifted:
            command(service)
            assert client.stdout.readline() == "answered\n"
        return lifted
    eventually(is_lifted_once)
    command(service)
    assert client.stdout.readline() == "answered\n"
    eventually(lambda: scheduling(service.tid) == before)
