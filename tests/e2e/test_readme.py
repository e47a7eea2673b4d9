# SPDX-License-Identifier: MIT OR Apache-2.0
"""README's commands, as a reader would paste them."""
import re
import subprocess

import pytest
from conftest import BUILD

pytestmark = pytest.mark.spread
loads_every_cpu = pytest.mark.alone()

TOP = BUILD.parent
README = TOP / "README.md"


def block_with(command):
    """The one block of commands in README that contains this."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    found, = [block for language, block in blocks if not language and command in block]
    return found


@pytest.fixture
def paste(tmp_path, monkeypatch):
    """Runs lines in a directory with links to the tree, and returns their output."""
    if not README.exists() or BUILD.name != "build":
        pytest.skip("the build is not in the tree that README.md is of")
    for name in ("build", "examples", "include"):
        (tmp_path / name).symlink_to(TOP / name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(lines):
        done = subprocess.run(["bash", "-e", "-c", lines], cwd=tmp_path, stdin=subprocess.DEVNULL,
                              text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.fixture
def real_time():
    if subprocess.run(["chrt", "--rr", "1", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs the right to real-time priorities")


@loads_every_cpu
def test_the_first_try_shows_a_gain(paste, real_time):
    # Its load is not to outlive the test.
    output = paste("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + block_with("time gzip"))
    minutes = re.findall(r"^real\s+(\d+)m([\d.]+)s$", output, re.MULTILINE)
    without, under_tek = (60 * int(whole) + float(rest) for whole, rest in minutes)
    assert under_tek < without / 2, output
    assert re.search(r"^tek:  gzip \[\d+\]  gzip", output, re.MULTILINE), output


@loads_every_cpu
def test_the_fridge_answers_sooner_when_its_critical_threads_are_named(paste, real_time):
    output = paste(block_with("--critical 'ui-*'"))
    without, under_tek = map(float, re.findall(r"touch to picture: ([\d.]+) ms on average", output))
    assert under_tek < without / 2, output
    assert {"touch", "ui-draw"} <= set(re.findall(r"\]  ([\w-]+) \[", output)), output


def test_the_rules_that_are_suggested_for_the_fridge_make_it_answer_at_once(
        paste, real_time, tmp_path):
    output = paste(block_with("suggest -o fridge.toml"))
    rules = (tmp_path / "fridge.toml").read_text()
    assert '"touch"' in rules and '"ui-draw"' in rules, rules
    watched, under_tek = map(float, re.findall(r"touch to picture: ([\d.]+) ms on average", output))
    assert under_tek < 3 * watched, f"with all of its load, and the rules: {output}"


def test_what_the_fridge_needs_of_its_stacks_is_learnt_and_told(paste, tmp_path):
    lines = block_with("stack report fridge").splitlines()
    output = paste("\n".join(line for line in lines if "fridge" in line))
    assert re.search(r"ui-draw|draw", output), output
    assert "pthread_attr_setstacksize" in (tmp_path / "stacks.h").read_text()


def test_the_program_that_uses_tek_is_compiled_and_linked(paste, real_time):
    from_the_tree, _ = block_with("cc -Iinclude").splitlines()
    assert paste(f"{from_the_tree}\n./critical") == "time-critical\n"


def test_each_program_that_readme_runs_from_the_build_is_built():
    named = set(re.findall(r"\bbuild/(?:bin|bench|examples)/[\w/-]*\w", README.read_text()))
    assert "build/examples/fridge" in named
    assert [name for name in sorted(named) if not (TOP / name).exists()] == []
