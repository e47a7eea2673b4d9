# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program under `tek run` is the process that service managers and supervisors deal with."""
import array
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import PATIENCE

# Becomes its arguments, with variables of systemd's that name the process.
LAUNCH = """
import os, sys
own = str(os.getpid())
os.environ.update(LISTEN_PID=own, LISTEN_FDS="1", LISTEN_PIDFDID="1", WATCHDOG_PID=own,
                  GUARD_PID="1", OWN=own)
os.execvp(sys.argv[1], sys.argv[1:])
"""

SERVICE = """
import os
own = str(os.getpid())
names = lambda name: "own" if os.environ[name] == own else os.environ[name]
print(names("LISTEN_PID"), names("WATCHDOG_PID"), os.environ["GUARD_PID"],
      "started as" if os.environ["OWN"] == own else "beside", os.environ.get("LISTEN_PIDFDID"))
"""

MODELS = [[], ["--model", "m:1"], ["--model", "m:n", "--workers", "2"]]


@pytest.fixture(scope="session")
def run(open_build):
    """The command that runs a program under TEK."""
    return [str(open_build / "bin" / "tek"), "run"]


def python(text):
    return [sys.executable, "-c", text]


@pytest.mark.parametrize("options", MODELS, ids=" ".join)
def test_variables_that_name_the_process_name_the_program(run, options):
    launched = subprocess.run([*python(LAUNCH), *run, *options, "--", *python(SERVICE)],
                              capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert (launched.stdout, launched.returncode) == ("own own 1 beside None\n", 0), launched.stderr


def test_a_program_that_tek_does_nothing_for_takes_its_place(run, compile_c):
    program = compile_c(r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            char own[20];
            snprintf(own, sizeof(own), "%d", (int)getpid());
            puts(strcmp(own, getenv("OWN")) == 0 ? "started as" : "beside");
            return argc + (argv[1] != NULL);
        }""", "musl-gcc")

    def ran(*options):
        launched = subprocess.run([*python(LAUNCH), *run, *options, "--", program],
                                  capture_output=True,
                                  text=True, timeout=60 * PATIENCE, check=False)
        assert launched.returncode == 1 and "it runs, but not" in launched.stderr
        return launched.stdout

    assert ran() == ran("--critical", "x") == ran("--model", "m:1") == "started as\n"
    assert ran("--report") == "beside\n"


@pytest.mark.parametrize("options", MODELS, ids=" ".join)
def test_the_program_dies_with_a_tek_that_is_killed(run, options):
    with subprocess.Popen([*run, *options, "--",
                           *python("print(0, flush=True); import time; time.sleep(600)")],
                          stdout=subprocess.PIPE) as tek:
        assert tek.stdout.readline() == b"0\n"
        tek.kill()
        assert tek.wait() == -signal.SIGKILL
        # The pipe ends when the program does.
        assert tek.stdout.read() == b""


class Manager:
    """Listens as systemd does, with NotifyAccess=main."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.settimeout(60 * PATIENCE)

    def receives(self):
        """A message, the pid of its sender, and the descriptors that came with it."""
        text, control, _, _ = self.socket.recvmsg(4096, 1024)
        sent = {kind: data for _, kind, data in control}
        pid = array.array("i", sent[socket.SCM_CREDENTIALS])[0]
        return text.decode(), pid, array.array("i", sent.get(socket.SCM_RIGHTS, b""))


NOTIFIES = """
import os, socket, sys
address = os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1)
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.connect(address)
manager.send(b"READY=1\\nSTATUS=" + str(os.getpid()).encode())
read, write = os.pipe()
socket.send_fds(manager, [b"BARRIER=1"], [write])
os.close(write)
print(repr(os.read(read, 1)), flush=True)
if os.geteuid() == 0:
    os.setuid(65534)
again = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
again.sendto(b"STOPPING=1", address)
"""


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
@pytest.mark.parametrize("options", MODELS, ids=" ".join)
def test_what_the_program_reports_to_its_manager_comes_from_tek(run, tmp_path, options, abstract):
    address = f"@tek-test-{os.getpid()}-{time.monotonic_ns()}" if abstract else str(
        tmp_path / "notify")
    manager = Manager(address.replace("@", "\0", 1))
    if not abstract:
        os.chmod(address, 0o777)
    with subprocess.Popen([*run, *options, "--", *python(NOTIFIES)], stdout=subprocess.PIPE,
                          env={**os.environ, "NOTIFY_SOCKET": address}) as tek:
        text, sender, _ = manager.receives()
        assert text.startswith("READY=1\nSTATUS=") and sender == tek.pid
        assert text != f"READY=1\nSTATUS={tek.pid}", "the program has a pid of its own"
        text, sender, received = manager.receives()
        assert (text, sender, len(received)) == ("BARRIER=1", tek.pid, 1)
        # sd_notify_barrier(3) waits until the manager has closed this, and only the manager has it.
        os.close(received[0])
        assert tek.stdout.readline() == b"b''\n"
        assert manager.receives()[:2] == ("STOPPING=1", tek.pid)
        assert tek.wait(60 * PATIENCE) == 0


def test_what_another_process_writes_to_the_socket_is_not_the_programs_word(run, tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    program = "import os; print(os.environ['NOTIFY_SOCKET'], flush=True); input(); " + NOTIFIES
    with subprocess.Popen([*run, "--", *python(program)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}) as tek:
        address = tek.stdout.readline().strip()
        assert address != str(tmp_path / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.sendto(b"MAINPID=1\nSTOPPING=1", address)
        print(file=tek.stdin, flush=True)
        assert manager.receives()[0].startswith("READY=1\n")
        os.close(manager.receives()[2][0])
        tek.wait(60 * PATIENCE)


def test_without_a_manager_that_listens_the_program_runs_as_without_tek(run):
    program = python("import os; print(os.environ['NOTIFY_SOCKET'])")
    for address in ("vsock:2:9", "", "/nowhere/at/all", "/" + 200 * "x"):
        ended = subprocess.run([*run, "--", *program], capture_output=True, text=True, check=False,
                               timeout=60 * PATIENCE, env={**os.environ, "NOTIFY_SOCKET": address})
        assert ended.returncode == 0 and ended.stderr == ""
        assert address.startswith("/nowhere") or ended.stdout == address + "\n"
