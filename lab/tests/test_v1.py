# SPDX-License-Identifier: MIT OR Apache-2.0
"""Control groups of version 1, a hierarchy for each controller."""
import json
import os
import pathlib
import subprocess

import pytest

GROUPS = pathlib.Path("/sys/fs/cgroup")


@pytest.fixture
def group():
    """A group of the cpu controller, and the command that starts a program in it."""
    directory = GROUPS / "cpu" / f"tek-test-{os.getpid()}"
    directory.mkdir()
    yield directory, ["sh", "-c", f'echo $$ >{directory}/cgroup.procs && exec "$@"', "sh"]
    directory.rmdir()


def test_doctor_finds_control_groups_of_version_1(diagnosis):
    checks, usable = diagnosis
    words = checks["cgroup"]["found"]
    assert words.startswith("version 1 with ")
    for controller in ("cpu", "cpuset", "memory", "pids"):
        assert controller in words
    assert usable["fair"]


def test_doctor_names_the_group_that_it_runs_in(tek, group):
    directory, inside = group
    info = json.loads(tek("doctor", "--json", prefix=inside).stdout)
    fair = next(backend for backend in info["backends"] if backend["name"] == "fair")
    assert fair["usable"]
    assert directory.name in fair["why"]


def test_a_thread_in_a_group_with_the_least_weight_becomes_critical_and_stays_there(
        tek, threads, group, tmp_path, real_time):
    directory, inside = group
    (directory / "cpu.shares").write_text("2")
    report = tmp_path / "report.json"
    ended = tek("run", "--critical=ui", "--report-json", report, threads, "ui", "other", "5",
                prefix=inside)
    assert (ended.returncode, ended.stderr) == (5, "")
    fast, = json.loads(report.read_text())["threads"]
    assert (fast["thread"], fast["overruns"]) == ("ui", 0)
    # A share of the 0.1 s that it ran; clocks of an emulated machine differ.
    assert fast["fast_ns"] >= 10_000_000


def test_explain_shows_the_group_of_a_thread(tek, waiting, group):
    directory, inside = group
    with subprocess.Popen([*inside, waiting, "heater"], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            info = tek("explain", str(process.pid)).stdout
        finally:
            process.kill()
    assert directory.name in info
