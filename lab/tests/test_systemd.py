# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd.service under systemd, which is process 1 of namespaces of its own in the guest."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import BUILD, eventually

SYSTEMD = pathlib.Path("/lib/systemd/systemd")
TOP = pathlib.Path(__file__).resolve().parents[2]
GROUPS = pathlib.Path("/sys/fs/cgroup")
APP = "/system.slice/app.service"
OWN = "/system.slice/tekd.service"
# The dependencies of systemd's own units are not tested here.
TARGETS = ("sysinit", "basic", "multi-user", "shutdown", "local-fs", "default")
# Longer than a guest stands still while its host builds something.
WATCHDOG_SECONDS = 6
GRANTS = '[[grant]]\nusers = ["root"]\n'
# A program with several threads and processes, which come and go.
APP_PROGRAM = """
import os, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
if not os.fork():
    time.sleep(600)
while True:
    if not os.fork():
        time.sleep(0.05)
        os._exit(0)
    os.waitpid(-1, os.WNOHANG)
    time.sleep(0.02)
"""
BOOT = """
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$1/etc" /etc
mkdir -p /run/systemd/system
exec /lib/systemd/systemd --system --log-target=console --log-level=info --show-status=no
"""

pytestmark = pytest.mark.skipif(not SYSTEMD.exists() or not (GROUPS / "cgroup.procs").exists(),
                                reason="needs systemd and cgroups of version 2")


def children(pid):
    return [int(child)
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Machine:
    """The units and processes of systemd."""

    def __init__(self, directory):
        self.etc = directory / "etc"
        self.log, self.seen = directory / "log", directory / "tekd"
        subprocess.run(["cp", "-a", "/etc", self.etc], check=True)
        self.units = self.etc / "systemd" / "system"
        self.units.mkdir(parents=True)
        (self.etc / "tek").mkdir()
        (self.etc / "machine-id").write_text("")
        for target in TARGETS:
            (self.units / f"{target}.target").write_text(f"[Unit]\nDescription={target}\n")
        unit = (TOP / "data" / "tekd.service").read_text()
        (self.units / "tekd.service").write_text(unit.replace("/usr/local/bin", str(BUILD / "bin")))
        (directory / "app.py").write_text(APP_PROGRAM)
        (self.units / "app.service").write_text(
            f"[Service]\nExecStart=/usr/bin/python3 {directory}/app.py\nDelegate=cpu\n")
        self.seen.touch()
        with self.log.open("w") as log:
            self.unshare = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--mount", "--kill-child", "sh", "-c", BOOT, "sh",
                 str(directory)],
                env={**os.environ, "container": "tek"}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        eventually(lambda: self.systemctl("is-system-running", check=False).stdout == "running\n",
                   60)

    def inside(self, *command):
        """A command with the view of a process that systemd starts."""
        first = children(self.unshare.pid) or [0]
        return ["nsenter", "-t", str(first[0]), "-m", "-p", *map(str, command)]

    def run(self, *command, check=True):
        ended = subprocess.run(self.inside(*command), check=False, timeout=60, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert ended.returncode == 0 or not check, \
            f"{command}: {ended.stderr}\n{self.log.read_text()[-3000:]}\n{self.seen.read_text()[-2000:]}"
        return ended

    @contextlib.contextmanager
    def stranger(self):
        """A process that no unit has started."""
        with subprocess.Popen(self.inside("sleep", 600)) as nsenter:
            eventually(lambda: children(nsenter.pid))
            pid, = children(nsenter.pid)
            try:
                yield pid
            finally:
                os.kill(pid, signal.SIGKILL)

    def systemctl(self, *arguments, **options):
        return self.run("systemctl", *arguments, **options)

    def shows(self, what, unit="tekd"):
        return self.systemctl("show", "-P", what, unit).stdout.strip()

    def configure(self, text, unit=""):
        """tekd.toml, and the additions to the unit."""
        (self.etc / "tek" / "tekd.toml").write_text(text + GRANTS)
        more = self.units / "tekd.service.d"
        more.mkdir(exist_ok=True)
        (more / "more.conf").write_text(
            f"[Service]\nRestartSec=0\nStandardError=append:{self.seen}\n{unit}\n")
        self.systemctl("daemon-reload")

    def status(self):
        return json.loads(self.run(BUILD / "bin" / "tek", "status", "--json").stdout)

    def critical(self, group):
        """The first process of a group is critical, with all its threads."""
        pid = self.pids(group)[0]
        inner = pathlib.Path(f"/proc/{pid}/status").read_text().split(
            "NSpid:")[1].splitlines()[0].split()[-1]
        self.run(BUILD / "bin" / "tek", "critical", inner, "--for", "60s")

    def main(self):
        """tekd, by its path outside of the namespaces."""
        return next(pid for pid in self.pids(OWN)
                    if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tekd\n")

    def pids(self, group):
        """Processes of a group and of the groups below it."""
        found = []
        for file in (GROUPS / group.lstrip("/")).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):  # of threads only
                found += [int(pid) for pid in file.read_text().split()]
        return sorted(set(found))

    def app(self):
        """The first process of app.service, which has begun its work."""
        def has_begun():
            pids = self.pids(APP)
            return len(pids) > 1 and len(os.listdir(f"/proc/{pids[0]}/task")) == 2 and pids[0]
        return eventually(has_begun)

    def end(self):
        self.unshare.kill()
        self.unshare.wait(20)


@pytest.fixture(scope="module")
def booted(tmp_path_factory):
    machine = Machine(tmp_path_factory.mktemp("systemd"))
    yield machine
    machine.end()


@pytest.fixture
def machine(booted):
    booted.configure("")
    yield booted
    booted.systemctl("stop", "tekd", "app", check=False)
    booted.systemctl("reset-failed", check=False)


def policies(pid):
    return {os.sched_getscheduler(int(tid)) & 0xff for tid in os.listdir(f"/proc/{pid}/task")}


def groups_of(pid):
    found = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found.add((task / "cgroup").read_text().strip().removeprefix("0::"))
    return found


def own_groups(unit):
    directory = GROUPS / unit.lstrip("/")
    return sorted(entry.name for entry in directory.glob("tek*")) if directory.exists() else []


def test_the_unit_starts_serves_and_stops_as_confined_as_it_declares(machine):
    machine.systemctl("start", "tekd")
    assert (machine.shows("ActiveState"), machine.shows("SubState")) == ("active", "running")
    text = pathlib.Path(f"/proc/{machine.main()}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2"
    # DAC_READ_SEARCH, NET_ADMIN, IPC_LOCK, SYS_PTRACE, SYS_NICE, SYS_RESOURCE, SYSLOG, PERFMON, BPF
    assert int(fields["CapBnd"], 16) == sum(1 << bit for bit in (2, 12, 14, 19, 23, 24, 34, 38, 39))
    written = subprocess.run(["nsenter", "-t", str(machine.main()), "-m", "touch",
                              "/etc/tek/tekd.toml"],
                             check=False, text=True, stderr=subprocess.PIPE)
    assert "Read-only" in written.stderr
    machine.systemctl("start", "app")
    app = machine.app()
    machine.critical(APP)
    assert policies(app) == {os.SCHED_RR}
    machine.systemctl("stop", "tekd")
    assert machine.shows("Result") == "success"
    assert policies(app) == {os.SCHED_OTHER}
    assert "tekd.service:" not in machine.log.read_text().replace("tekd.service: Deactivated",
                                                                  "").replace(
        "tekd.service: Consumed", "")


def test_a_reload_is_reported_and_changes_what_tekd_grants(machine):
    machine.systemctl("start", "tekd")
    pid = machine.main()
    machine.systemctl("start", "app")
    (machine.etc / "tek" / "tekd.toml").write_text('[[grant]]\nusers = ["nobody"]\n')
    machine.systemctl("reload", "tekd")
    assert (machine.main(), machine.shows("ActiveState")) == (pid, "active")


def test_the_watchdog_sleeps_with_tekd_and_bites_when_tekd_hangs(machine):
    machine.configure("", f"WatchdogSec={WATCHDOG_SECONDS}")
    machine.systemctl("start", "tekd", "app")
    time.sleep(WATCHDOG_SECONDS + 2)
    app = machine.app()
    machine.critical(APP)
    time.sleep(WATCHDOG_SECONDS + 2)
    assert (machine.shows("NRestarts"), machine.shows("ActiveState")) == ("0", "active")
    assert policies(app) == {os.SCHED_RR}
    hung = machine.main()
    os.kill(hung, signal.SIGSTOP)
    eventually(lambda: machine.shows("NRestarts") == "1"
               and machine.shows("ActiveState") == "active", 30)
    assert policies(app) == {os.SCHED_OTHER}


def test_what_a_killed_tekd_left_is_undone_although_it_does_not_start_again(machine):
    machine.configure("", "Restart=no")
    machine.systemctl("start", "tekd", "app")
    app = machine.app()
    machine.critical(APP)
    assert policies(app) == {os.SCHED_RR}
    os.kill(machine.main(), signal.SIGKILL)
    eventually(lambda: machine.shows("ActiveState") == "failed", 20)
    assert policies(app) == {os.SCHED_OTHER}


@pytest.mark.parametrize("end", ["stop", "restart", "killed"])
def test_processes_of_a_delegated_unit_are_in_groups_and_none_of_them_is_killed(machine, end):
    machine.configure(f'backend = "fair"\n[groups]\nbelow = "{APP}"\n', "Restart=no")
    machine.systemctl("start", "app")
    machine.app()
    app, *_ = before = machine.pids(APP)[:2]
    assert groups_of(app) == {APP}
    machine.systemctl("start", "tekd")
    status = machine.status()
    assert (status["backend"], status["groups"]["top"]) == ("fair", f"{GROUPS}{APP}/tek")
    for pid in before:
        assert groups_of(pid) == {f"{APP}/tek/lazy/normal"}
    machine.critical(APP)
    assert groups_of(app) == {f"{APP}/tek/fast"}
    assert (GROUPS / f"{APP}/tek/fast/cpu.weight".lstrip("/")).read_text() == "1900\n"
    if end == "killed":
        os.kill(machine.main(), signal.SIGKILL)
        eventually(lambda: machine.shows("ActiveState") == "failed", 20)
    else:
        # Processes of the unit end meanwhile, and for a moment the kernel counts them still.
        for _ in range(4 if end == "restart" else 1):
            machine.systemctl(end, "tekd")
    if end == "restart":
        assert groups_of(app) == {f"{APP}/tek/lazy/normal"}
        machine.systemctl("stop", "tekd")
    assert all(groups_of(pid) == {APP} for pid in before)
    assert own_groups(APP) == []
    assert machine.shows("ActiveState", "app") == "active"
    assert set(before) <= set(machine.pids(APP))


@pytest.mark.parametrize("end", ["stop", "restart", "killed", "hung"])
def test_a_stranger_in_the_groups_of_tekds_own_unit_outlives_every_end_of_it(machine, end):
    unit = f"Restart=no\nDelegate=cpu\nWatchdogSec={WATCHDOG_SECONDS}"
    machine.configure('backend = "fair"\n', unit)
    machine.systemctl("start", "tekd")
    assert groups_of(machine.main()) == {f"{OWN}/tek-outside"}
    with machine.stranger() as stranger:
        (GROUPS / f"{OWN}/tek-outside/cgroup.procs".lstrip("/")).write_text(str(stranger))
        machine.systemctl("reload", "tekd")
        assert groups_of(stranger) == {f"{OWN}/tek/lazy/normal"}
        if end == "killed":
            os.kill(machine.main(), signal.SIGKILL)
        elif end == "hung":
            machine.critical(f"{OWN}/tek")
            os.kill(machine.main(), signal.SIGSTOP)
        else:
            machine.systemctl(end, "tekd")
        if end in ("killed", "hung"):
            eventually(lambda: machine.shows("ActiveState") == "failed", 20)
        if end == "restart":
            assert machine.shows("ActiveState") == "active"
            machine.systemctl("stop", "tekd")
        assert pathlib.Path(f"/proc/{stranger}/comm").read_text() == "sleep\n"
        assert policies(stranger) == {os.SCHED_OTHER} and "tek" not in "".join(
            groups_of(stranger)).split("/")
        assert own_groups(OWN) == []
