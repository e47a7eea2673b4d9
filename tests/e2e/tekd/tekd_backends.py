# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each way of making threads Fast, and programs that load CPUs."""
import contextlib
import os
import signal
import subprocess

import pytest
from paths import PROGRAMS
from tekd_client import STATUS, scheduling
from tekd_daemon import USUAL
from test_tekd_groups import group_of, groups

CPUS = sorted(os.sched_getaffinity(0))
WAYS = {
    "rt": lambda: 'backend = "rt"\n' + USUAL,
    "rt-groups": lambda: groups("rt"),
    "fair": lambda: groups("fair"),
}


class Backend:
    """One way of making threads Fast."""

    def __init__(self, name, daemon):
        self.name, self.daemon = name, daemon
        self.is_fair = name == "fair"

    def start(self, before="", after=""):
        """tekd, with more keys above the first table and in the last."""
        self.daemon.start(before + WAYS[self.name]() + after)
        status = self.daemon.client().json(STATUS)
        if self.name != "rt" and status["groups"] is None:
            pytest.skip(f"no control groups here: {status['groups_why']}")
        assert status["backend"] == ("fair" if self.is_fair else "rt")
        return self.daemon.client()

    def is_fast(self, tid):
        """Whether a thread has precedence over ordinary ones, by its policy or by its group."""
        policy, priority, _ = scheduling(tid)
        return (group_of(tid) == "fast" if self.is_fair else priority >= 10
                and policy & 0x40000000 != 0)

    def mode(self):
        return self.daemon.client().json(STATUS)["mode"]


@pytest.fixture(params=WAYS)
def backend(request, daemon):
    return Backend(request.param, daemon)


class Load:
    """One of programs/loads.c."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([str(program), *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, process_group=0)
        self.pid = self.process.pid
        self.orphans = []
        self.tids = self.numbers()

    def numbers(self):
        line = self.process.stdout.readline()
        assert line, "the load has ended"
        return [int(word) for word in line.split()]

    def order(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def close(self):
        # With all of its processes that stayed.
        if self.process.stdin.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def load(compile_c):
    """Starts loads, and ends them."""
    program = compile_c((PROGRAMS / "loads.c").read_text(), "cc", "-O1", "-D_GNU_SOURCE",
                        "-pthread")
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(contextlib.closing(Load(program, *arguments)))
