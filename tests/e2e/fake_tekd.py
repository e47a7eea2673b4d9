# SPDX-License-Identifier: MIT OR Apache-2.0
"""A daemon that reports the data of a test (abi/tek_message.h, docs/man/tekd.8)."""
import json
import os
import socket
import struct
import threading

REQUEST = struct.Struct("<IHHIIQQiII5I")
REPLY = struct.Struct("<IHHIIiI2Q88s")
STATUS = 5
MAGIC = 0x524B4554  # of a reply

AT_WORK = {
    "schema": 1, "version": "9.9", "pid": 7, "since": "2026-11-22T09:30:00Z", "domain": ["device"],
    "mode": "responsiveness", "backend": "fair", "backend_why": "tekd.toml:1", "fast": [
        {"tid": 816, "pid": 815, "program": "fridge", "name": "gas", "uid": 0, "priority": -3,
         "rt_priority": 32, "since_ms": 65_000, "until_ms": None, "asked_by": 815, "why": "x"},
        {"tid": 817, "pid": 815, "program": "fridge", "name": "door", "uid": 1000, "priority": 0,
         "rt_priority": 29, "since_ms": 12, "until_ms": 4_988, "asked_by": 900, "why": "x"},
    ],
    "clients": [], "refused": [], "overran": [], "canary": {"limit_ms": 1500, "demoted": 2},
    "counts": {"changes": 3, "connections": 4, "granted": 50, "refused": 6, "expelled": 7},
    "groups": {"place": "x", "top": "/t", "floor_percent": 5, "entered": True, "left": 0,
               "fast": {"path": "/t/fast", "threads": 2},
               "groups": [{"name": "urgent", "weight": 400, "path": "/t/u", "threads": 1,
                           "processes": 1},
                          {"name": "normal", "weight": 100, "path": "/t/n", "threads": 9,
                           "processes": None}]},
    "lowered": [],
}


class FakeTekd:
    """Listens at a path until it is closed. It reports `said`: a dictionary, or bytes that are no
    JSON; or nothing at all, if that is None."""

    def __init__(self, path, seen=None):
        self.seen = seen
        self.asked = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        self.socket.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        with client:
            while packet := client.recv(4096):
                _, version, kind, number, *_ = REQUEST.unpack(packet)
                self.asked.append(kind)
                if self.seen is None:
                    continue
                reply = REPLY.pack(MAGIC, version, kind, number, 0, 0, 0, 0, 0, b"")
                file = os.memfd_create("said")
                os.write(file, self.seen if isinstance(self.seen, bytes)
                         else json.dumps(self.seen).encode())
                socket.send_fds(client, [reply], [file])
                os.close(file)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
