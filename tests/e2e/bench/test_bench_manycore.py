# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tek bench manycore` and its four programs: short runs. These tests do not judge measurements."""
import json
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve()
TEK = BUILD / "bin" / "tek"
SIZES = {"blackscholes": "1000", "swaptions": "60", "streamcluster": "1024", "dedup": "1000000"}
MODELS = {"1:1": [], "m:1": ["--model", "m:1"], "m:n": ["--model", "m:n", "--workers", "2"],
          "m:n-fifo": ["--model", "m:n", "--workers", "2", "--sched", "fifo"]}


def bench(*args, timeout=280):
    return subprocess.run([TEK, "bench", "manycore", *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout)


def path_of(name):
    path = BUILD / "bench" / "manycore" / name
    if name == "dedup" and not path.exists():
        pytest.skip("needs zlib1g-dev when TEK is built")
    return path


def program(name, *args, run=()):
    around = [TEK, "run", "--no-rules", *run, "--"] if run else []
    done = subprocess.run([*around, path_of(name), *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One run for all: (its result, its document, the file)."""
    path = tmp_path_factory.mktemp("manycore") / "result.json"
    parts = "blackscholes,swaptions,streamcluster"
    done = bench("--quick", "--parts", parts, "--threads", "1,2", "--json", path)
    assert done.returncode == 0, done.stderr
    return done, json.loads(path.read_text()), path


@pytest.mark.parametrize("name", SIZES)
def test_a_program_gives_the_same_result_whoever_runs_its_threads_and_however_many(name):
    results = set()
    for model, options in MODELS.items():
        for threads in (1, 2, 8):
            run = program(name, "--threads", str(threads), "--size", SIZES[name], run=options)
            assert run["right"], (model, run)
            assert run["wall_ns"] == run["serial_ns"] + run["file_ns"] + run["parallel_ns"]
            if model == "1:1":
                assert run["kernel_threads"] == run["most_threads"] >= threads
            if model == "m:1":
                assert run["kernel_threads"] == 1
            results.add(run["result"])
    assert len(results) == 1, results


@pytest.mark.parametrize("name", ["blackscholes", "streamcluster", "dedup"])
def test_files_in_memory_hold_what_those_on_tmpfs_do(name):
    runs = [program(name, "--size", SIZES[name], "--files", kind) for kind in ("tmpfs", "memory")]
    assert runs[0]["result"] == runs[1]["result"]


def test_streamcluster_does_the_same_with_either_barrier():
    runs = [program("streamcluster", "--size", "1024", "--threads", "3", "--barrier", kind)
            for kind in ("mutex", "pthread")]
    assert runs[0]["result"] == runs[1]["result"]
    assert runs[0]["barriers"] == runs[1]["barriers"] > 1000


def test_streamcluster_has_more_than_100000_barriers_by_default():
    assert program("streamcluster", "--threads", "1")["barriers"] > 100_000


def test_swaptions_takes_tens_of_locks_and_dedup_very_many():
    assert program("swaptions", "--size", "16")["locks"] < 1000
    assert program("dedup")["locks"] > 20_000


@pytest.mark.parametrize("name, args",
                         [("swaptions", ["--files", "memory"]), ("dedup", ["--barrier", "mutex"]),
                          ("blackscholes", ["--files", "disk"]),
                          ("streamcluster", ["--threads", "0"])])
def test_a_program_refuses_what_it_does_not_know(name, args):
    done = subprocess.run([path_of(name), *args], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    assert done.returncode != 0 and done.stderr


def test_programs_are_measured_under_each_model(quick):
    _, document, _ = quick
    assert not document["failed"], document["failed"]
    walls = {(row["case"], row["variant"]) for row in document["rows"]
             if row["metric"] == "wall time"}
    for name in ("blackscholes", "swaptions", "streamcluster"):
        for threads in (1, 2):
            for model in ("1:1", "m:n-fifo", "m:n-steal"):
                assert (f"{name}, {threads} threads", model) in walls


def test_what_each_preset_stands_for_is_printed(quick):
    done, _, _ = quick
    for preset in ("fmp-base", "fmp-k42", "linux-base", "linux-cfs", "linux-base-pt"):
        assert any(line.strip().startswith(preset)
                   and " -> " in line for line in done.stdout.splitlines())
    assert "paper, Figs 11 to 13" in done.stdout


def test_what_cannot_be_shown_on_one_memory_node_is_named_instead_of_measured(tmp_path):
    path = tmp_path / "result.json"
    done = bench("--quick", "--parts", "nodes", "--threads", "1", "--json", path)
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    reasons = [entry["reason"] for entry in document["not_run"]]
    if document["raw"]["nodes"] < 2:
        assert len(reasons) == 2 and all("one memory node" in reason for reason in reasons)
        assert not document["rows"] and "one memory node" in done.stdout
    else:
        assert not reasons and document["rows"]


def test_a_stored_result_is_shown_again_with_its_command_and_its_machine(quick):
    done, document, path = quick
    again = bench("--from", path)
    assert again.returncode == 0, again.stderr
    assert document["raw"]["machine"] in again.stdout and "--quick" in again.stdout
    table = [line for line in done.stdout.splitlines() if "m:n-steal" in line and "(" in line]
    assert table and all(line in again.stdout for line in table)


def test_the_result_of_another_benchmark_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"bench": "stack", "raw": {}}')
    done = bench("--from", tmp_path / "other.json")
    assert done.returncode == 125 and "tek bench stack" in done.stderr


def test_short_runs_do_not_pass_an_assertion():
    done = bench("--quick", "--no-figures", "--parts", "streamcluster", "--threads", "2",
                 "--assert")
    assert done.returncode == 1 and "rounds of streamcluster" in done.stderr
