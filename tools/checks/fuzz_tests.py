"""The fuzzers of tests/fuzz, each for a few seconds: libFuzzer with the sanitizers."""

import re
from pathlib import Path
from shutil import which

from .process import BUILD_SILENCE, Context, run, side_by_side
from .results import Case, failed, passed, skipped

SECONDS = 10
COMPILE = ["clang", "-g", "-O1", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
           "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
           "-Iabi", "-Iinclude", "-Ilib"]
# A fuzzer names the files that it tests by the headers of lib/ that it includes.
INCLUDE = re.compile(r'^#include "(\w+/\w+)\.h"$', re.MULTILINE)


def fuzzers(context: Context) -> list[Case]:
    """Each has one thread, and its time counts while others run, too."""
    return side_by_side(lambda source: _fuzz(context, source), _sources(context))


def build(context: Context) -> None:
    for source in _sources(context):
        _program(context, source)


def _sources(context: Context) -> list[Path]:
    return sorted((context.top / "tests/fuzz").glob("fuzz_*.c"))


def _program(context: Context, source: Path) -> Path | Case:
    """The program of a fuzzer, built if it is not there; or why there is none."""
    name, program = source.stem, context.logs / source.stem
    if not which("clang"):
        return skipped(name, "clang is missing (Debian's clang)")
    if program.exists():
        return program
    tested = [f"lib/{part}.c" for part in INCLUDE.findall(source.read_text())]
    built = run(context, f"fuzz-{name}",
                [*COMPILE, str(source), *tested, "-o", str(program)], BUILD_SILENCE)
    return failed(name, f"does not build: {built.how}", built.log) if built.status else program


def _fuzz(context: Context, source: Path) -> Case:
    name, log = source.stem, f"fuzz-{source.stem}"
    program = _program(context, source)
    if isinstance(program, Case):
        return program
    finished = run(context, log, [str(program), f"-max_total_time={SECONDS}", "-print_final_stats=1",
                                     f"-artifact_prefix={context.logs}/{name}-"])
    if finished.status:
        return failed(name, finished.how, finished.log)
    return passed(name)
