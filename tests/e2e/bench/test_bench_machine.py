# SPDX-License-Identifier: MIT OR Apache-2.0
"""Short runs of `tek bench device` and `tek bench kthread`, which change and restore settings."""
import json
import os
import pathlib
import subprocess
import time

import pytest
from conftest import BUILD, eventually, listens_at, read
from test_bench import document_of

# Their loads leave nothing of the machine to other programs.
pytestmark = pytest.mark.alone()
needs_root = pytest.mark.skipif(os.geteuid() != 0,
                                reason="needs root, for a tekd that grants something")


def device(directory, parts):
    """A short run of these parts: (its result, its document)."""
    result = directory / "result.json"
    command = [BUILD / "bin" / "tek", "bench", "device", "--quick", "--parts", parts, "--assert",
               "--json", result]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          text=True, timeout=280)
    return done, json.loads(result.read_text())


@pytest.fixture(scope="module")
def response(tmp_path_factory):
    return device(tmp_path_factory.mktemp("device"), "response")


@pytest.fixture(scope="module")
def daemon_itself(tmp_path_factory):
    """All other parts but the kills, which test_tekd_killed.py has."""
    return device(tmp_path_factory.mktemp("device"), "floor,switches,rest")


@needs_root
def test_device_measures_every_variant_under_every_load(response):
    _, document = response
    rows = {(row["case"], row["variant"]): row for row in document["rows"]
            if row["metric"] == "response"}
    loaded = {(case, variant) for case in ("20 hogs", "200 hogs")
              for variant in ("conventional", "groups only", "rt", "fair")}
    without = {tuple(entry["variant"].rsplit(", ", 1)) for entry in document["not_run"]}
    assert set(rows) | without >= loaded | {("no load", "alone"), ("no load", "alone-2")}
    assert not {variant for _, variant in without} & {"alone", "alone-2", "conventional", "rt"}
    assert rows["20 hogs", "rt"]["n"] == 3 and not document["failed"]
    assert "autogroup" in document["host"]


@needs_root
def test_device_measures_tekd_itself_or_reports_why_not(daemon_itself):
    done, document = daemon_itself
    not_run = [entry["variant"] for entry in document["not_run"]]
    ways = {row["variant"] for row in document["rows"]
            if row["metric"] == "time to become critical"}
    assert "rt" in ways and ("rt, limit" in ways or any("rt, limit" in name for name in not_run))
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)
    floors = [row["value"] for row in document["rows"] if row["metric"] == "left to others"]
    assert floors and all(0 <= percent <= 100 for percent in floors)
    wake_ups, = [row["value"] for row in document["rows"]
                 if (row["case"], row["metric"]) == ("tekd at rest", "wake-ups")]
    assert wake_ups == 0


@needs_root
def test_device_asks_for_as_many_measurements_as_the_bars_do(response):
    done, _ = response
    assert done.returncode == 1
    assert "--assert: the bars ask for 9 rounds and 200 events" in done.stderr


def processes_with(text):
    commands = pathlib.Path("/proc").glob("[0-9]*/cmdline")
    return [path for path in commands if text in read(path)]


@needs_root
def test_device_leaves_nothing_behind_when_it_is_killed(open_directory):
    command = [BUILD / "bin" / "tek", "bench", "device", "--parts", "faults,rest"]
    memory = pathlib.Path("/dev/shm")  # the place of tekd's state then
    before = set(memory.glob("tek-bench-*"))
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL,
                          env={**os.environ, "TMPDIR": str(open_directory)}) as running:
        directory, = eventually(lambda: list(open_directory.glob("tek-bench-*")))
        eventually(lambda: listens_at(directory / "run" / "tekd"))
        time.sleep(0.5)
        running.kill()
    eventually(lambda: not directory.exists())
    eventually(lambda: not processes_with(str(directory)))
    assert set(memory.glob("tek-bench-*")) <= before
    assert not list(pathlib.Path("/sys/fs/cgroup").glob(f"**/tek-bench-{running.pid}"))


def settings_of_dirty_memory():
    return {path.name: read(path) for path in pathlib.Path("/proc/sys/vm").glob("dirty_*")}


@needs_root
def test_kthread_measures_the_writer_under_every_variant_and_puts_the_machine_back(tmp_path):
    before = settings_of_dirty_memory()
    done, document = document_of(tmp_path, "kthread", "--quick", "--parts", "pdflush", "--curves")
    assert settings_of_dirty_memory() == before
    measured = {row["variant"]: row for row in document["rows"] if row["metric"] == "response"}
    not_run = {entry["variant"]: entry["reason"] for entry in document["not_run"]}
    expected = {"alone", "alone-2", "as it is", "static", "plain PIP", "TEK"}
    assert set(measured) | {name.removeprefix("pdflush, ") for name in not_run} >= expected
    assert {"alone", "as it is", "static"} <= set(measured) and not document["failed"]
    assert all(f"NOT RUN {name}: {reason}" in done.stdout for name, reason in not_run.items())
    session, = document["raw"]["sessions"]
    run, = session["cases"][0]["runs"]["as it is"]
    assert len(run["turns"]) == measured["as it is"]["n"] and run["samples"]
    assert run["threads"]["classes"]["kworker"]["waited_ns"] > 0
    assert "as it is, response over" in done.stdout and "as it is, dirty memory" in done.stdout
    assert done.stdout.count(" PASS") + done.stdout.count(" short") == 3


@needs_root
def test_kthread_puts_the_machine_back_when_it_is_killed(open_directory):
    before = settings_of_dirty_memory()
    directory = open_directory / "kthread"
    directory.mkdir()
    command = [BUILD / "bin" / "tek", "bench", "kthread", "--quick", "--parts", "pdflush",
               "--directory", directory]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as running:
        eventually(lambda: settings_of_dirty_memory() != before)
        running.kill()
    eventually(lambda: settings_of_dirty_memory() == before)
    eventually(lambda: not list(directory.iterdir()))
    eventually(lambda: not processes_with(str(directory)))
