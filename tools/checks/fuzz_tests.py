"""The fuzzers of tests/fuzz: libFuzzer with the sanitizers, from the inputs in tests/fuzz/corpus.

As a program, `python3 -m checks.fuzz_tests SECONDS` in tools: runs each fuzzer that long, then
keeps the fewest inputs that cover as much code.
"""

import base64
import os
import re
import shutil
import sys
from pathlib import Path
from shutil import which

from .process import BUILD_SILENCE, Context, run, side_by_side
from .results import Case, failed, passed, skipped

# How long each fuzzer runs after the inputs of the corpus.  TEK_FUZZ_SECONDS overrides it.
SECONDS = 3
CLANG = ["clang", "-g1", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
COMPILE = [*CLANG, "-fsanitize=fuzzer-no-link", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra",
           "-Werror", "-Iabi", "-Iinclude", "-Ilib", "-c"]
LINK = [*CLANG, "-fsanitize=fuzzer"]
# A fuzzer is linked with the sources of the headers of lib/ that it includes.
INCLUDE = re.compile(r'^#include "(\w+/\w+)\.h"$', re.MULTILINE)
CORPUS = "tests/fuzz/corpus"
# Longer inputs are not kept: a fuzzer soon finds their code again.
MOST_HELD = 512  # bytes


def fuzzers(context: Context) -> list[Case]:
    """Runs the fuzzers side by side: each has one thread."""
    build(context)
    return side_by_side(lambda source: _fuzz(context, source), _sources(context))


def build(context: Context) -> None:
    """Compiles each source once, even if several fuzzers test it."""
    if not which("clang"):
        return
    files = {file for source in _sources(context) for file in [source, *_tested(context, source)]}
    side_by_side(lambda file: _object(context, file), sorted(files))
    side_by_side(lambda source: _program(context, source), _sources(context))


def _sources(context: Context) -> list[Path]:
    return sorted((context.top / "tests/fuzz").glob("fuzz_*.c"))


def _tested(context: Context, source: Path) -> list[Path]:
    return [context.top / f"lib/{part}.c" for part in INCLUDE.findall(source.read_text())]


def _directory(context: Context) -> Path:
    return context.logs / "fuzz"


def _object(context: Context, file: Path) -> Path | Case:
    """A file's object, compiled if it is missing; or the failure."""
    name = "-".join(file.relative_to(context.top).with_suffix(".o").parts)
    made = _directory(context) / name
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    built = run(context, f"fuzz-{file.stem}", [*COMPILE, str(file), "-o", str(made)], BUILD_SILENCE)
    return failed(file.stem, f"does not build: {built.how}", built.log) if built.status else made


def _program(context: Context, source: Path) -> Path | Case:
    """The program of a fuzzer, built if it is missing; or the failure."""
    name, program = source.stem, _directory(context) / source.stem
    if not which("clang"):
        return skipped(name, "clang is missing (Debian's clang)")
    if program.exists():
        return program
    objects = [_object(context, file) for file in [source, *_tested(context, source)]]
    for made in objects:
        if isinstance(made, Case):
            return failed(name, made.reason, made.log)
    built = run(context, f"fuzz-{name}", [*LINK, *map(str, objects), "-o", str(program)],
                BUILD_SILENCE)
    return failed(name, f"does not build: {built.how}", built.log) if built.status else program


def _held(context: Context, name: str) -> Path:
    return context.top / CORPUS / f"{name}.txt"


def _inputs(context: Context, name: str) -> Path:
    """A directory with the fuzzer's inputs, which the corpus has as lines in base64."""
    directory = _directory(context) / f"{name}-inputs"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    held = _held(context, name)
    for number, line in enumerate(held.read_text().splitlines() if held.exists() else []):
        (directory / f"kept-{number:04}").write_bytes(base64.b64decode(line, validate=True))
    return directory


def _fuzz(context: Context, source: Path) -> Case:
    name, log = source.stem, f"fuzz-{source.stem}"
    program = _program(context, source)
    if isinstance(program, Case):
        return program
    seconds = os.environ.get("TEK_FUZZ_SECONDS", SECONDS)
    finished = run(context, log, [
        str(program), f"-max_total_time={seconds}", "-print_final_stats=1",
        f"-artifact_prefix={context.logs}/{name}-", str(_inputs(context, name))])
    if finished.status:
        return failed(name, finished.how, finished.log)
    return passed(name)


def _keep(context: Context, source: Path) -> Case:
    """Fuzz, then replace the corpus by the fewest inputs that cover as much code."""
    name = source.stem
    case = _fuzz(context, source)
    if case.log or not _directory(context).joinpath(name).exists():
        return case
    fewest = _directory(context) / f"{name}-fewest"
    shutil.rmtree(fewest, ignore_errors=True)
    fewest.mkdir()
    merged = run(context, f"fuzz-{name}", [str(_directory(context) / name), "-merge=1", str(fewest),
                                           str(_directory(context) / f"{name}-inputs")])
    if merged.status:
        return failed(name, merged.how, merged.log)
    found = (file.read_bytes() for file in fewest.iterdir())
    inputs = sorted((text for text in found if len(text) <= MOST_HELD),
                    key=lambda text: (len(text), text))
    lines = [f"{base64.b64encode(text).decode()}\n" for text in inputs]
    _held(context, name).parent.mkdir(exist_ok=True)
    _held(context, name).write_text("".join(lines))
    return case


def main() -> None:
    os.environ["TEK_FUZZ_SECONDS"] = sys.argv[1]
    top = Path(__file__).resolve().parents[2]
    context = Context(top, top / "build", verbose=False)
    shutil.rmtree(_directory(context), ignore_errors=True)  # programs of older sources
    build(context)
    for case in side_by_side(lambda source: _keep(context, source), _sources(context)):
        print(f"{case.name}: {case.outcome.value} {case.reason}")


if __name__ == "__main__":
    main()
