# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/board, which builds for the lab's board: what it says where something is missing."""
import os
import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ["bash", "dirname", "cat", "clang", "clang++", "ld.lld", "llvm-ar"]


@pytest.fixture
def commands(tmp_path):
    """A directory with the programs that it begins with, to be the only one in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in NEEDED:
        (directory / name).symlink_to(shutil.which(name) or "/bin/false")
    return directory


def board(path, top=TOP):
    return subprocess.run([top / "tools/board"], env={**os.environ, "PATH": str(path)}, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("name", ["clang", "ld.lld", "llvm-ar"])
def test_a_missing_program_is_named_with_what_installs_it(commands, name):
    (commands / name).unlink()
    done = board(commands)
    assert done.returncode == 77  # the board's tests count as skipped
    assert done.stderr == f"{name} is missing; run tools/setup lab to install it.\n"


def test_a_tree_that_was_not_built_is_to_be_built_first(commands, tmp_path):
    shutil.copytree(TOP / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("checks"))
    done = board(commands, tmp_path)
    assert done.returncode == 1
    assert "run make build" in done.stderr
