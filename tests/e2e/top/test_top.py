# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek top: the threads of the device, live, on a terminal that the test reads."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import BUILD, eventually, tids_by_name

ALTERNATE, USUAL = b"\x1b[?1049h", b"\x1b[?1049l"
DOWN, ESCAPE, ENTER, CONTROL_C, CONTROL_Z = "\x1b[B", "\x1b", "\r", "\x03", "\x1a"

# As a shell does: the command in a process group of its own, in the foreground of the terminal.
# It reports its state by lines; a line on standard input continues it.
SHELL = r"""
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
tell, hear, terminal = int(sys.argv[1]), int(sys.argv[2]), 0
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.close(tell)
    os.close(hear)
    os.execv(sys.argv[3], sys.argv[3:])
os.write(tell, b"pid %d\n" % child)
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.tcsetpgrp(terminal, os.getpid())
    os.write(tell, b"stopped %d\n" % os.WSTOPSIG(status))
    os.read(hear, 1)
    os.tcsetpgrp(terminal, child)
    os.killpg(child, signal.SIGCONT)
os.tcsetpgrp(terminal, os.getpid())
os.write(tell, b"ended %d\n" % os.waitstatus_to_exitcode(status))
os.read(hear, 1)
"""


class Screen:
    """A terminal with a command; `lines` is its screen."""

    def __init__(self, command, size=(80, 24), environment=None):
        self.controller, self.terminal = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.terminal)
        self.output, self.info = b"", b""
        (self.news, note), (take, self.go_on) = os.pipe(), os.pipe()
        self.shell = subprocess.Popen(
            ["python3", "-c", SHELL, str(note), str(take), *map(str, command)],
            stdin=self.terminal, stdout=self.terminal, stderr=self.terminal,
            pass_fds=(note, take), start_new_session=True, env=environment,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(note)
        os.close(take)
        self.pid = int(self.take("pid"))

    def resize(self, columns, lines):
        self.columns, self.height = columns, lines
        fcntl.ioctl(self.controller, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds=0.05):
        """Reads new output, and reports of the shell."""
        ready, _, _ = select.select([self.controller, self.news], [], [], seconds)
        if self.controller in ready:
            self.output += os.read(self.controller, 65536)
        if self.news in ready:
            self.info += os.read(self.news, 4096)

    def take(self, what, seconds=60):
        """The shell's report of that."""
        end = time.monotonic() + seconds
        while True:
            for line in self.info.splitlines(keepends=True):
                word, _, value = line.strip().partition(b" ")
                if word == what.encode() and line.endswith(b"\n"):
                    self.info = self.info.replace(line, b"", 1)
                    return value
            assert time.monotonic() < end, f"not {what}: {self.info} {self.output[-2000:]}"
            self.read()

    def type(self, keys):
        os.write(self.controller, keys.encode())

    @property
    def lines(self):
        """The lines of the screen, since the command last switched to the alternate screen."""
        start = self.output.rfind(ALTERNATE)
        cells = [[" "] * self.columns for _ in range(self.height)]
        if start < 0:
            return []
        row = column = 0
        text = self.output[start:].decode(errors="replace")
        pattern = r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b.|([^\x1b])"
        for parameters, command, character in re.findall(pattern, text, re.S):
            numbers = [int(number) for number in re.findall(r"\d+", parameters)]
            if command == "H":
                row, column = (numbers or [1, 1])[0] - 1, (numbers or [1, 1])[1] - 1
            elif command == "J":
                cells = [[" "] * self.columns for _ in range(self.height)]
            elif character and character >= " " and row < self.height and column < self.columns:
                cells[row][column] = character
                column += 1
        return ["".join(line).rstrip() for line in cells]

    def wait_for(self, wanted, seconds=60):
        """Waits until the lines are as required; returns the result of `wanted`."""
        end = time.monotonic() + seconds
        while not (found := wanted(self.lines)):
            assert time.monotonic() < end, "\n".join(self.lines)
            self.read()
        return found

    def row(self, name):
        """The line of a thread with that name."""
        return self.wait_for(lambda lines: next((x for x in lines[4:-1] if f" {name} " in x + " "),
                                                None))

    def rows(self):
        return [line for line in self.lines[4:-1] if line]

    def assert_given_back(self):
        assert termios.tcgetattr(self.terminal) == self.before
        assert self.output.rfind(USUAL) > self.output.rfind(ALTERNATE)
        assert self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")

    def end(self, keys="q"):
        if keys:
            self.type(keys)
        status = int(self.take("ended"))
        self.read()
        self.assert_given_back()
        return status

    def close(self):
        if self.shell.poll() is None:
            for pid in (self.pid, self.shell.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.shell.wait(timeout=60)
        for descriptor in (self.controller, self.terminal, self.news, self.go_on):
            os.close(descriptor)


@pytest.fixture
def screen(open_build):
    """Starts tek top on a terminal of its own."""
    started = []

    def start(*arguments, size=(100, 24), interval="0.2", **environment):
        command = [open_build / "bin" / "tek", "top", "--interval", interval, *arguments]
        held = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        nowhere = {"TEK_SOCKET": "/nowhere/tekd", "TERM": "xterm-256color"}
        started.append(Screen(command, size, {**held, **nowhere, **environment}))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def program(waiting):
    """A program with two threads that wait, and one that works for half a second."""
    names = ["topped-gas", "topped-door", "busy"]
    with subprocess.Popen([waiting, *names], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.tids = tids_by_name(process.pid, names)
        yield process
        process.kill()


def test_a_thread_of_a_program_is_shown_and_q_gives_the_terminal_back(screen, program):
    top = screen("--filter", "topped-")
    row = top.row("topped-gas").split()
    assert row[:2] == [str(program.tids["topped-gas"]), "topped-gas"]
    assert top.lines[0].startswith("load ") and "tek itself" in top.lines[2]
    assert termios.tcgetattr(top.terminal) != top.before
    assert top.end() == 0


def test_what_a_thread_does_is_of_the_time_since_the_last_sample(screen, waiting):
    with subprocess.Popen([waiting, "spin"], stdout=subprocess.PIPE) as process:
        try:
            spin = tids_by_name(process.pid, ["spin"])["spin"]
            top = screen("--filter", "spin")
            top.wait_for(lambda lines: lines[4:5] and lines[4].split()[:2] == [str(spin), "spin"]
                         and float(lines[4].split()[2]) > 1)
        finally:
            process.kill()
    # Gone, and nothing else has that name.
    message = 'No thread that is shown has "spin"'
    top.wait_for(lambda lines: lines[4:5] and lines[4].startswith(message))
    top.end()


def test_a_filter_is_typed_and_cleared(screen, program):
    top = screen()
    top.wait_for(lambda lines: lines and "every 0.2s" in lines[2])
    top.type("/TOPPED-D")
    top.wait_for(lambda lines: lines[-1] == "/TOPPED-D_" and " topped-door " in lines[4])
    assert len(top.rows()) == 1
    top.type(ENTER)
    top.wait_for(lambda lines: lines[-1].startswith("q end") and "with TOPPED-D" in lines[2])
    top.type(ESCAPE)
    top.wait_for(lambda _: len(top.rows()) > 1)
    top.end()


def test_columns_are_sorted_by_and_reversed(screen, program):
    top = screen("--filter", "topped-", "--sort", "name")
    names = lambda lines: [line.split()[1] for line in lines[4:6] if line]
    top.wait_for(lambda lines: names(lines) == ["topped-door", "topped-gas"])
    top.type("r")
    top.wait_for(lambda lines: names(lines) == ["topped-gas", "topped-door"]
                 and "by name down" in lines[2])
    top.type("s")
    top.wait_for(lambda lines: "by cpu% down" in lines[2])
    top.end()


def test_enter_explains_why_a_thread_runs_as_it_does(screen, program):
    top = screen("--filter", "topped-gas")
    top.row("topped-gas")
    top.type(DOWN + ENTER)
    tid = program.tids["topped-gas"]
    top.wait_for(lambda lines: f"Thread {tid}" in lines[3] and lines[4] == "Who it is")
    top.type(ESCAPE)
    # Escape and a byte at once behind it would be another key.
    top.wait_for(lambda lines: "TID NAME" in lines[3])
    top.type("?")
    top.wait_for(lambda lines: lines[3].startswith("Keys"))
    top.type("q")
    top.row("topped-gas")
    assert top.end() == 0


def test_the_kernels_threads_come_on_demand_and_a_tree_has_branches(screen, program):
    top = screen("--filter", "kthreadd")
    top.wait_for(lambda lines: lines and "0 shown" in lines[2])
    top.type("k")
    if "0 of the kernel" not in top.lines[0]:
        top.row("kthreadd")
    top.type("k")
    top.wait_for(lambda lines: "0 shown" in lines[2])
    top.end()
    top = screen("--filter", "topped-", "--tree")
    top.wait_for(lambda lines: lines and any("topped-gas" in line for line in lines[4:]))
    top.end()


def test_a_pause_stops_the_samples_but_not_the_keys(screen, program):
    top = screen("--filter", "topped-")
    top.row("topped-gas")
    top.type("p")
    top.wait_for(lambda lines: lines[2].startswith("PAUSED"))
    program.kill()
    time.sleep(0.5)
    top.type("r")
    top.wait_for(lambda lines: "by cpu% up" in lines[2])
    assert len(top.rows()) == 2
    top.type("p")
    top.wait_for(lambda lines: "0 shown" in lines[2])
    top.end()


def test_control_z_gives_the_terminal_back_until_it_goes_on(screen, program):
    top = screen("--filter", "topped-")
    top.row("topped-gas")
    top.type(CONTROL_Z)
    assert int(top.take("stopped")) == signal.SIGTSTP
    top.read()
    top.assert_given_back()
    os.write(top.go_on, b"\n")
    top.wait_for(lambda lines: lines and top.output.rfind(ALTERNATE) > top.output.rfind(USUAL))
    top.row("topped-gas")
    assert top.end() == 0


def test_stopped_from_outside_it_gives_the_terminal_back_too(screen, program):
    top = screen("--filter", "topped-")
    top.row("topped-gas")
    os.kill(top.pid, signal.SIGTSTP)
    assert int(top.take("stopped")) == signal.SIGTSTP
    top.read()
    top.assert_given_back()
    os.write(top.go_on, b"\n")
    top.wait_for(lambda lines: top.output.rfind(ALTERNATE) > top.output.rfind(USUAL))
    top.row("topped-gas")
    # Stopped so that it cannot notice, and the terminal's settings changed meanwhile.
    os.kill(top.pid, signal.SIGSTOP)
    top.take("stopped")
    termios.tcsetattr(top.terminal, termios.TCSANOW, top.before)
    os.write(top.go_on, b"\n")
    eventually(lambda: termios.tcgetattr(top.terminal) != top.before)
    assert top.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_ends_it_gives_the_terminal_back(screen, number):
    top = screen()
    top.wait_for(lambda lines: lines and lines[0].startswith("load"))
    os.kill(top.pid, number)
    assert top.end(keys="") == 0


def test_control_c_ends_it(screen):
    top = screen()
    top.wait_for(lambda lines: lines and lines[0].startswith("load"))
    assert top.end(CONTROL_C) == 0


def test_a_terminal_of_another_size_is_filled(screen, program):
    top = screen("--filter", "topped-", size=(80, 24))
    top.row("topped-gas")
    for columns, lines in ((40, 10), (120, 30), (3, 2), (80, 24)):
        top.resize(columns, lines)
        os.kill(top.pid, signal.SIGWINCH)
        before = len(top.output)
        top.wait_for(lambda _: len(top.output) > before)
    # The last keys line is at the bottom of the 24 lines.
    top.wait_for(lambda shown: shown[23].startswith("q end"))
    assert top.end() == 0


def test_a_name_cannot_control_the_terminal(screen):
    hostile = ("import ctypes, time; ctypes.CDLL(None).prctl(15, b'evil\\x1b[2J\\x07x', 0, 0, 0);"
               "print(1, flush=True); time.sleep(60)")
    with subprocess.Popen(["python3", "-c", hostile], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            top = screen("--filter", "evil")
            top.row(r"evil\u{1b}[2J\u…")
            top.end()
        finally:
            process.kill()
    assert b"\x1b[2Jx" not in top.output and b"\x07" not in top.output


def test_colours_are_left_out_where_they_are_not_wanted(screen):
    colours = re.compile(rb"\x1b\[[0-9;]*38;5;")
    for environment, expected in ({}, True), ({"NO_COLOR": "1"}, False):
        top = screen("--kernel", "--filter", "kthreadd", **environment)
        top.wait_for(lambda lines: lines and "every" in lines[2])
        if "0 of the kernel" in top.lines[0]:
            pytest.skip("this machine shows no threads of the kernel")
        top.row("kthreadd")
        top.end()
        assert bool(colours.search(top.output)) == expected


def test_once_prints_a_table_for_scripts(tek, program):
    ended = tek("top", "--once", "--interval", "0.1", "--filter", "topped-", "--sort", "name")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("load ") and lines[3].split()[:4] == ["TID", "NAME", "CPU%",
                                                                     "DELAY%"]
    assert [line.split()[1] for line in lines[4:]] == ["topped-door", "topped-gas"]


def test_once_as_json_is_read_by_programs(tek, waiting):
    with subprocess.Popen([waiting, "spin", "topped-gas"], stdout=subprocess.PIPE) as process:
        try:
            tids = tids_by_name(process.pid, ["spin", "topped-gas"])
            for _ in range(3):  # another thread may have the CPU meanwhile
                ended = tek("top", "--once", "--json", "--interval", "0.5", "--sort", "cpu%:desc")
                info = json.loads(ended.stdout)
                by_tid = {thread["tid"]: thread for thread in info["threads"]}
                spin, gas = by_tid[tids["spin"]], by_tid[tids["topped-gas"]]
                if spin["cpu_percent"] > 1:
                    break
        finally:
            process.kill()
    assert spin["cpu_percent"] > 1 and spin["name"] == "spin" and spin["policy"] == "other"
    assert (gas["cpu_percent"], gas["voluntary_per_s"], gas["involuntary_per_s"]) == (0, 0, 0)
    # The shares of user-level threads, which may run here too, are unknown.
    shares = [thread["cpu_percent"] for thread in info["threads"]
              if thread["cpu_percent"] is not None]
    assert shares == sorted(shares, reverse=True)
    assert info["cpus"] >= 1 and len(info["load"]) == 3
    assert info["threads_in_all"] >= len(info["threads"])


def test_without_a_terminal_it_is_as_with_once(tek, program):
    ended = tek("top", "--interval", "0.1", "--filter", "topped-gas")
    assert ended.returncode == 0 and "as with --once" in ended.stderr
    assert "topped-gas" in ended.stdout and "\x1b" not in ended.stdout


@pytest.fixture
def daemon(tmp_path, real_time):
    """tekd, which may touch only processes that this test starts: its socket and its process."""
    (tmp_path / "tekd.toml").write_text('[[grant]]\nusers = ["root"]\n')
    socket = tmp_path / "run" / "tekd"
    command = [BUILD / "bin" / "tekd", "--socket", socket, "--state", tmp_path / "state",
               "--config", tmp_path / "tekd.toml", "--domain", f"pid:{os.getpid()}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as daemon:
        eventually(socket.exists)
        yield socket, daemon
        daemon.terminate()


@pytest.fixture
def tekd(daemon):
    """The socket of tekd."""
    return daemon[0]


def test_what_the_daemon_made_fast_is_shown_as_fast(screen, tek, tekd, program):
    environment = {**os.environ, "TEK_SOCKET": str(tekd)}
    tid = program.tids["topped-gas"]
    asked = tek("critical", "--thread", tid, "--for", "30s", env=environment)
    assert asked.returncode == 0, asked.stderr
    ended = tek("top", "--once", "--json", "--interval", "0.1", env=environment)
    info = json.loads(ended.stdout)
    assert info["tekd"] == {"mode": "responsiveness", "fast": 1, "lowered": 0} and info["fast"] == 1
    regions = {thread["tid"]: thread["region"] for thread in info["threads"]}
    assert (regions[tid], regions[program.tids["topped-door"]]) == ("fast", None)
    top = screen(TEK_SOCKET=str(tekd))
    top.wait_for(lambda lines: lines and lines[1].startswith("tekd: responsiveness, 1 Fast by it"))
    top.type("f")
    top.wait_for(lambda lines: "only Fast" in lines[2] and len(top.rows()) == 1)
    assert " fast " in top.row("topped-gas")
    top.end()


def test_once_waits_for_a_daemon_that_is_slow(daemon):
    daemon[1].send_signal(signal.SIGSTOP)
    command = [BUILD / "bin" / "tek", "top", "--once", "--json", "--interval", "0.1"]
    with subprocess.Popen(command, env={**os.environ, "TEK_SOCKET": str(daemon[0])},
                          stdout=subprocess.PIPE) as running:
        time.sleep(0.7)
        daemon[1].send_signal(signal.SIGCONT)
        assert json.load(running.stdout)["tekd"]["mode"] == "normal"


@pytest.mark.parametrize("arguments, wanted", [
    (["--interval", "0.01"], "from 0.1s to 60s"),
    (["--interval", "61"], "from 0.1s to 60s"),
    (["--sort", "colour"], "tek ps --columns help"),
    (["--json"], "--once"),
])
def test_what_makes_no_sense_is_refused_with_what_is_wanted(tek, arguments, wanted):
    ended = tek("top", *arguments)
    assert ended.returncode == 2 and wanted in ended.stderr


@pytest.mark.alone("real-time load")
def test_a_thread_that_gets_no_cpu_is_seen_to_wait_all_the_time_and_never_longer(
        tek, waiting, real_time):
    """A real-time thread takes its CPU for a second. The kernel counts a wait at its end."""
    cpu = max(os.sched_getaffinity(0))
    with subprocess.Popen(["taskset", "-c", str(cpu), waiting, "spin"],
                          stdout=subprocess.PIPE) as process:
        try:
            spin = tids_by_name(process.pid, ["spin"])["spin"]
            # timeout, which is no real-time thread, ends the load; else the kernel's limit does.
            hog = ["timeout", "1.2", "taskset", "-c", str(cpu), "chrt", "--fifo", "10",
                   "sh", "-c", "ulimit -t 3; while :; do :; done"]
            with subprocess.Popen(hog):
                ended = tek("ps", "--tid", spin, "--sample", "0.1s", "--count", "20", "--json",
                            "--columns", "delay%,cpu%")
        finally:
            process.kill()
    info = [json.loads(line) for line in ended.stdout.splitlines()]
    delays = [record["delay_percent"] for record in info]
    assert len(delays) == 20 and all(0 <= delay <= 100 for delay in delays), delays
    assert all(record["cpu_percent"] <= 100 for record in info), info
    # Throttling lets the thread run for a moment of each second.
    assert sum(delay == 100 for delay in delays) >= 4, delays


def test_a_filter_that_nothing_fits_is_named_with_the_key_that_clears_it(screen, program):
    top = screen("--filter", "no-such-thread")
    message = 'No thread that is shown has "no-such-thread"'
    top.wait_for(lambda lines: lines and lines[4].startswith(message))
    assert "Esc clears the filter" in " ".join(top.lines[4:7])
    top.type(ESCAPE)
    top.wait_for(lambda _: len(top.rows()) > 1 and not top.lines[4].startswith("No thread"))
    top.type("f")
    top.wait_for(lambda lines: "only Fast" in lines[2] and
                 (len(top.rows()) != 1 or "f shows" in lines[4]))
    top.end()
    command = [BUILD / "bin" / "tek", "top", "--once", "--interval", "0.1", "--filter", "no-such"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "no thread fits" in ended.stderr
