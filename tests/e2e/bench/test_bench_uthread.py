# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tek bench uthread`: short runs of the real one. These tests do not judge the measurements."""
import json
import os
import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.spread

BUILD = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve()
PROGRAMS = ["vector", "parallel", "external", "banking", "philosophers", "fibonacci", "primes"]
SCHEDULERS = ["rr", "mlfq", "psjf", "fifo", "steal"]


def bench(*args, timeout=280):
    return subprocess.run([BUILD / "bin" / "tek", "bench", "uthread", *args],
                          stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout)


def measured(directory, parts, *args, status=0):
    path = directory / "result.json"
    done = bench("--quick", "--parts", parts, "--json", path, *args)
    assert done.returncode == status, done.stderr
    return done, json.loads(path.read_text())


def program(name, *args):
    done = subprocess.run([BUILD / "bench" / "uthread" / name, *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """One run for all: (its result, its document)."""
    return measured(tmp_path_factory.mktemp("programs"), "programs")


@pytest.fixture(scope="module")
def micro(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("micro"), "micro")


@pytest.fixture(scope="module")
def fairness(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("fairness"), "fairness", "--assert", status=1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_result_whatever_the_number_of_threads(name):
    runs = [program(name, "--threads", str(threads), "--size", "3001") for threads in (2, 7, 64)]
    assert all(run["result"] == run["expected"] for run in runs)
    if name != "banking":  # the deposited amount depends on the depositor
        assert len({run["result"] for run in runs}) == 1
    assert all(0 < run["first_ns"] <= run["last_ns"] <= run["wall_ns"] for run in runs)
    assert [run["kernel_threads"] for run in runs] == [2, 7, 64]


def test_every_program_runs_under_every_scheduler_with_the_right_result(programs):
    _, document = programs
    assert not document["failed"], document["failed"]
    walls = {(row["case"], row["variant"]) for row in document["rows"]
             if row["metric"] == "wall time"}
    variants = ["pthread", "pthread, 1 CPU"] + [f"{name}, 5 ms"
                                                for name in SCHEDULERS + ["m:n rr", "m:n steal"]]
    assert walls >= {(f"{name}, 10 threads", variant) for name in PROGRAMS for variant in variants}
    for entry in document["raw"]["programs"]["cells"]:
        assert len({(run["result"], run["size"]) for run in entry["runs"]}) == 1


def test_user_level_threads_are_no_kernel_threads(programs):
    _, document = programs
    for entry in document["raw"]["programs"]["cells"]:
        is_pthread = "Pthread" in str(entry["cell"]["variant"])
        for run in entry["runs"]:
            assert (run["kernel_threads"] == run["threads"]) == is_pthread


def test_the_tables_of_the_paper_are_printed(programs):
    done, _ = programs
    for name in PROGRAMS:
        assert f"{name} of " in done.stdout
    assert "first/last thread ended" in done.stdout
    assert done.stdout.count(" PASS") + done.stdout.count(" short") == 8


def test_calls_of_every_library_are_measured_or_named_with_the_reason(micro):
    done, document = micro
    rows = {(row["case"], row["variant"]): row["p50"] for row in document["rows"]
            if row["metric"] == "time of a call"}
    not_run = {entry["variant"]: entry["reason"] for entry in document["not_run"]}
    assert not set(not_run) - {"State Threads", "Pth", "Boost.Fiber", "Go"}, not_run
    assert all("install" in reason for reason in not_run.values())
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)
    for variant in ("TEK", "TEK preloaded", "glibc"):
        for call in ("yield", "create and join", "mutex pair", "cond ping-pong"):
            assert rows[call, variant] > 0
    assert ("mutex pair", "TEK, 2 workers") in rows and ("yield", "TEK, 2 workers") not in rows
    # A switch without a system call is faster. --assert judges the ratio: this was one round.
    assert rows["switch between contexts", "TEK"] < rows["switch between contexts", "swapcontext"]


def test_preemption_is_measured_beside_a_bare_timer(micro):
    _, document = micro
    rows = {(row["case"], row["variant"]) for row in document["rows"]
            if row["metric"] == "overhead, median"}
    cases = [f"preemption, quantum {quantum}" for quantum in ("10 ms", "1 ms", "200 us", "50 us")]
    assert rows == {(case, variant) for case in cases
                    for variant in ("bare signal", "defer", "klt")}
    for series in document["raw"]["preemption"]["series"]:
        assert all(round["signals"] > 3 for round in series["rounds"])


def test_many_live_threads_take_little_memory(tmp_path):
    _, document = measured(tmp_path, "million")
    assert not document["not_run"], document["not_run"]
    rows = {row["variant"]: row["value"] for row in document["rows"]
            if row["metric"] == "memory of a thread"}
    assert set(rows) == {"TEK, parked", "TEK, once preempted", "TEK preloaded, parked", "glibc"}
    assert 1000 < rows["TEK, parked"] <= rows["TEK, once preempted"] * 1.1


def test_schedulers_are_compared(fairness):
    _, document = fairness
    assert not document["not_run"], document["not_run"]
    rows = {(row["case"], row["variant"]): row["value"] for row in document["rows"]}
    for case in ("share of a CPU", "interactive thread", "mixed jobs"):
        assert all((case, name) in rows
                   for name in ("pthread, 1 CPU", "rr", "mlfq", "psjf", "steal"))
    assert rows["priorities", "fifo"] == 0
    assert document["raw"]["fairness"]["checks"] > 100


def test_each_lock_is_measured_with_more_and_more_workers(tmp_path):
    _, document = measured(tmp_path, "scale")
    assert not document["not_run"], document["not_run"]
    rows = {(row["case"], row["variant"]): row["value"] for row in document["rows"]}
    for work in ("yields on one's own worker", "hand-overs between workers"):
        for workers in {1, len(os.sched_getaffinity(0))}:
            for variant in ("fifo, giant lock", "fifo, worker lock", "fifo, object lock", "rr",
                            "steal", "glibc"):
                assert rows[f"{work}, {workers} workers", variant] > 0


def test_assert_asks_for_as_many_rounds_as_the_bars_do(fairness):
    done, _ = fairness
    assert "--assert: the bars ask for 3 rounds of fairness; this run had 1" in done.stderr


def test_without_the_library_it_names_the_cure(tmp_path):
    path = tmp_path / "result.json"
    command = [BUILD / "bin" / "tek", "bench", "uthread", "--quick", "--parts", "programs",
               "--json", path]
    done = subprocess.run(command, env={**os.environ, "TEK_LIBRARY": str(tmp_path / "libtek.so")},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    entry, = json.loads(path.read_text())["failed"]
    assert "libtek-uthread.so" in entry["reason"] and "make build" in entry["reason"]


def test_a_file_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path):
    path = tmp_path / "no" / "result.json"
    done = bench("--json", path)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"tek: cannot write {path}: No such file or directory" in done.stderr


@pytest.mark.parametrize("args", [("--parts", "macro"), ("--rounds", "0"), ("--live", "0")])
def test_nonsense_is_refused(args):
    assert bench(*args).returncode == 2
