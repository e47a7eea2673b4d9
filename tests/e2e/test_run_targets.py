# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that TEK cannot ride in are named, and run unharmed."""
import os
import shutil

import pytest

HELLO = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	const char *preload = getenv("LD_PRELOAD");
	puts(preload && *preload ? "preload" : "no preload");
	return 7;
}
"""


def not_covered(program, reason):
    return f"tek: {program} {reason}: it runs, but not under TEK\n"


CASES = {
    "static": (["cc", "-static"], "is statically linked", "preload"),
    "static-pie": (["cc", "-static-pie"], "is statically linked", "preload"),
    "musl": (["musl-gcc"], "is for another C library", "no preload"),
    "32-bit": (["cc", "-m32"], "is of another word size", "no preload"),
    "asan": (["cc", "-fsanitize=address"], "is built with AddressSanitizer", "no preload"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_program_that_cannot_be_covered_is_named_and_runs(tek, compile_c, case):
    compiler, reason, preload = CASES[case]
    program = compile_c(HELLO, *compiler)
    ended = tek("run", program)
    assert (ended.returncode, ended.stdout) == (7, preload + "\n")
    assert ended.stderr == not_covered(program, reason)


@pytest.mark.parametrize("case", CASES)
def test_a_child_that_cannot_be_covered_is_named_and_runs(tek, compile_c, case):
    compiler, reason, _ = CASES[case]
    program = compile_c(HELLO, *compiler)
    ended = tek("run", "sh", "-c", f"{program}; echo $?")
    assert ended.stdout.endswith("7\n")
    assert ended.stderr == not_covered(program, reason)


def test_an_ordinary_program_is_covered_without_a_word(tek, compile_c):
    ended = tek("run", compile_c(HELLO, "cc"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "preload\n", "")


def test_a_script_is_judged_by_its_interpreter(tek, compile_c, tmp_path):
    interpreter = compile_c(HELLO, "cc", "-static")
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text(f"#!{interpreter}\n")
    outer.write_text(f"#! {inner} argument\n")
    inner.chmod(0o755)
    outer.chmod(0o755)
    ended = tek("run", outer)
    assert ended.returncode == 7
    assert ended.stderr == not_covered(outer, "is statically linked")


@pytest.fixture
def gaining(compile_c):
    """A program whose file can give privileges."""
    program = compile_c(HELLO, "cc")
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"{program.parent} is mounted nosuid")
    return program


def test_a_set_user_id_program_is_named(tek, gaining, as_nobody):
    program = gaining
    program.chmod(0o4755)
    ended = tek("run", program, prefix=as_nobody)
    assert ended.stderr == not_covered(program, "is set-user-id")
    assert ended.returncode == 7


def test_a_program_with_file_capabilities_is_named(tek, gaining, as_nobody):
    if shutil.which("setcap") is None:
        pytest.skip("setcap is not installed")
    program = gaining
    assert os.system(f"setcap cap_net_raw+ep {program}") == 0
    # The bounding set would keep the kernel from running it at all.
    prefix = [word for word in as_nobody if not word.startswith("--bounding-set")]
    ended = tek("run", program, prefix=prefix)
    assert ended.stderr == not_covered(program, "has file capabilities")
    assert ended.returncode == 7
