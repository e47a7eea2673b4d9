# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs of examples/: each is built, runs, and is listed in their README."""
import re
import subprocess

import pytest
from conftest import BUILD

pytestmark = pytest.mark.spread

EXAMPLES = BUILD / "examples"
SOURCES = BUILD.parent / "examples"
TEK = BUILD / "bin" / "tek"


def run(*command):
    done = subprocess.run([*map(str, command)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def real_time():
    if subprocess.run(["chrt", "--rr", "1", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs the right to real-time priorities")


@pytest.mark.parametrize("program, prints", [
    ("critical", "time-critical\n"), ("scope", "critical for one block\n")])
def test_a_program_that_asks_for_it_is_critical(program, prints, real_time):
    assert run(EXAMPLES / program) == (0, prints, "")


def test_a_program_that_can_use_tek_runs_with_it_and_without():
    assert run(EXAMPLES / "optional") == (0, "without TEK\n", "")
    status, output, _ = run(TEK, "run", "--", EXAMPLES / "optional")
    assert (status, output) == (0, "with TEK\n")


def test_a_thousand_user_level_threads_add_their_numbers():
    assert run(EXAMPLES / "uthreads") == (0, "sum of 1000 threads: 499500\n", "")


@pytest.mark.parametrize("kind", ["auto", "park", "futex"])
def test_two_threads_count_under_a_lock_of_each_kind(kind):
    assert run(EXAMPLES / "lock", kind) == (0, f"{kind}: counted to 200000\n", "")


def test_a_lock_of_an_unknown_kind_is_refused():
    assert run(EXAMPLES / "lock", "none") == (2, "", "lock: there is no kind none\n")


def test_the_fridge_reports_its_answer_time():
    status, output, _ = run(EXAMPLES / "fridge", 1, 0)
    assert status == 0 and re.search(r"^\d+ touches; touch to picture: [\d.]+ ms", output), output


def test_each_example_is_listed_and_built():
    if not SOURCES.exists():
        pytest.skip("the build is not in the tree that the examples are of")
    listed = re.findall(r"^\| \[([\w.]+)\]", (SOURCES / "README.md").read_text(), re.MULTILINE)
    sources = [path for path in SOURCES.iterdir() if path.suffix in (".c", ".cpp")]
    assert sorted(listed) == sorted(path.name for path in sources)
    assert [path.stem for path in sources if not (EXAMPLES / path.stem).exists()] == []
