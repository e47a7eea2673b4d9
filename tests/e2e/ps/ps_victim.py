# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program with named threads, and tek ps beside tables that are written by hand."""
import json
import os
import pathlib
import subprocess
import tempfile

import pytest
from conftest import tids_by_name


class Victim:
    """A running program."""

    def __init__(self, process, names):
        self.process, self.pid = process, process.pid
        self.tids = tids_by_name(self.pid, names)

    def ticks(self, name):
        """The CPU time of a thread, in ticks of the kernel."""
        stat = pathlib.Path(f"/proc/{self.pid}/task/{self.tids[name]}/stat").read_text()
        return sum(map(int, stat.rpartition(")")[2].split()[11:13]))


@pytest.fixture
def victim(waiting):
    """Starts a program with threads of these names."""
    started = []

    def start(*names):
        process = subprocess.Popen([waiting, *names], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return Victim(process, names)

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def tables():
    """A directory for tables written by hand, that other users can enter."""
    with tempfile.TemporaryDirectory(prefix="tek-tables-") as directory:
        os.chmod(directory, 0o755)
        yield pathlib.Path(directory)


@pytest.fixture
def ps(tek, tables):
    """Runs tek ps, with that directory's tables among other ones; its rows as lists of words."""

    def run(*arguments, status=0, stderr="", **options):
        ended = tek("ps", *arguments, env={**os.environ, "TEK_RUN_DIR": str(tables)}, **options)
        assert ended.returncode == status, ended.stderr
        if stderr is not None:
            assert ended.stderr == stderr
        return ended.stdout

    return run


def rows(text):
    """The table without its heads, cell by cell."""
    return [line.split() for line in text.splitlines()[1:]]


def threads_of(ps, *arguments, **options):
    return json.loads(ps("--json", *arguments, **options))["threads"]
