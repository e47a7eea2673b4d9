# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs without privilege have critical threads by tekd, and go on whatever happens to tekd."""
import errno
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BUILD, PATIENCE, child_of, eventually, listens_at, tids_by_name
from paths import PROGRAMS

TEKD = BUILD / "bin" / "tekd"
NOBODY = 65534
GRANTS = f"""
[[grant]]
users = [{NOBODY}]
threads = 2

[[grant]]
users = [0]
"""

pytestmark = [
    pytest.mark.skipif(not TEKD.exists(), reason="tekd is not built"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start tekd"),
    pytest.mark.usefixtures("real_time"),
]

# For each line that it reads, `enter` or `leave`: prints the error, and the policy in the kernel.
OBEDIENT = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	char line[64];

	alarm(60);
	while (fgets(line, sizeof(line), stdin)) {
		struct sched_param param = {0};
		int error = 0;
		if (strcmp(line, "enter\n") == 0)
			error = pthread_setschedparam(pthread_self(), 84, &param);
		else if (strcmp(line, "leave\n") == 0)
			error = pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
		printf("%d %d\n", error, (int)syscall(SYS_sched_getscheduler, 0));
		fflush(stdout);
	}
	return 7;
}
"""

FAST = os.SCHED_RR | os.SCHED_RESET_ON_FORK


class Daemon:
    """A tekd that touches only processes that this test starts."""

    def __init__(self, directory):
        self.directory = directory
        self.socket = directory / "tekd"
        self.process = None

    def start(self, configuration=GRANTS):
        (self.directory / "tekd.toml").write_text(configuration)
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [TEKD, "--foreground", "--socket", self.socket, "--state", self.directory / "state",
             "--config", self.directory / "tekd.toml", "--domain", f"pid:{os.getpid()}"],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: listens_at(self.socket))

    def end(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=60)


@pytest.fixture
def tekd(tmp_path_factory, open_directory, monkeypatch):
    directory = open_directory / tmp_path_factory.mktemp("tekd").name
    directory.mkdir(mode=0o755)
    daemon = Daemon(directory)
    monkeypatch.setenv("TEK_SOCKET", str(daemon.socket))
    yield daemon
    daemon.end()


class Program:
    """An obedient program under `tek run`."""

    def __init__(self, command):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def do(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        error, policy = self.process.stdout.readline().split()
        return int(error), int(policy)

    def end(self):
        _, messages = self.process.communicate(timeout=60)
        assert self.process.returncode == 7
        return messages


@pytest.fixture
def obedient(compile_c, open_build, as_nobody):
    """Starts one as the user nobody."""
    program = compile_c(OBEDIENT, "cc", "-pthread")
    started = []

    def start():
        started.append(Program([*as_nobody, open_build / "bin" / "tek", "run", program]))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_a_thread_of_a_program_without_privilege_becomes_critical_and_is_given_back(tekd, obedient):
    tekd.start()
    program = obedient()
    assert program.do("look") == (0, os.SCHED_OTHER)
    for _ in range(3):
        assert program.do("enter") == (0, FAST)
        assert program.do("look") == (0, FAST)
        assert program.do("leave") == (0, os.SCHED_OTHER)
    assert program.end() == ""


@pytest.mark.parametrize("kind", ["mutex", "reader", "condition", "join"])
def test_tekd_lifts_what_a_critical_thread_waits_for(tekd, compile_c, open_build, as_nobody, kind):
    program = compile_c((PROGRAMS / "holders.cpp").read_text(), "g++", "-x", "c++", "-std=c++17",
                        "-pthread")
    tekd.start()
    ended = subprocess.run([*as_nobody, open_build / "bin" / "tek", "run",
                            "--critical=touch", program, kind, str(20 * PATIENCE)],
                           capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert ended.stdout.startswith("lifted then ") and ended.stderr == "", ended.stderr


def test_a_process_that_has_no_grant_gets_a_message_and_runs_on(tekd, obedient):
    tekd.start("[[grant]]\nusers = [0]\n")
    program = obedient()
    assert program.do("enter") == (errno.EPERM, os.SCHED_OTHER)
    assert program.do("enter") == (errno.EPERM, os.SCHED_OTHER)
    messages = program.end()
    assert messages.count("cannot become time-critical") == 1
    assert f"user {NOBODY}" in messages and "tekd.toml" in messages, messages


def test_without_tekd_the_ways_are_reported_and_tekd_is_one_of_them(tekd, obedient):
    assert not tekd.socket.exists()
    program = obedient()
    assert program.do("enter") == (errno.EPERM, os.SCHED_OTHER)
    messages = program.end()
    assert "LimitRTPRIO=60" in messages and "start tekd" in messages


def test_a_program_runs_on_when_tekd_is_killed_and_is_served_by_the_next(tekd, obedient):
    tekd.start()
    program = obedient()
    assert program.do("enter") == (0, FAST)
    tekd.end(signal.SIGKILL)
    assert program.do("enter")[0] == errno.EPERM
    tekd.socket.unlink(missing_ok=True)
    tekd.start()
    assert program.do("look") == (0, os.SCHED_OTHER)  # the next has restored it
    assert program.do("enter") == (0, FAST)
    tekd.end()
    assert program.do("look") == (0, os.SCHED_OTHER)
    assert program.do("enter")[0] == errno.EPERM
    program.end()


def test_threads_that_a_rule_names_are_critical_by_tekd_within_its_quota(
        tekd, open_build, waiting, as_nobody):
    tekd.start()
    command = [*as_nobody, open_build / "bin" / "tek", "run", "--critical=ui*", waiting,
               "ui1", "gas",
               "ui2", "ui3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as run:
        try:
            run.stdout.readline()
            tids = tids_by_name(child_of(run.pid), ["ui1", "ui2", "ui3", "gas"])

            def fast():
                return {name for name, tid in tids.items() if os.sched_getscheduler(tid) == FAST}

            eventually(lambda: len(fast()) == 2)
            time.sleep(0.2)
            assert len(fast()) == 2 and fast() < {"ui1", "ui2", "ui3"}
        finally:
            run.terminate()
            _, messages = run.communicate(timeout=60)
    assert "tekd does not make it so" in messages


@pytest.fixture
def fridge(waiting):
    """The waiting program under a name that no other process has."""
    return shutil.copy(waiting, waiting.with_name(f"fridge{os.getpid()}"))


def test_a_process_is_made_critical_by_hand_for_a_time_and_taken_back(tekd, tek, fridge):
    tekd.start()
    with subprocess.Popen([fridge, "one", "two"], stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            tids = tids_by_name(process.pid, ["one", "two"])

            def policies():
                return {os.sched_getscheduler(tid) for tid in [process.pid, *tids.values()]}

            ended = tek("critical", process.pid, "--priority", "-3")
            assert (ended.returncode, ended.stderr) == (0, "")
            assert "real-time priority 32" in ended.stdout
            assert policies() == {FAST}
            assert tek("critical", process.pid, "--end").returncode == 0
            assert policies() == {os.SCHED_OTHER}

            assert tek("critical", fridge.name, "--for", "2s").returncode == 0
            assert policies() == {FAST}
            eventually(lambda: policies() == {os.SCHED_OTHER})

            assert tek("critical", "--thread", tids["two"]).returncode == 0
            assert os.sched_getscheduler(tids["two"]) == FAST
            assert os.sched_getscheduler(tids["one"]) == os.SCHED_OTHER

            with subprocess.Popen([fridge, "three"], stdout=subprocess.PIPE, text=True) as other:
                other.stdout.readline()
                ended = tek("critical", fridge.name)
                other.kill()
            assert ended.returncode == 1
            assert f"[{process.pid}]" in ended.stderr and f"[{other.pid}]" in ended.stderr
        finally:
            process.kill()


def test_status_shows_critical_threads_with_their_clients_and_refusals(tekd, tek, obedient):
    tekd.start()
    program = obedient()
    assert program.do("enter") == (0, FAST)
    pid = child_of(program.process.pid)
    assert tek("critical", "1").returncode == 1
    info = tek("status")
    assert (info.returncode, info.stderr) == (0, "")
    line, = [line for line in info.stdout.splitlines() if line.split()[:2] == [str(pid), str(pid)]]
    assert "itself" in line.split() and "29" in line.split()
    assert f"pid:{os.getpid()}" in info.stdout and "responsiveness" in info.stdout
    seen = json.loads(tek("status", "--json").stdout)
    fast, = seen["fast"]
    assert (fast["tid"], fast["uid"], fast["role"]) == (pid, NOBODY, None)
    assert seen["refused"]
    program.do("leave")
    assert json.loads(tek("status", "--json").stdout)["mode"] == "normal"
    program.end()


def test_no_foreign_or_missing_thread_can_be_made_critical(tekd, tek, waiting, as_nobody):
    tekd.start()
    with subprocess.Popen([waiting, "one"], stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            refused = tek("critical", process.pid, prefix=as_nobody)
            assert refused.returncode == 1 and refused.stderr.startswith("tek: tekd does not do "
                                                                         "it: ")
            assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
        finally:
            process.kill()
    missing = tek("critical", "no-such-program")
    assert missing.returncode == 1 and "no process no-such-program" in missing.stderr
    outside = tek("critical", "1")
    assert outside.returncode == 1 and outside.stderr.startswith("tek: tekd does not do it: ")


def test_without_tekd_status_and_critical_report_how_to_start_it(tekd, tek):
    for command in (["status"], ["critical", os.getpid()]):
        ended = tek(*command)
        assert (ended.returncode, ended.stdout) == (1, "")
        command = f"{BUILD}/bin/tekd --socket {tekd.socket}"
        assert f"to start it, in another terminal: {command}\n" in ended.stderr
