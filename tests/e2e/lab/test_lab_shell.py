# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek lab shell at a terminal, with a QEMU and a shell that prints each key (fake_qemu.py)."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from test_lab import TEK, Lab, needs_busybox

pytestmark = needs_busybox


class Terminal:
    """A terminal at which tek lab shell runs."""

    def __init__(self, lab, *arguments):
        self.ours, theirs = pty.openpty()
        self.resize(30, 90)
        self.usual = termios.tcgetattr(self.ours)
        self.shown = b""
        # It leads a session of its own, like a shell in a terminal window.
        self.run = subprocess.Popen(
            [TEK, "lab", "shell", "--kernel", lab.kernel, *arguments], env=lab.environment,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.theirs = theirs

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.ours, keys)

    def expect(self, text, seconds=60):
        """Reads until that is shown."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.ours], [], [], left)[0], self.shown[-500:]
            self.shown += os.read(self.ours, 1 << 16)
        self.shown = self.shown[self.shown.index(text) + len(text):]

    def is_usual(self):
        return termios.tcgetattr(self.ours) == self.usual

    def status(self):
        return self.run.wait(60)

    def close(self):
        self.run.kill()
        self.run.wait(60)
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    assert not list(lab.temporary.iterdir())


@pytest.fixture
def terminal(lab):
    terminal = Terminal(lab)
    yield terminal
    terminal.close()


def test_each_key_goes_to_the_guest_and_its_answer_is_shown(terminal):
    terminal.expect(b"$ ")
    for keys in (b"a", b"\r", b"\x03", b"\x1a", b"\xff"):
        terminal.type(keys)
        terminal.expect(repr(keys).encode())
    assert not terminal.is_usual()
    terminal.type(b"\x04")
    assert terminal.status() == 5
    assert terminal.is_usual()


def test_the_guest_knows_the_windows_size(terminal):
    terminal.expect(b"[30x90]")
    terminal.resize(40, 120)
    terminal.expect(b"[40x120]")
    terminal.type(b"\x04")
    assert terminal.status() == 5


def test_much_that_is_shown_is_whole(terminal):
    terminal.expect(b"$ ")
    terminal.type(b"f")
    terminal.expect(b"'f'" + b"x" * 5_000_000 + b"end")
    terminal.type(b"\x04")
    assert terminal.status() == 5


@pytest.mark.parametrize("deadly", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"])
def test_a_signal_ends_it_and_the_terminal_is_put_back(terminal, deadly):
    terminal.expect(b"$ ")
    terminal.type(b"a")
    terminal.expect(b"'a'")
    terminal.run.send_signal(signal.Signals[deadly])
    assert terminal.status() == -signal.Signals[deadly]
    assert terminal.is_usual()


def test_ctrl_c_ends_it_while_the_guest_boots(lab):
    terminal = Terminal(lab, "--append", "boot-slowly")
    terminal.expect(b"booting a guest; its shell ends with Ctrl-D")
    time.sleep(0.3)
    terminal.type(b"\x03")
    assert terminal.status() == -signal.SIGINT
    assert terminal.is_usual()
    terminal.close()


def test_a_stop_puts_the_terminal_back_until_it_goes_on(terminal):
    terminal.expect(b"$ ")
    terminal.type(b"a")
    terminal.expect(b"'a'")
    terminal.run.send_signal(signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(terminal.run.pid, os.WUNTRACED)[1])
    assert terminal.is_usual()
    terminal.run.send_signal(signal.SIGCONT)
    terminal.expect(b"[30x90]")
    assert not terminal.is_usual()
    terminal.type(b"\x04")
    assert terminal.status() == 5


def test_the_end_of_qemu_puts_the_terminal_back(terminal):
    terminal.expect(b"$ ")
    terminal.type(b"!")
    terminal.expect(b"tek: the shell ended with its guest: QEMU was killed by SIGKILL")
    assert terminal.status() == 125
    assert terminal.is_usual()


def test_without_a_terminal_the_input_is_typed_in(lab):
    run = subprocess.run([TEK, "lab", "shell", "--kernel", lab.kernel], env=lab.environment,
                         input="ab", capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (5, "$ b'ab'b'\\x04'")
