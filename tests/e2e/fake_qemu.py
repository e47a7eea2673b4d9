#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A QEMU with this program as its guest: it sends an agent's frames over the inherited sockets, and
does what a job's command names. So the host's side is tested in milliseconds."""
import errno
import io
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import sys
import tarfile
import time

VERSION = 3
SOCKETS = {
    name: socket.socket(fileno=int(fd))
    for name, fd in re.findall(r"socket,id=(\w+),fd=(\d+)", " ".join(sys.argv))
}
PORT = SOCKETS["port"]


def put(kind, payload):
    if not isinstance(payload, bytes):
        payload = json.dumps(payload).encode()
    for at in range(0, len(payload), 60_000) or [0]:
        piece = payload[at:at + 60_000]
        PORT.sendall(kind + struct.pack("<I", len(piece)) + piece)


def done(how, left=(), lost=()):
    put(b"V", how)
    put(b"D", {"left": list(left), "lost": list(lost)})


def receive(length):
    data = b""
    while len(data) < length:
        data += PORT.recv(length - len(data)) or sys.exit(0)
    return data


def take():
    kind, length = struct.unpack("<cI", receive(5))
    return kind, receive(length)


def until_end():
    while take()[0] != b"X":
        pass


def console(text):
    SOCKETS["console"].sendall(text.encode())


def tar(entries):
    """An archive with any entries: NAME=TEXT is a file, NAME@TARGET a link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for entry in entries:
            name, kind, text = re.fullmatch(r"([^=@]*)([=@])(.*)", entry).groups()
            about = tarfile.TarInfo(name)
            if kind == "@":
                about.type, about.linkname = tarfile.SYMTYPE, text
            about.size = len(text) if kind == "=" else 0
            archive.addfile(about, io.BytesIO(text.encode()))
    return packed.getvalue()


def terminal():
    """A shell for one key at a time; it prints sizes in brackets."""
    port = SOCKETS["terminal"]
    port.sendall(b"$ ")
    while True:
        kind = port.recv(1)
        if kind == b"W":
            port.sendall("[{}x{}]".format(*struct.unpack("<HH", port.recv(4))).encode())
            continue
        keys = port.recv(struct.unpack("<H", port.recv(2))[0])
        port.sendall(repr(keys).encode())
        if b"\x04" in keys:
            return done({"exited": 5})
        if b"!" in keys:
            os.kill(os.getpid(), signal.SIGKILL)
        if b"f" in keys:
            port.sendall(b"x" * 5_000_000 + b"end")


def run(job):
    action, *words = job["command"]
    if action == "tek-lab":
        terminal()
    elif action == "exit":
        done({"exited": int(words[0])})
    elif action == "say":
        put(b"O", words[0].encode())
        put(b"E", words[1].encode())
        done({"exited": 0})
    elif action == "environment":
        put(b"O", job)
        done({"exited": 0})
    elif action == "arguments":
        put(b"O", sys.argv)
        done({"exited": 0})
    elif action == "missing":
        done({"not-started": {"why": "missing: No such file or directory", "errno": errno.ENOENT}})
    elif action == "kill":
        done({"killed": int(words[0])})
    elif action == "memory":
        console("[    9.9] Out of memory: Killed process 61 (tail)\n")
        done({"killed": 9})
    elif action == "files":
        put(b"F", tar(words))
        done({"exited": 0})
    elif action == "lose-files":
        put(b"F", tar(["a=1"]))
        done({"exited": int(words[0])}, lost=["File name too long: $OUT/d"])
    elif action == "many-bytes":
        for _ in range(int(words[0])):
            put(b"O", b"x" * 60_000)
        done({"exited": 0})
    elif action == "spoil":
        # Results cannot be written there any more.
        shutil.rmtree(words[0])
        open(words[0], "w").close()
        done({"exited": 0})
    elif action == "leave":
        done({"exited": 0}, ["a mount"])
    elif action == "endless":
        until_end()
        done({"killed": 9})
    elif action == "flood":
        while True:
            put(b"O", b"y\n" * 1000)
    elif action == "pour":
        # Until it is ended, as fast as the host reads.
        PORT.setblocking(False)
        frame = b"E" if words[0] == "stderr" else b"O"
        frame += struct.pack("<I", 50_000) + b"y" * 50_000
        rest = b""
        while True:
            rest = rest or frame
            reads, writes, _ = select.select([PORT], [PORT], [])
            if writes:
                rest = rest[PORT.send(rest):]
            if reads:
                break
        PORT.setblocking(True)
        PORT.sendall(rest)
        until_end()
        done({"killed": 9})
    elif action == "panic":
        console("[    9.9] Kernel panic - not syncing: sysrq triggered crash\r\n"
                "[    9.9] CPU: 0\r\n")
        sys.exit(0)
    elif action == "off":
        sys.exit(0)
    elif action == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "nonsense":
        PORT.sendall(b"\x7fELF")
        time.sleep(60)
    elif action == "tell":
        # Its pid, for the test that will end it.
        with open(words[0] + ".new", "w") as info:
            info.write(str(os.getpid()))
        os.rename(words[0] + ".new", words[0])
        time.sleep(60)
    else:
        done({"not-started": {"why": f"{action}: Permission denied", "errno": errno.EACCES}})


console("[    0.0] Linux version 0 (fake)\n")
if "boot-slowly" in " ".join(sys.argv):
    time.sleep(60)
if "refuse-to-boot" in " ".join(sys.argv):
    sys.exit("qemu: no such machine")
put(b"H", {"version": VERSION})
while True:
    what, about = take()
    if what == b"R":
        run(json.loads(about))
