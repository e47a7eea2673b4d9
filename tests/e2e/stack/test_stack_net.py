# SPDX-License-Identifier: MIT OR Apache-2.0
"""A thread that needs more than the stack that TEK fitted for it."""
import os
import pathlib
import re
import resource
import signal
import subprocess

import pytest

from paths import PROGRAMS

ENDED = ("ended\n", 3)
SEGFAULT = ("", -signal.SIGSEGV)


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c((PROGRAMS / "stack_depth.c").read_text(), "gcc", "-O1", "-pthread")


@pytest.fixture
def run(tek, program, tmp_path):
    """Has the thread recurse so many KiB deep; returns the result, and tek's messages."""
    def run(kib, what="", stack="auto", **options):
        ended = tek("run", "--no-rules", "--stack", stack, "--stack-profiles",
                    tmp_path / "profiles",
                    "--role", "gas=gas detection", "--", program, kib, what, **options)
        return (ended.stdout, ended.returncode), ended.stderr

    return run


@pytest.fixture
def shallow(run):
    """A first run, after which the profile has this little use."""
    assert run(1)[0] == ENDED


def learnt(tmp_path):
    """The maximum of each number in the profile."""
    text, = [file.read_text() for file in (tmp_path / "profiles").glob("*.stack")]
    names = ("bound", "overflow", "overflows")
    return {name: max(map(int, re.findall(rf" {name}=(\d+)", text))) for name in names}


def line_of_overflow(tmp_path):
    text, = [file.read_text() for file in (tmp_path / "profiles").glob("*.stack")]
    line, = [line for line in text.splitlines() if line.startswith("kind ")
             and " overflow=0 " not in line]
    return line


def size_info(stderr):
    return int(float(re.search(r"ran out of its stack of ([\d.]+)K", stderr).group(1)) * 1024)


def test_an_overflow_is_reported_kills_as_ever_and_happens_once(run, shallow, tmp_path):
    outcome, info = run(100)
    assert outcome == SEGFAULT
    assert re.search(r"thread gas \(gas detection\) \[\d+\] of program\d+ \[\d+\] ran out of its "
                     r"stack of "
                     r"[\d.]+K, which TEK chose", info), info
    assert re.search(r"\] runs detect_gas$", info, re.M), info
    assert re.search(r"#\d dig\+0x\w+, then \d+ more frames$", info, re.M), info
    assert re.search(r"#\d detect_gas\+0x\w+$", info, re.M), info
    # Without the role where it was killed while its record was being written.
    assert re.search(r" label=(role:gas%20detection|-) ", line_of_overflow(tmp_path))
    known = learnt(tmp_path)
    assert known["overflows"] == 1 and known["overflow"] == size_info(info) < 100 << 10
    for kib in (100, 1, 100):  # less use does not shrink it again
        outcome, info = run(kib)
        assert outcome == ENDED and "ran out" not in info
    assert learnt(tmp_path)["overflow"] == known["overflow"]


def test_after_one_overflow_a_kind_has_what_it_had_without_tek(run, shallow):
    outcome, info = run(1000)
    assert outcome == SEGFAULT and size_info(info) < 100 * 1024
    assert run(1000)[0] == ENDED


def test_the_programs_handler_runs_on_its_own_signal_stack_after_the_report(run, shallow):
    outcome, info = run(100, "catch")
    assert outcome == ("on its own stack\n", -signal.SIGSEGV)
    assert info.count("ran out of its stack") == 1


def test_a_handler_that_jumps_out_recovers(run, shallow, tmp_path):
    outcome, info = run(100, "jump")
    assert outcome == ("on its own stack\nrecovered\nended\n", 3)
    assert info.count("ran out of its stack") == 1
    assert learnt(tmp_path)["overflow"] > 0
    assert run(100, "jump")[0] == ENDED


def test_a_stray_access_below_the_stack_is_no_overflow(run, shallow, tmp_path):
    for _ in range(2):
        outcome, info = run(1, "touch")
        assert outcome == SEGFAULT
        assert "ran out" not in info
    assert learnt(tmp_path)["overflow"] == 0


def cores_of(command, directory):
    """Core dumps of a command and of the processes that it starts."""
    directory.mkdir()
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   timeout=60,
                   check=False,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 28, 1 << 28)))
    return len([name for name in os.listdir(directory) if name.startswith("core")])


def test_a_core_is_dumped_as_without(open_build, program, run, shallow, tmp_path):
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if resource.getrlimit(resource.RLIMIT_CORE)[1] not in (
            resource.RLIM_INFINITY,) and os.geteuid() != 0:
        pytest.skip("core dumps are not allowed")
    if not pattern.startswith("core"):
        pytest.skip(f"core dumps go to {pattern}")
    tuned = [open_build / "bin" / "tek", "run", "--no-rules", "--stack", "auto", "--stack-profiles",
             tmp_path / "profiles", "--"]
    assert cores_of([program, "1", "touch"], tmp_path / "without") == 1
    assert cores_of([*tuned, program, "100"], tmp_path / "with") == 1


def test_with_grow_a_deeper_thread_survives_and_more_is_learnt(run, shallow, tmp_path):
    before = learnt(tmp_path)
    outcome, info = run(1000, stack="auto,grow")
    assert outcome == ENDED and "ran out" not in info
    after = learnt(tmp_path)
    assert before["bound"] < 64 << 10 and 1000 << 10 <= after["bound"] < 2 << 20
    assert after["overflow"] == 0
    assert run(1000)[0] == ENDED  # fits without a reserve by now


def test_with_grow_a_system_call_into_the_reserve_fails(run, shallow):
    assert run(1000, "read", stack="auto,grow")[0] == ("EFAULT\nended\n", 3)
    assert run(1000, "read", stack="report")[0] == ("read\nended\n", 3)


def test_with_grow_what_needs_more_than_the_reserve_is_reported(run, shallow, tmp_path):
    outcome, info = run(9000, stack="auto,grow")
    assert outcome == SEGFAULT
    assert "ran out of its stack of 8.0M" in info and "dig+0x" in info
    assert learnt(tmp_path)["overflow"] == 8 << 20
