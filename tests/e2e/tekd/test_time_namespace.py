# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs, tek and tekd in different time namespaces identify each other's processes and times."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, child_of, eventually, read
from tekd_client import CRITICAL, STATUS, is_fast
from tekd_daemon import USUAL, Other, daemon, pytestmark, tekd, thread, wait_for

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names

TEK, LIBRARY = BUILD / "bin" / "tek", BUILD / "lib" / "libtek.so"
# Offsets that are no multiple of a clock tick. The new namespace is that of children.
IN_NAMESPACE = [sys.executable, "-c", """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x80):
    sys.exit(3)
with open("/proc/self/timens_offsets", "w") as offsets:
    offsets.write("monotonic 100000 3000000\\nboottime 200000 7000000\\n")
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    os.execvp(sys.argv[1], sys.argv[1:])
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""]


@pytest.fixture(autouse=True)
def namespaces():
    if subprocess.run([*IN_NAMESPACE, "true"], stdout=subprocess.DEVNULL,
                      check=False).returncode == 3:
        pytest.skip("needs a kernel with time namespaces")


@pytest.fixture
def start(waiting, tmp_path):
    """Starts a program, in a time namespace or not, with its table in tmp_path; its pid."""
    started = []
    environment = {**os.environ, "TEK_RUN_DIR": str(tmp_path)}

    def run(inside):
        program = ["env", f"LD_PRELOAD={LIBRARY}", "TEK_RULES=thread=worker,role=serves clients",
                   waiting, "worker"]
        process = subprocess.Popen([*(IN_NAMESPACE if inside else []), *program], env=environment,
                                   stdout=subprocess.PIPE, text=True)
        lines = {process.stdout.readline().strip() for _ in range(2 if inside else 1)}
        pid = int((lines - {"ready"}).pop()) if inside else process.pid
        started.append((process, pid))
        return pid

    yield run
    for process, pid in started:
        os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def seen(tmp_path):
    """The threads of a process by tek ps, which runs in a time namespace or not."""

    def scan(pid, inside):
        command = [*(IN_NAMESPACE if inside else []), TEK, "ps", "--pid", str(pid), "--json"]
        ended = subprocess.run(command, env={**os.environ, "TEK_RUN_DIR": str(tmp_path)},
                               timeout=60,
                               stdout=subprocess.PIPE, check=True)
        threads = json.loads(ended.stdout[ended.stdout.index(b"{"):])["threads"]
        return {row["name"]: row for row in threads}

    return scan


SIDES = pytest.mark.parametrize("program,reader", [(True, False), (False, True), (True, True)])


@SIDES
def test_tek_ps_shows_what_a_program_reports_of_its_threads(start, seen, program, reader):
    before = time.monotonic_ns()
    worker = seen(start(program), reader)["worker"]
    assert worker["role"] == "serves clients"
    assert worker["age_ns"] <= time.monotonic_ns() - before + 1_000_000_000


@SIDES
def test_the_table_of_a_living_process_stays_when_another_one_is_made(start, tmp_path, program,
                                                                      reader):
    first = start(program)
    second = start(reader)
    assert {f"{first}.table", f"{second}.table"} <= set(os.listdir(tmp_path))


@pytest.fixture
def tekd_inside(daemon):
    """tekd in a time namespace."""
    daemon.start(USUAL, prefix=[*IN_NAMESPACE[:2],
                                IN_NAMESPACE[2].replace("print(child, flush=True)", "")])
    child = child_of(daemon.process.pid)
    yield daemon
    if daemon.process.poll() is None:
        os.kill(child, signal.SIGTERM)
        daemon.process.wait(60)


def test_tekd_in_a_namespace_notices_that_a_program_is_executed(tekd_inside):
    with Other(tekd_inside) as other:
        client = tekd_inside.client()
        if not client.json(STATUS)["hears_of_exec"]:
            pytest.skip("needs the kernel's news of processes")
        assert client.ask(CRITICAL, other.tid).error == 0
        other.note("exec close")
        eventually(lambda: read(f"/proc/{other.process.pid}/comm") == "sleep\n")
        wait_for(other.process.pid, False)


def test_what_tekd_in_a_namespace_changed_is_undone_from_outside(tekd_inside, thread):
    client = tekd_inside.client()
    assert client.ask(CRITICAL, thread).error == 0
    os.kill(client.json(STATUS)["pid"], signal.SIGKILL)
    tekd_inside.process.wait(60)
    assert is_fast(thread)
    subprocess.run(tekd_inside.command("--restore"), timeout=60, check=True)
    assert not is_fast(thread)


@pytest.mark.parametrize("daemon_fixture,inside", [("tekd", True), ("tekd_inside", False)])
def test_a_request_for_a_time_from_another_namespace_lasts_so_long(request, thread, daemon_fixture,
                                                                   inside):
    socket = request.getfixturevalue(daemon_fixture).socket
    command = [TEK, "critical", "--thread", str(thread), "--for", "5s"]
    before = time.monotonic()
    subprocess.run([*(IN_NAMESPACE if inside else []), *command], timeout=60, check=True,
                   env={**os.environ, "TEK_SOCKET": str(socket)})
    assert is_fast(thread)
    wait_for(thread, False)
    assert 5 <= time.monotonic() - before < 60


TIMED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	int (*critical_for)(uint64_t ns);

	alarm(60);
	*(void **)&critical_for = dlsym(RTLD_DEFAULT, "tek_critical_for");
	printf("%d\n", critical_for(UINT64_C(50000000000)));
	fflush(stdout);
	pause();
}
"""


def test_the_time_for_which_a_program_in_a_namespace_is_critical_is_the_same_for_tekd(
        daemon, compile_c, open_build, open_directory, as_nobody):
    program = compile_c(TIMED, "cc", "-ldl")
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start("[[grant]]\nusers = [65534]\n" + USUAL)
    command = [*IN_NAMESPACE, *as_nobody, "env", f"LD_PRELOAD={open_build}/lib/libtek.so",
               f"TEK_SOCKET={daemon.socket}", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = {process.stdout.readline().strip() for _ in range(2)}
    try:
        assert "0" in lines, lines
        thread, = daemon.client().json(STATUS)["fast"]
        assert 0 < thread["until_ms"] <= 50_000
    finally:
        os.kill(int((lines - {"0"}).pop()), signal.SIGKILL)
        process.communicate()
