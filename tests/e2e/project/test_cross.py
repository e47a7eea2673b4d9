# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/cross, which builds for other processors: its messages if something is missing."""
import os
import shutil
import subprocess

import pytest

from paths import TOP

NEEDED = ["bash", "dirname", "cat", "clang", "clang++", "ld.lld", "llvm-ar"]


@pytest.fixture
def commands(tmp_path):
    """A directory with the programs that it runs first, to be the only one in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in NEEDED:
        (directory / name).symlink_to(shutil.which(name) or "/bin/false")
    return directory


def cross(path, *arguments, top=TOP):
    return subprocess.run([top / "tools/cross", *arguments], env={**os.environ, "PATH": str(path)},
                          text=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("processor", ["aarch64", "armhf"])
@pytest.mark.parametrize("name", ["clang", "ld.lld", "llvm-ar"])
def test_a_missing_program_is_named_with_what_installs_it(commands, name, processor):
    (commands / name).unlink()
    done = cross(commands, processor)
    assert done.returncode == 77  # the tests of that machine count as skipped
    assert done.stderr == f"{name} is missing; run tools/setup lab to install it.\n"


def test_a_tree_that_was_not_built_is_to_be_built_first(commands, tmp_path):
    shutil.copytree(TOP / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("checks"))
    done = cross(commands, "aarch64", top=tmp_path)
    assert done.returncode == 1
    assert "run make build, or give --sysroot" in done.stderr


@pytest.mark.parametrize("arguments", [
    [], ["mips"], ["aarch64", "extra"], ["aarch64", "--sysroot"], ["armhf", "--sysroot", "a", "b"],
])
def test_what_is_not_understood_is_answered_with_the_usage(commands, arguments):
    done = cross(commands, *arguments)
    assert done.returncode == 1
    assert done.stderr == "usage: tools/cross aarch64|armhf|i386 [--sysroot DIRECTORY]\n"


def test_a_directory_that_is_no_root_of_a_device_is_refused(commands, tmp_path):
    for arguments in (["aarch64", "--sysroot", tmp_path],
                      ["armhf", "--sysroot", tmp_path / "none"]):
        done = cross(commands, *arguments)
        assert done.returncode == 1
        assert f"{arguments[-1]}: there is no usr/include/stdio.h below it" in done.stderr
