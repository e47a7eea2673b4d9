# SPDX-License-Identifier: MIT OR Apache-2.0
"""A client of tekd, for tests and for processes that they start, which need few imports."""
# pylint: disable=unused-import
import errno
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time

REQUEST = struct.Struct("<IHHIIQQiIIIIiII")
REPLY = struct.Struct("<IHHIIiI2Q88s")
HELLO, ENTER, LEAVE, GROUP, STATUS, EXPLAIN, CRITICAL, NORMAL = range(1, 9)
LEFT, REFUSED = 101, 102
PROCESS, LIFT, THEN = 1, 2, 4
RR_RESET = os.SCHED_RR | 0x40000000


class Answer:
    def __init__(self, packet):
        (self.magic, self.version, self.kind, self.number, self.tid, self.error, self.rt_priority,
         first, second, text) = REPLY.unpack(packet)
        self.value = (first, second)
        self.text = text.split(b"\0")[0].decode()


class Closed(ConnectionError):
    """tekd has closed the connection."""


class Client:
    """A connection of this process."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        # connect() waits so long while tekd's queue of connections is full.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 20, 0))
        self.socket.connect(str(path))
        self.socket.settimeout(60)
        self.number = 0
        self.notices = []

    def receive(self):
        try:
            packet = self.socket.recv(4096)
        except ConnectionError:
            packet = b""
        if not packet:
            raise Closed
        return Answer(packet)

    def send(self, kind, tid=0, *, start=0, until=0, priority=0, flags=0, group=0, then=0):
        self.number += 1
        try:
            self.socket.send(request(kind, self.number, tid, start, until, priority, flags, group,
                                     then))
        except ConnectionError:
            raise Closed from None

    def ask(self, *arguments, **options):
        self.send(*arguments, **options)
        while (answer := self.receive()).number == 0:
            self.notices.append(answer)
        assert answer.number == self.number
        return answer

    def notice(self):
        return self.notices.pop(0) if self.notices else self.receive()

    def json(self, kind, tid=0):
        """STATUS or EXPLAIN: the content of the file that comes with the reply."""
        self.send(kind, tid)
        packet, fds, _, _ = socket.recv_fds(self.socket, 4096, 4)
        if not packet:
            raise Closed
        assert Answer(packet).error == 0, Answer(packet).text
        with os.fdopen(fds[0], "rb") as file:
            file.seek(0)
            return json.load(file)

    def close(self):
        self.socket.close()


def request(kind, number, tid=0, start=0, until=0, priority=0, flags=0, group=0, then=0):
    return REQUEST.pack(0x514B4554, 1, kind, number, tid, start, until, priority, flags, group,
                        0, 0, then, 0, 0)


def scheduling(tid):
    """Policy with flag, priority, nice."""
    return (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority,
            os.getpriority(os.PRIO_PROCESS, tid))


def is_fast(tid):
    return os.sched_getscheduler(tid) == RR_RESET
