# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tek bench`: short runs of the real benchmarks. These tests do not judge the measurements."""
import json
import os
import shutil
import signal
import subprocess
import xml.etree.ElementTree

import pytest
from conftest import BUILD, children_of, eventually

pytestmark = pytest.mark.spread
many_threads = pytest.mark.alone("thread ids")  # of which there are 32768

VARIANTS = ["alone", "alone-2", "conventional", "nice-20", "chrt-rr", "hogs-idle", "tek-name",
            "tek-api"]


def bench(*args, program=BUILD / "bin" / "tek"):
    return subprocess.run([program, "bench", *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)


def document_of(tmp_path, *args):
    path = tmp_path / "result.json"
    done = bench(*args, "--json", str(path))
    assert done.returncode == 0, done.stderr
    return done, json.loads(path.read_text())


def judged_of(directory, *args):
    """The same of a run with --assert, whatever its verdict is."""
    path = directory / "result.json"
    done = bench(*args, "--assert", "--json", path)
    return done, json.loads(path.read_text())


@pytest.mark.parametrize("name", ["response", "observe", "ident", "stack", "device", "kthread",
                                  "matrix"])
def test_a_file_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path, name):
    path = tmp_path / "no" / "result.json"
    done = bench(name, "--json", path)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"tek: cannot write {path}: No such file or directory" in done.stderr


def test_the_file_is_written_even_if_the_output_is_not_read_on(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("an earlier result")
    least = ["--rounds", "1", "--events", "1", "--variants", "alone"]
    command = [BUILD / "bin" / "tek", "bench", "response", *least, "--json", path]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=60) == 0
    assert json.loads(path.read_text())["bench"] == "response"


def test_a_signal_ends_the_rounds_early_and_the_runs_until_then_are_reported(tmp_path):
    path, runs = tmp_path / "result.json", set()
    command = [BUILD / "bin" / "tek", "bench", "response", "--rounds", "1000", "--events", "1",
               "--variants", "alone", "--json", path]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as running:
        # The first child finds out how fast the machine is; the next ones are runs.
        eventually(lambda: runs.update(children_of(running.pid)) or len(runs) > 3)
        running.terminate()
        assert "SIGTERM ended it early" in running.communicate(timeout=120)[0]
    assert running.returncode == 128 + signal.SIGTERM
    document = json.loads(path.read_text())
    assert document["ended_by"] == "SIGTERM" and document["raw"]["alone"]


@pytest.fixture(scope="module")
def response(tmp_path_factory):
    """One run of all variants: (its result, its document)."""
    return judged_of(tmp_path_factory.mktemp("response"), "response", "--rounds", "1", "--events",
                     "1")


def test_every_variant_is_measured_or_named_with_the_reason(response):
    done, document = response
    measured = [row["variant"] for row in document["rows"] if row["metric"] == "response"]
    not_run = [entry["variant"] for entry in document["not_run"]]
    assert sorted(measured + not_run) == sorted(VARIANTS)
    assert all(entry["reason"] for entry in document["not_run"])
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)
    if os.geteuid() == 0:
        assert not not_run


def test_a_brief_report_ends_with_what_was_won_and_judges_nothing():
    done = bench("response", "--rounds", "1", "--events", "2", "--variants",
                 "alone,conventional,tek-name", "--brief")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    result = "touch to picture beside 20 busy threads: "
    assert last.startswith(result) or "TEK was not measured" in last
    assert "mean response" in done.stdout and "must be" not in done.stdout
    assert "time of a switch" not in done.stdout


def test_the_plot_has_a_bar_for_each_variant_that_ran(tmp_path):
    path = tmp_path / "plot.svg"
    done = bench("response", "--rounds", "1", "--events", "1", "--variants", "alone,conventional",
                 "--svg", path)
    assert done.returncode == 0, done.stderr
    svg = xml.etree.ElementTree.parse(path).getroot()
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "stock Linux" in texts and "alone on the device" in texts, texts
    assert "nice -20" not in texts, texts


def test_a_plot_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path):
    path = tmp_path / "no" / "plot.svg"
    done = bench("response", "--svg", path)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"tek: cannot write {path}: No such file or directory" in done.stderr


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


def test_assert_fails_with_a_message_where_too_little_was_measured(response):
    done, _ = response
    assert done.returncode == 1
    assert "--assert: the bars ask for 9 rounds and 200 events" in done.stderr


def test_observe_measures_delays_and_shares(tmp_path):
    _, document = document_of(tmp_path, "observe", "--seconds", "2", "--rounds", "1",
                              "--share-seconds", "1")
    if os.geteuid() == 0:
        assert [len(document["raw"][name]) for name in ("conventional", "tek-name")] == [1, 1]
    metrics = {row["metric"] for row in document["rows"]}
    assert metrics == {"delay under contention", "share of one CPU"}
    shares = [row["value"] for row in document["rows"] if row["variant"] == "measured"]
    assert sum(shares) == pytest.approx(100)


@pytest.fixture(scope="module")
def ident(tmp_path_factory):
    return judged_of(tmp_path_factory.mktemp("ident"), "ident", "--quick", "--threads", "200")


def test_ident_measures_every_call_and_judges_it(ident):
    done, document = ident
    metrics = {row["metric"] for row in document["rows"] if row["case"] != "must show"}
    assert metrics == {"time of a call", "snapshot", "time of a thread's creation and join",
                       "added to glibc's, median", "memory of a thread", "time of tek ps"}
    times = {row["variant"]: row["p50"] for row in document["rows"] if row["case"] == "call"}
    assert 0 < times["empty loop"] < times["gettid, system call"] < times["read /proc stat"]
    judged = [row for row in document["rows"] if row["case"] == "must show"]
    assert done.stdout.count(" PASS") + done.stdout.count(" short") == len(judged) == 13
    record, = [row for row in judged if row["metric"] == "memory of a thread's record"]
    assert record["value"] == 40


def test_ident_asks_for_11_rounds(ident):
    done, _ = ident
    assert done.returncode == 1
    assert "--assert: the bars ask for 11 rounds" in done.stderr


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """One run for all: (its result, its document, the default directory of profiles)."""
    directory = tmp_path_factory.mktemp("stack")
    result, state = directory / "result.json", directory / "state"
    command = [BUILD / "bin" / "tek", "bench", "stack", "--quick", "--days", "3", "--hour-ms", "0",
               "--assert",
               "--json", result]
    done = subprocess.run(command, env={**os.environ, "XDG_STATE_HOME": str(state)},
                          stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
    return done, json.loads(result.read_text()), state


@many_threads
def test_stack_compares_conventional_stacks_with_what_is_used(stack):
    done, document, _ = stack
    rows = {(row["case"], row["variant"], row["metric"]): row["value"] for row in document["rows"]}
    at_once = "273 threads at once"
    assert rows[at_once, "8 MiB", "used of stacks"] == 50828
    assert rows[at_once, "8 MiB", "allocated by used"] == pytest.approx(44, abs=0.1)
    assert rows["RLIMIT_AS 1 GiB", "8 MiB", "running threads"] == pytest.approx(127, abs=3)
    assert rows["RLIMIT_AS 1 GiB", "8 MiB", "failed of 2,000 creations"] == pytest.approx(1873,
                                                                                          abs=3)
    assert done.stdout.count(" PASS") + done.stdout.count(" short") == 10


@many_threads
def test_stack_measures_tek_or_reports_why_not(stack):
    done, document, _ = stack
    not_run = {entry["variant"]: entry["reason"] for entry in document["not_run"]}
    needs_more = ("stackusage", "32 bits", "mlockall")
    assert not {name: why for name, why in not_run.items()
                if not any(it in name for it in needs_more)}
    assert all(f"NOT RUN {name}" in done.stdout for name in not_run)


@many_threads
def test_stack_learns_nothing_into_the_profiles_of_the_machine(stack):
    assert not stack[2].exists()


@many_threads
def test_stack_asks_for_as_many_runs_as_the_bars_do(stack):
    done, _, _ = stack
    assert done.returncode == 1
    assert "--assert: the bars ask for 50 runs in tight mode" in done.stderr


def test_without_its_programs_it_reports_where_it_searched(tmp_path):
    lonely = tmp_path / "bin" / "tek"
    lonely.parent.mkdir()
    for program in ("tek", "tek-bench"):
        shutil.copy(BUILD / "bin" / program, lonely.with_name(program))
    done = bench("response", program=lonely)
    assert done.returncode == 125
    assert "libexec/tek/appliance" in done.stderr


def test_without_its_program_tek_names_it_with_a_cure(tmp_path):
    tek = tmp_path / "build" / "bin" / "tek"
    tek.parent.mkdir(parents=True)
    shutil.copy(BUILD / "bin" / "tek", tek)

    def error_of(*words):
        done = subprocess.run([tek, *words], env={"PATH": "/nowhere"}, capture_output=True,
                              text=True, timeout=60, check=False)
        assert done.returncode == 125
        return done.stderr

    for command in (("bench", "--help"), ("help", "bench", "response")):
        assert f"tek-bench, which is neither in {tek.parent} nor in PATH: " in error_of(*command)
    (tmp_path / "crates" / "tek-command").mkdir(parents=True)
    assert error_of("lab").endswith(f" in PATH: make -C {tmp_path} build\n")


def test_its_program_is_found_in_path_with_all_words(tmp_path):
    tek, other = tmp_path / "tek", tmp_path / "bin" / "tek-bench"
    shutil.copy(BUILD / "bin" / "tek", tek)
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nprintf '%s.' \"$@\"\nexit 7\n")
    other.chmod(0o755)
    done = subprocess.run([tek, "bench", "--", "-h", "", "a b"], env={"PATH": other.parent},
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (7, "--.-h..a b.")


@pytest.mark.parametrize("args",
                         [("response", "--variants", "fastest"), ("response", "--rounds", "0"),
                          ("observe", "--seconds", "1"), ("ident", "--threads", "1"),
                          ("stack", "--days", "2"), ("device", "--parts", "kills"),
                          ("kthread", "--parts", "pdflash"), ()])
def test_nonsense_is_refused(args):
    assert bench(*args).returncode == 2
