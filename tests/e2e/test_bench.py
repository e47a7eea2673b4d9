# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tek bench`: short runs of the real thing. What it measured is judged by people, not here."""
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from conftest import eventually, read

BUILD = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve()
VARIANTS = ["alone", "alone-2", "conventional", "nice-20", "chrt-rr", "hogs-idle", "tek-name",
            "tek-api"]


def bench(*args, program=BUILD / "bin" / "tek"):
    return subprocess.run([program, "bench", *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


def document_of(tmp_path, *args):
    path = tmp_path / "result.json"
    done = bench(*args, "--json", str(path))
    assert done.returncode == 0, done.stderr
    return done, json.loads(path.read_text())


@pytest.mark.parametrize("name", ["response", "observe", "ident", "stack", "device", "kthread"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path, name):
    path = tmp_path / "no" / "result.json"
    done = bench(name, "--json", path)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"tek: cannot write {path}: No such file or directory" in done.stderr


def test_the_file_is_written_even_if_nobody_reads_on(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("an earlier result")
    command = [BUILD / "bin" / "tek", "bench", "ident", "--quick", "--threads", "20", "--json", path]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=60) == 0
    assert json.loads(path.read_text())["bench"] == "ident"


def test_every_variant_is_measured_or_named_with_the_reason(tmp_path):
    done, document = document_of(tmp_path, "response", "--rounds", "1", "--events", "2")
    measured = [row["variant"] for row in document["rows"] if row["metric"] == "response"]
    not_run = [entry["variant"] for entry in document["not_run"]]
    assert sorted(measured + not_run) == sorted(VARIANTS)
    assert all(entry["reason"] for entry in document["not_run"])
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)
    if os.geteuid() == 0:
        assert not not_run


def test_a_response_row_is_a_distribution_of_all_events(tmp_path):
    _, document = document_of(tmp_path, "response", "--rounds", "2", "--events", "2",
                              "--variants", "alone")
    row, = [row for row in document["rows"] if row["metric"] == "response"]
    assert row["n"] == 4 and row["unit"] == "ms"
    assert row["p50"] <= row["p99"] <= row["max"]
    assert document["bench"] == "response" and document["host"]["cpus"] >= 1


def test_assert_fails_where_tek_was_not_measured():
    done = bench("response", "--rounds", "1", "--events", "1", "--variants", "alone", "--assert")
    assert done.returncode == 1


def test_assert_fails_and_says_so_where_too_little_was_measured():
    done = bench("response", "--rounds", "1", "--events", "2", "--variants", "alone,conventional,tek-name",
                 "--assert")
    assert done.returncode == 1
    assert "--assert: the bars ask for 9 rounds and 200 events" in done.stderr


def test_observe_measures_delays_and_shares(tmp_path):
    _, document = document_of(tmp_path, "observe", "--seconds", "2", "--rounds", "2", "--share-seconds", "1")
    if os.geteuid() == 0:
        assert [len(document["raw"][name]) for name in ("conventional", "tek-name")] == [2, 2]
    metrics = {row["metric"] for row in document["rows"]}
    assert metrics == {"delay under contention", "share of one CPU"}
    shares = [row["value"] for row in document["rows"] if row["variant"] == "measured"]
    assert sum(shares) == pytest.approx(100)


def test_ident_measures_every_call_and_judges_it(tmp_path):
    done, document = document_of(tmp_path, "ident", "--quick", "--threads", "200")
    metrics = {row["metric"] for row in document["rows"] if row["case"] != "must show"}
    assert metrics == {"time of a call", "snapshot", "time of a thread's creation and join",
                       "added to glibc's, median", "memory of a thread", "time of tek ps"}
    times = {row["variant"]: row["p50"] for row in document["rows"] if row["case"] == "call"}
    assert 0 < times["empty loop"] < times["gettid, system call"] < times["read /proc stat"]
    judged = [row for row in document["rows"] if row["case"] == "must show"]
    assert done.stdout.count(" PASS") + done.stdout.count(" short") == len(judged) == 13
    record, = [row for row in judged if row["metric"] == "memory of a thread's record"]
    assert record["value"] == 40


def test_ident_asks_for_11_rounds(tmp_path):
    done = bench("ident", "--quick", "--threads", "20", "--assert")
    assert done.returncode == 1
    assert "--assert: the bars ask for 11 rounds" in done.stderr


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """One run for all: (what it did, its document, where profiles would be by default)."""
    directory = tmp_path_factory.mktemp("stack")
    result, state = directory / "result.json", directory / "state"
    command = [BUILD / "bin" / "tek", "bench", "stack", "--quick", "--days", "3", "--hour-ms", "0", "--assert",
               "--json", result]
    done = subprocess.run(command, env={**os.environ, "XDG_STATE_HOME": str(state)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    return done, json.loads(result.read_text()), state


def test_stack_compares_conventional_stacks_with_what_is_used(stack):
    done, document, _ = stack
    rows = {(row["case"], row["variant"], row["metric"]): row["value"] for row in document["rows"]}
    at_once = "273 threads at once"
    assert rows[at_once, "8 MiB", "used of stacks"] == 50828
    assert rows[at_once, "8 MiB", "allocated by used"] == pytest.approx(44, abs=0.1)
    assert rows["RLIMIT_AS 1 GiB", "8 MiB", "running threads"] == pytest.approx(127, abs=3)
    assert rows["RLIMIT_AS 1 GiB", "8 MiB", "failed of 2,000 creations"] == pytest.approx(1873, abs=3)
    assert done.stdout.count(" PASS") + done.stdout.count(" short") == 10


def test_stack_measures_tek_or_says_why_not(stack):
    done, document, _ = stack
    not_run = {entry["variant"]: entry["reason"] for entry in document["not_run"]}
    needs_more = ("stackusage", "32 bits", "mlockall")
    assert not {name: why for name, why in not_run.items() if not any(it in name for it in needs_more)}
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)


def test_stack_learns_nothing_into_the_profiles_of_the_machine(stack):
    assert not stack[2].exists()


def test_stack_asks_for_as_many_runs_as_the_bars_do(stack):
    done, _, _ = stack
    assert done.returncode == 1
    assert "--assert: the bars ask for 50 runs in tight mode" in done.stderr


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a tekd that grants something")


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """One run of everything but the kills, which test_tekd_killed.py has: (what it did, its document)."""
    result = tmp_path_factory.mktemp("device") / "result.json"
    command = [BUILD / "bin" / "tek", "bench", "device", "--quick", "--parts", "response,floor,switches,rest",
               "--assert", "--json", result]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=400)
    return done, json.loads(result.read_text())


@needs_root
def test_device_measures_every_variant_under_every_load(device):
    _, document = device
    rows = {(row["case"], row["variant"]): row for row in document["rows"] if row["metric"] == "response"}
    loaded = {(case, variant) for case in ("20 hogs", "200 hogs")
              for variant in ("conventional", "groups only", "rt", "fair")}
    without = {tuple(entry["variant"].rsplit(", ", 1)) for entry in document["not_run"]}
    assert set(rows) | without >= loaded | {("no load", "alone"), ("no load", "alone-2")}
    assert not {variant for _, variant in without} & {"alone", "alone-2", "conventional", "rt"}
    assert rows["20 hogs", "rt"]["n"] == 8 and not document["failed"]
    assert "autogroup" in document["host"]


@needs_root
def test_device_measures_tekd_itself_or_says_why_not(device):
    done, document = device
    not_run = [entry["variant"] for entry in document["not_run"]]
    ways = {row["variant"] for row in document["rows"] if row["metric"] == "time to become critical"}
    assert "rt" in ways and ("rt, limit" in ways or any("rt, limit" in name for name in not_run))
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)
    floors = [row["value"] for row in document["rows"] if row["metric"] == "left to others"]
    assert floors and all(0 <= percent <= 100 for percent in floors)
    wake_ups, = [row["value"] for row in document["rows"]
                 if (row["case"], row["metric"]) == ("tekd at rest", "wake-ups")]
    assert wake_ups == 0


@needs_root
def test_device_asks_for_as_many_measurements_as_the_bars_do(device):
    done, _ = device
    assert done.returncode == 1
    assert "--assert: the bars ask for 9 rounds and 200 events" in done.stderr


def processes_with(text):
    commands = pathlib.Path("/proc").glob("[0-9]*/cmdline")
    return [path for path in commands if text in read(path)]


@needs_root
def test_device_leaves_nothing_behind_when_it_is_killed(open_directory):
    command = [BUILD / "bin" / "tek", "bench", "device", "--parts", "faults,rest"]
    memory = pathlib.Path("/dev/shm")  # where tekd's state is then
    before = set(memory.glob("tek-bench-*"))
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, "TMPDIR": str(open_directory)}) as running:
        directory, = eventually(lambda: list(open_directory.glob("tek-bench-*")))
        eventually(lambda: (directory / "run" / "tekd").exists())
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
    command = [BUILD / "bin" / "tek", "bench", "kthread", "--quick", "--parts", "pdflush", "--directory", open_directory]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as running:
        eventually(lambda: settings_of_dirty_memory() != before)
        running.kill()
    eventually(lambda: settings_of_dirty_memory() == before)
    eventually(lambda: not list(open_directory.iterdir()))
    eventually(lambda: not processes_with(str(open_directory)))


def test_without_its_programs_it_says_where_it_looked(tmp_path):
    lonely = tmp_path / "bin" / "tek"
    lonely.parent.mkdir()
    shutil.copy(BUILD / "bin" / "tek", lonely)
    done = bench("response", program=lonely)
    assert done.returncode == 125
    assert "libexec/tek/appliance" in done.stderr


@pytest.mark.parametrize("args", [("response", "--variants", "fastest"), ("response", "--rounds", "0"),
                                  ("observe", "--seconds", "1"), ("ident", "--threads", "1"),
                                  ("stack", "--days", "2"), ("device", "--parts", "kills"),
                                  ("kthread", "--parts", "pdflash"), ()])
def test_nonsense_is_refused(args):
    assert bench(*args).returncode == 2
