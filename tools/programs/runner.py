"""Runs the work of one program in one mode.

A Run has a directory, a time limit, and the words that put TEK before a program. Whatever it starts
gets a session of its own; end() kills what is left, by process ID.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from chroots.system import end_children

NOBODY = 65534
# For programs that refuse to run as root.
AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
POLL = 0.1  # seconds between two attempts of until()


class Hung(Exception):
    """The time limit is over; the text says for what it waited."""


class Failed(Exception):
    """A program ended in another way than it should."""

    def __init__(self, text: str, status: int = 0):
        super().__init__(text)
        self.status = status


def describe(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


class Run:
    def __init__(self, prefix: list[str], directory: Path, held: Path, limit: float):
        self.prefix = prefix
        self.directory = directory  # of this run alone
        self.held = held  # what Program.prepare made
        self.deadline = time.monotonic() + limit
        self.errors = directory / "stderr"
        self.started: list[subprocess.Popen] = []

    def left(self) -> float:
        return max(self.deadline - time.monotonic(), 0)

    def output(self, *command: str | Path, nobody: bool = False, **environment: str) -> str:
        """What a program under TEK writes to standard output. Raises Failed, Hung."""
        return self._output([*self.prefix, *command], nobody, environment)

    def client(self, *command: str | Path, nobody: bool = False, **environment: str) -> str:
        """The same without TEK."""
        return self._output(list(command), nobody, environment)

    def start(
        self, *command: str | Path, nobody: bool = False, **environment: str
    ) -> subprocess.Popen:
        """Starts a daemon under TEK."""
        return self._start([*self.prefix, *command], nobody, environment, subprocess.DEVNULL)

    def until(self, daemon: subprocess.Popen, ask: Callable[[], str]) -> str:
        """The answer of a daemon that may need time to begin."""
        while True:
            try:
                return ask()
            except (Failed, OSError) as error:
                if daemon.poll() is not None:
                    raise Failed(
                        f"the daemon ended: {describe(daemon.returncode)}", daemon.returncode
                    ) from error
                if not self.left():
                    raise Hung(f"no answer: {error}") from error
                time.sleep(POLL)

    def stop(self, daemon: subprocess.Popen, number: int = signal.SIGTERM, status: int = 0) -> None:
        """Ends a daemon by a signal, after which its exit status should be this."""
        daemon.send_signal(number)
        self._wait(daemon, "the end of the daemon")
        if daemon.returncode != status:
            raise Failed(f"the daemon's end: {describe(daemon.returncode)}", daemon.returncode)

    def end(self) -> None:
        for child in self.started:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            child.wait()
        end_children()

    def _output(self, command: list, nobody: bool, environment: dict[str, str]) -> str:
        path = self.directory / f"stdout-{len(self.started)}"
        with path.open("wb") as stream:
            child = self._start(command, nobody, environment, stream)
        self._wait(child, "its end")
        if child.returncode:
            raise Failed(describe(child.returncode), child.returncode)
        return path.read_text(errors="replace")

    def _start(self, command: list, nobody: bool, environment: dict[str, str], stdout):
        if nobody and os.geteuid() == 0:
            command = [*AS_NOBODY, *command]
        with self.errors.open("ab") as errors:
            child = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=errors,
                start_new_session=True,
                env=os.environ | environment,
            )
        self.started.append(child)
        return child

    def _wait(self, child: subprocess.Popen, what: str) -> None:
        try:
            child.wait(timeout=self.left())
        except subprocess.TimeoutExpired as error:
            raise Hung(f"waited for {what}") from error


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
