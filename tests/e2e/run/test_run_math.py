# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek run --libm: unmodified programs compute with other mathematical functions."""
import os
import pathlib
import re
import subprocess

import pytest
from test_run_alloc import TEK, maps_of, outcome, plain

pytestmark = pytest.mark.spread

SINE = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	double x = atof(argv[argc - 1]);
	printf("%.12g %.12g %.12g %.12g\n", sin(x), exp(x), pow(x, 2.3), log(x));
	FILE *maps = fopen("/proc/self/maps", "r");
	for (int c; (c = getc(maps)) != EOF;)
		putchar(c);
}
"""


@pytest.fixture(scope="session")
def sine(tmp_path_factory):
    program = tmp_path_factory.mktemp("sine") / "sine"
    source = program.with_suffix(".c")
    source.write_text(SINE)
    subprocess.run(["cc", "-O1", "-fno-builtin", source, "-o", program, "-lm"], check=True,
                   timeout=60)
    return program


def bound(options, program):
    """The file of each mathematical function of a program, by the loader's messages."""
    environment = {**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    _, out, err = outcome([TEK, "run", *options, "--", program, "1.25"], env=environment, text=True)
    pattern = (rf"binding file {re.escape(str(program))} \[0\] to (\S+) \[0\]: "
               r"normal symbol `(sin|exp|pow|log)'")
    return out.splitlines()[0], {pathlib.Path(file).name for file, _ in re.findall(pattern, err)}


def test_a_program_computes_with_the_functions_of_musl(sine, open_build):
    expected, files = bound(["--libm", "glibc"], sine)
    assert files == {"libm.so.6"}
    if not (open_build / "lib" / "libtek-libm-musl.so").exists():
        status, _, err = outcome([TEK, "run", "--libm", "musl", "--", "true"], text=True)
        assert status == 2 and "musl-dev" in err
        pytest.skip("libtek-libm-musl.so is not built (musl-dev)")
    assert bound(["--libm", "musl"], sine) == (expected, {"libtek-libm-musl.so"})


def test_a_program_computes_with_the_functions_in_a_file(sine, compile_c):
    library = compile_c("double sin(double x) { return x * 0 + 42; }", "cc", "-shared", "-fPIC")
    first, files = bound(["--libm", str(library)], sine)
    assert first.split()[0] == "42" and library.name in files


def test_a_run_inside_a_run_can_take_the_functions_of_the_c_library_again(sine, compile_c):
    library = compile_c("double sin(double x) { return x * 0 + 42; }", "cc", "-shared", "-fPIC")
    within = ["--libm", str(library), "--", TEK, "run"]
    assert bound(within, sine)[0].split()[0] == "42"
    plain, _ = bound([], sine)
    again, files = bound([*within, "--libm", "glibc"], sine)
    assert again == plain and library.name not in files


def test_a_program_of_another_word_size_goes_without_them(tek, compile_c):
    library = compile_c("double sin(double x) { return x * 0 + 42; }", "cc", "-shared", "-fPIC")
    program = compile_c('#include <stdio.h>\nint main(void) { puts("ran"); }', "cc", "-m32")
    ran = tek("run", "--no-rules", "--libm", library, "--", "sh", "-c", f"{program}; true")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert "ld.so" not in ran.stderr, ran.stderr


def test_a_library_without_mathematics_is_named(tek, compile_c):
    library = compile_c("int none(void) { return 0; }", "gcc", "-shared", "-fPIC")
    ran = tek("run", "--libm", library, "echo", "ran")
    assert (ran.stdout == "ran\n"
            and "there is no sin, cos, exp, log, pow or sqrt in it" in ran.stderr)


@pytest.mark.parametrize("wrong",
                         ["newlib", "libm.so", "/nonexistent/libm.so", "/etc/passwd", "libc"])
def test_what_cannot_be_a_mathematical_library_is_refused_with_a_reason(tek, wrong):
    if wrong == "libc":
        wrong = re.search(r"(/\S+/libc\.so\.6)$", maps_of(), re.MULTILINE)[1]
    refused = tek("run", "--libm", wrong, "--", "echo", "ran")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert wrong in refused.stderr
