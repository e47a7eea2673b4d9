# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek ps prints again and again: series of samples, tables, and what a terminal gets of them."""
import csv
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from ps_victim import ps, tables, victim

assert ps and tables and victim  # which pytest finds by their names


def test_watch_ends_with_the_process_that_it_shows(open_build, victim):
    fridge = victim("gas")
    command = [open_build / "bin" / "tek", "ps", "--pid", str(fridge.pid), "--watch", "50ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as watch:
        watch.stdout.readline()
        fridge.process.kill()
        fridge.process.wait()
        _, errors = watch.communicate(timeout=60)
        assert watch.returncode == 0
    assert f"there is no process {fridge.pid}" in errors


def await_rest(pid, name):
    """Waits until a thread has not run for some time: on a busy machine it may go to sleep late."""
    task, = (task for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
             if (task / "comm").read_text() == f"{name}\n")
    ran, before = (task / "schedstat").read_text(), None
    while ran != before:
        time.sleep(0.2)
        ran, before = (task / "schedstat").read_text(), ran


def test_a_series_has_what_each_thread_did_in_each_interval(ps, victim, tables):
    fridge = victim("spin", "rest")
    await_rest(fridge.pid, "rest")
    out = tables / "series.csv"
    assert ps("--pid", fridge.pid, "--sample", "200ms", "--count", 3, "--output", out) == ""
    records = list(csv.DictReader(out.open()))
    spin = [record for record in records if record["name"] == "spin"]
    rest = [record for record in records if record["name"] == "rest"]
    assert len(spin) == len(rest) == 3
    shares, intervals = [], []
    for busy, idle in zip(spin, rest):
        interval = int(busy["interval_ns"])
        intervals.append(interval)
        # What a thread used just before the interval may be counted in it.
        shares.append(min(100 * int(busy["cpu_ns"]) / interval, 100))
        assert float(busy["cpu_percent"]) == pytest.approx(shares[-1], abs=0.01)
        assert (float(idle["cpu_percent"]), idle["switches"]) == (0, "0")
        assert abs(int(busy["time_ns"]) - time.time_ns()) < 60e9
    # On a busy machine a sample may be late, and the next one comes sooner after it.
    assert min(intervals) > 0 and 450e6 < sum(intervals) < 60e9
    assert max(shares) > 1  # another thread may have had the CPU in one of them
    times = [int(record["time_ns"]) for record in spin]
    assert times == sorted(times)


def test_a_series_ends_cleanly_at_an_interrupt(open_build, victim):
    fridge = victim("gas")
    command = [open_build / "bin" / "tek", "ps", "--pid", str(fridge.pid), "--sample", "20ms",
               "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as series:
        first = json.loads(series.stdout.readline())
        assert {"time_ns", "interval_ns", "cpu_percent", "run_delay_ns", "switches"} <= set(first)
        series.send_signal(signal.SIGINT)
        rest, errors = series.communicate(timeout=60)
        assert (series.returncode, errors) == (0, "")
        assert all(json.loads(line)["pid"] == fridge.pid for line in rest.splitlines())
        assert rest == "" or rest.endswith("\n")


def test_watch_prints_table_after_table_where_there_is_no_terminal(open_build, victim):
    fridge = victim("gas")
    command = [open_build / "bin" / "tek", "ps", "--pid", str(fridge.pid), "-o", "name",
               "--watch", "50ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        lines = [watch.stdout.readline() for _ in range(8)]
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=60)
        assert watch.returncode == 0
    assert lines[:4] == lines[4:] and "\x1b" not in "".join(lines)


def test_watch_on_a_terminal_draws_over_itself_until_q(open_build, victim):
    fridge = victim("gas")
    command = [open_build / "bin" / "tek", "ps", "--pid", str(fridge.pid), "-o", "name",
               "--watch", "50ms"]
    control, terminal = pty.openpty()
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as watch:
        os.close(terminal)
        drawn, end = b"", time.monotonic() + 60
        while drawn.count(b"\x1b[H") < 3:
            assert time.monotonic() < end and watch.poll() is None, drawn
            if select.select([control], [], [], 0.1)[0]:
                drawn += os.read(control, 4096)
        os.write(control, b"q")
        assert watch.wait(60) == 0
    os.close(control)
    assert b"gas" in drawn


# Characters that a terminal obeys: C0 but the line end, DEL, C1, line separators, bidi controls.
OBEYED = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("command", [
    ["ps", "--pid"], ["ps", "--tree", "--pid"], ["ps", "--json", "--pid"],
    ["ps", "--sample", "100ms", "--count", "2", "--json", "--pid"],
    ["top", "--once", "--interval", "100ms", "--filter", "]0;"],
    ["top", "--once", "--interval", "100ms", "--filter", "]0;", "--json"],
    ["explain"], ["explain", "--json"]],
    ids=" ".join)
def test_no_command_hands_to_a_terminal_what_a_thread_is_called(tek, victim, command):
    name = "\x1b]0;\x9b\u202e\u2028\x7f"
    process = victim(name)
    about = {"ps": [process.pid], "explain": [process.tids[name]]}.get(command[0], [])
    ended = tek(*command, *about, errors="strict")
    assert ended.returncode == 0, ended.stderr
    assert not OBEYED.search(ended.stdout + ended.stderr)
    assert "202e" in ended.stdout


@pytest.mark.parametrize("options", [[], ["--output", "/dev/stdout"]], ids=["", "output"])
def test_a_series_on_a_terminal_has_nothing_that_it_would_obey(open_build, victim, options):
    process = victim("\x1b]0;\x9b\u202e\u2028\x7f")
    control, terminal = pty.openpty()
    command = [open_build / "bin" / "tek", "ps", "--sample", "100ms", "--count", "2", *options,
               "--pid"]
    subprocess.run([*command, str(process.pid)], stdout=terminal, timeout=60, check=True)
    os.close(terminal)
    shown = b""
    try:
        while more := os.read(control, 65536):
            shown += more
    except OSError:
        pass  # it was closed at the other end
    os.close(control)
    shown = shown.decode().replace("\r\n", "\n")
    assert "202e" in shown and not OBEYED.search(shown)
