# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/cross builds for other processors without warnings, and the engine's tests pass: those for
i386 on a PC itself, the other ones by qemu-user."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[3]
LIBRARIES = {"libtek.so", "libtek-alloc.so", "libtek-libm-musl.so", "libtek-profile.so",
             "libtek-rtfifo.so", "libtek-sync.so", "libtek-sync-native.so",
             "libtek-uthread-native.so"}
MACHINES = {"aarch64": (2, 183), "armhf": (1, 40), "i386": (1, 3)}  # ELF headers: class, machine
EMULATORS = {"aarch64": "qemu-aarch64", "armhf": "qemu-arm"}
# Tests of the engine of user-level threads, which has code for each processor. The lab's machines
# run the other tests.
TESTS = ["uthread_barrier", "uthread_cond", "uthread_context", "uthread_engine", "uthread_join",
         "uthread_key", "uthread_mutex", "uthread_once", "uthread_rwlock", "uthread_sem",
         "uthread_zones"]
# Built where user-level threads have thread-local storage of their own.
OWN_STORAGE = ["uthread_process", "uthread_tls", "uthread_tls_calls"]


@pytest.fixture(scope="module", params=MACHINES)
def built(request):
    """The processor, the build directory of tools/cross, and the lines that it printed."""
    directory = TOP / "build" / request.param
    done = subprocess.run([TOP / "tools/cross", request.param], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=1800)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 77:
        pytest.skip(lines[-1])
    assert done.returncode == 0, "\n".join(lines[-40:])
    return request.param, directory, lines


def test_every_library_and_program_is_built_and_the_compilers_warn_of_nothing(built):
    processor, directory, lines = built
    wanted = {directory / "lib" / name for name in LIBRARIES}
    if processor == "i386":
        wanted.remove(directory / "lib" / "libtek-libm-musl.so")
    elif processor == "aarch64":  # it needs to know the C library's thread-local storage
        wanted.add(directory / "lib" / "libtek-uthread.so")
    if processor != "i386":
        wanted |= {directory / "bin" / "tek", directory / "bin" / "tekd"}
    for file in wanted:
        header = file.read_bytes()[:20]
        assert (header[4], int.from_bytes(header[18:20], "little")) == MACHINES[processor], file
    assert not [line for line in lines if re.search(r"\bwarning\b", line, re.I)]


def test_the_libraries_resolve_no_name_that_a_program_may_define(built):
    _, directory, _ = built
    test = TOP / "tests/e2e/ps/test_names.py"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-k", "resolves_no_name", test],
                          env={**os.environ, "TEK_BUILD": str(directory)},
                          text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_engines_tests_pass(built):
    processor, directory, _ = built
    if processor == "i386" and os.uname().machine != "x86_64":
        pytest.skip("no PC: qemu-i386 mixes up the thread-local storage of threads")
    emulator = EMULATORS.get(processor)
    if emulator and not (shutil.which(emulator) or shutil.which(emulator + "-static")):
        pytest.skip(f"{emulator} is missing (Debian's qemu-user)")
    tests = json.loads((directory / "meson-info/intro-tests.json").read_text())
    known = {test["name"] for test in tests}
    names = [name for name in TESTS + OWN_STORAGE if name in known]
    assert set(TESTS) <= set(names)
    done = subprocess.run(["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs",
                           "--num-processes", "1", *names],
                          text=True, capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-4000:]
