# SPDX-License-Identifier: MIT OR Apache-2.0
"""CPUs that go offline under TEK's threads, and come back."""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import BUILD, child_of, eventually, read, threads_of, tids_by_name

CPUS = pathlib.Path("/sys/devices/system/cpu")
RR = os.SCHED_RR
# The kernel's threads that take a CPU offline or run its timers come after a critical thread.
BUDGET = "--budget=100ms/500ms"


@pytest.fixture(autouse=True)
def all_cpus_at_the_end():
    yield
    for switch in CPUS.glob("cpu[0-9]*/online"):
        if switch.read_text() != "1\n":
            switch.write_text("1")


def switch(cpu, online):
    (CPUS / f"cpu{cpu}" / "online").write_text("1" if online else "0")


def cpu_of(tid):
    """The CPU on which a thread ran last."""
    return int(read(f"/proc/{tid}/stat").rpartition(")")[2].split()[36])


def ran_ns(tid):
    return int(read(f"/proc/{tid}/schedstat").split()[0])


@pytest.fixture
def run(waiting):
    """A program under tek run; its tids by name."""
    started, programs = [], []

    def start(options, *names):
        process = subprocess.Popen([BUILD / "bin" / "tek", "run", *options, waiting, *names],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        pid = child_of(process.pid)
        programs.append(pid)
        return pid, tids_by_name(pid, names)

    yield start
    for pid in programs:
        os.kill(pid, signal.SIGKILL)
    for process in started:
        process.communicate(timeout=20)


def test_a_pinned_critical_thread_goes_on_elsewhere_when_its_cpu_goes_away(run, tek):
    _, tids = run(["--critical=spin", BUDGET], "spin", "idle")
    spin = tids["spin"]
    os.sched_setaffinity(spin, {3})
    eventually(lambda: cpu_of(spin) == 3)
    switch(3, False)
    assert cpu_of(spin) != 3
    before = ran_ns(spin)
    eventually(lambda: ran_ns(spin) > before)
    eventually(lambda: os.sched_getscheduler(spin) & 0xff == RR)
    shown, = threads_of(tek, "--tid", str(spin))
    assert shown["tracked"]
    switch(3, True)
    os.sched_setaffinity(spin, {3})
    eventually(lambda: cpu_of(spin) == 3)


def test_a_critical_thread_that_waits_stays_critical_when_its_cpu_goes_away(run, tek):
    _, tids = run(["--critical=pump"], "pump")
    os.sched_setaffinity(tids["pump"], {2})
    switch(2, False)
    shown, = threads_of(tek, "--tid", str(tids["pump"]))
    assert (shown["region"], shown["policy"]) == ("fast", "tek")
    assert os.sched_getscheduler(tids["pump"]) & 0xff == RR


def test_budgets_hold_when_the_cpu_of_the_guard_goes_away(run):
    pid, tids = run(["--critical=spin", "--budget=100ms/200ms"], "spin")
    guard = tids_by_name(pid, ["tek-guard"])["tek-guard"]
    os.sched_setaffinity(guard, {2})
    switch(2, False)
    # From now on only a budget guard that still runs sends the thread back, again and again.
    spin = tids["spin"]
    for policy in (os.SCHED_OTHER, RR, os.SCHED_OTHER):
        eventually(lambda: os.sched_getscheduler(spin) & 0xff == policy)


def test_a_series_of_ps_goes_on_while_cpus_come_and_go(tek, run):
    run(["--critical=spin", BUDGET], "spin")
    with subprocess.Popen([BUILD / "bin" / "tek", "ps", "--sample=200ms", "--count=10", "--json",
                           "--name=spin", "-o", "tid,cpu"], stdout=subprocess.PIPE,
                          text=True) as series:
        for cpu in (3, 2, 1):
            switch(cpu, False)
        for cpu in (1, 2, 3):
            switch(cpu, True)
        lines, _ = series.communicate(timeout=60)
    assert series.returncode == 0
    assert len({json.loads(line)["time_ns"] for line in lines.splitlines()}) == 10, lines


def test_doctor_and_a_run_report_are_right_with_one_cpu_left(tek, threads, tmp_path):
    for cpu in (3, 2, 1):
        switch(cpu, False)
    report = tmp_path / "report.json"
    ended = tek("run", "--critical=ui", "--report-json", report, threads, "ui", "other", "5")
    assert (ended.returncode, ended.stderr) == (5, "")
    fast, = json.loads(report.read_text())["threads"]
    assert (fast["thread"], fast["overruns"]) == ("ui", 0)
    assert tek("doctor").returncode == 0


def test_a_program_that_starts_while_a_cpu_is_away_uses_it_when_it_is_back(run):
    switch(3, False)
    _, tids = run(["--critical=spin", BUDGET], "spin")
    switch(3, True)
    os.sched_setaffinity(tids["spin"], {3})
    eventually(lambda: cpu_of(tids["spin"]) == 3)
