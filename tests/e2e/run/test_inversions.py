# SPDX-License-Identifier: MIT OR Apache-2.0
"""Inversions: critical threads that wait for threads that are not, in the report of `tek run`, in
`tek explain` and in the exporter."""
import json
import signal
import subprocess

import pytest

from conftest import eventually
from paths import PROGRAMS

SOURCE = (PROGRAMS / "inversion.c").read_text()
TIMES = 4
GCC = ["gcc", "-O1", "-pthread"]


def line_of(comment):
    """The line of the program with this comment."""
    lines = SOURCE.splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"// {comment}"))


@pytest.fixture(scope="module")
def inversion(compile_c):
    return compile_c(SOURCE, *GCC, "-g")


@pytest.fixture(scope="module")
def without_lines(compile_c):
    return compile_c(SOURCE, *GCC)


def report(tek, directory, *arguments):
    """The inversions of a run, by its JSON, and what it printed."""
    file = directory / "report.json"
    ended = tek("run", "--report", "--report-json", file, *arguments)
    return json.loads(file.read_text())["inversions"], ended


@pytest.mark.parametrize("end", ["exits", "killed"])
def test_the_report_names_threads_lock_and_lines(tek, inversion, tmp_path, end,
                                                              real_time):
    found, ended = report(tek, tmp_path, "--critical=touch", "--", inversion, str(TIMES), end)
    assert ended.returncode == (0 if end == "exits" else -signal.SIGKILL)
    assert found["inversions"] >= TIMES and found["lifts"] >= TIMES
    worst = found["worst"][0]
    file = f"{inversion.name}.c"
    assert worst["call"] == f"ui_touch ({file}:{line_of('waits here')})"
    assert worst["release"] == f"log_flush ({file}:{line_of('released here')})"
    assert (worst["kind"], worst["object"]) == ("mutex", "queue_lock")
    assert (worst["waiter"]["name"], worst["holder"]["name"]) == ("touch", "logger")
    assert (worst["program"], worst["waits"]) == (inversion.name, TIMES)
    assert 0 < worst["lifted_cpu_ns"] <= worst["lifted_ns"] <= worst["wait_ns"]
    assert worst["wait_ns"] <= worst["waited_ns"] <= found["waited_ns"]
    assert "ui_touch" in ended.stderr and "mutex queue_lock" in ended.stderr


def test_a_wait_is_estimated_to_take_longer_without_the_lift_beside_busy_threads(
        tek, inversion, tmp_path, real_time):
    found, _ = report(tek, tmp_path, "--critical=touch", "--", inversion, str(TIMES))
    worst = found["worst"][0]
    # Three busy threads have the same weight as the holder: it has a quarter of the CPU.
    assert worst["cost_ns"] > 1.5 * worst["wait_ns"]


def test_functions_are_named_without_lines_where_there_is_no_debug_information(
        tek, without_lines, tmp_path, real_time):
    found, _ = report(tek, tmp_path, "--critical=touch", "--", without_lines, "1")
    assert found["worst"][0]["call"].startswith("ui_touch+0x")


def test_nothing_is_recorded_where_nothing_is_critical_or_lifts_are_off(tek, inversion, tmp_path,
                                                                        real_time):
    for arguments in [(), ("--no-inherit", "--critical=touch")]:
        found, ended = report(tek, tmp_path, *arguments, "--", inversion, "1")
        assert found == {"inversions": 0, "waited_ns": 0, "lifts": 0, "lifted_ns": 0, "worst": []}
        assert "waited" not in ended.stderr


def test_the_exporter_counts_lifts_and_inversions(tek, open_build, inversion, real_time):
    command = [open_build / "bin" / "tek", "run", "--critical=touch", "--", inversion]
    with subprocess.Popen([*command, str(TIMES), "stays"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        page = eventually(lambda: tek("exporter", "--once", "--programs=1000").stdout)
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")

        def value(name):
            return float(values[f'tek_program_{name}{{program="{inversion.name}"}}'])

        assert value("inversions_total") >= TIMES
        assert value("lifts_total") >= TIMES
        # A lift may end a moment after the wait.
        assert value("inversion_wait_seconds_total") > 0 and value("lifted_seconds_total") > 0
        program.stdin.close()
    assert program.returncode == 0
