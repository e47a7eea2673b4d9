"""Checks of the sources; each counts as one test."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from shutil import which

from . import (clang, language, layers, lengths, names, proc_paths, rust_modules, rust_tests,
               sources, words)
from .process import BUILD_SILENCE, Context, run
from .results import Case, failed, passed, skipped

C_STANDARDS = ("c11", "gnu17")
CXX_STANDARDS = ("c++11", "gnu++17")
SKIPPED = 77  # the exit status of a skipped check of ours; its last line is the reason
STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude"]
# cargo's line for a crate with warnings of the compiler or clippy, now or when it was compiled.
WARNED = re.compile(r"^warning: `[\w-]+` \(.*\) generated \d+ warning", re.MULTILINE)


def build(context: Context) -> None:
    """The checks that compile."""
    _clippy(context)


def style(context: Context) -> list[Case]:
    return [*_layout(context), *_lint(context), *_structure(context),
            *_headers(context), *_man_pages(context)]


def _check(context: Context, name: str, command: list[str], package: str) -> Case:
    if not which(command[0]) and not (context.top / command[0]).exists():
        return skipped(name, f"{command[0]} is missing (Debian's {package})")
    finished = run(context, "style", command, BUILD_SILENCE)
    if finished.status == 0:
        return passed(name)
    if finished.status == SKIPPED and command[0].startswith("tools/"):
        return skipped(name, finished.output.strip().splitlines()[-1])
    return failed(name, f"{finished.how}: {_telling_line(finished.output)}", finished.log)


def _telling_line(output: str) -> str:
    """The first line that speaks of an error, else the first."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or [""]
    return next((line for line in lines if "error" in line.lower()), lines[0])[:160]


def _paths(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths]


def _layout(context: Context) -> list[Case]:
    return [
        _check(context, "layout of C and C++", ["tools/format", "--check", "--only", "c"],
               "clang-format"),
        _cargo(context, "layout of Rust", "fmt", ["--all", "--check"]),
    ]


def _lint(context: Context) -> list[Case]:
    return [
        _clippy(context),
        _check(context, "shellcheck", [
            "shellcheck", "--external-sources", "--source-path=SCRIPTDIR",
            *_paths(sources.shell_scripts(context.top))], "shellcheck"),
    ]


def _cargo(context: Context, name: str, tool: str, arguments: list[str]) -> Case:
    command = ["tools/cargo", tool, *arguments]
    return _without(context, name, tool) or _check(context, name, command, "cargo-web")


def _without(context: Context, name: str, tool: str) -> Case | None:
    if run(context, "style", ["tools/cargo", tool, "--version"]).status == 0:
        return None
    return skipped(name, f"cargo {tool} is missing (a component of your Rust)")


def _clippy(context: Context) -> Case:
    """Clippy compiles the tests (tools/cargo), and cargo repeats its warnings."""
    if missing := _without(context, "clippy", "clippy"):
        return missing
    finished = run(context, "style", rust_tests.BUILD, BUILD_SILENCE)
    return verdict_of_clippy(finished.output, finished.status, finished.how, finished.log)


def verdict_of_clippy(output: str, status: int, how: str, log: Path | None) -> Case:
    if status:
        return failed("clippy", f"{how}: {_telling_line(output)}", log)
    if warned := WARNED.search(output):
        return failed("clippy", warned[0].removeprefix("warning: "), log)
    return passed("clippy")


def _structure(context: Context) -> list[Case]:
    return [_of_lines("layers of lib/", layers.breaches(context.top)),
            _of_lines("names of lib/", names.breaches(context.top)),
            _of_lines("modules of the crates", rust_modules.circles(context.top)),
            _of_lines("comments and lines", language.breaches(context.top)),
            _of_lines("words of names", words.breaches(context.top)),
            _of_lines("lengths of files", lengths.breaches(context.top)),
            _of_lines("paths of tasks in /proc", proc_paths.breaches(context.top)),
            _by_clang(context, "warnings of clang", clang.why_no_warnings, clang.warnings),
            _by_clang(context, "atomics of 32-bit libraries", clang.why_no_atomics,
                      clang.unaligned_atomics)]


def _by_clang(context: Context, name: str, why_not: Callable[[Path], str],
              lines: Callable[[Path], list[str]]) -> Case:
    reason = why_not(context.build)
    return skipped(name, reason) if reason else _of_lines(name, lines(context.build))


def _of_lines(name: str, lines: list[str]) -> Case:
    return failed(name, lines[0], output="\n".join(lines)) if lines else passed(name)


def _headers(context: Context) -> list[Case]:
    """Every installed header compiles alone, strictly, in each language that it is for."""
    cases = []
    source = context.logs / "declaration.c"  # ISO C wants one, which a header of macros lacks
    source.write_text("extern int declared;\n")
    for header in sources.public_headers(context.top):
        name = header.relative_to(context.top)
        languages = [("g++", "c++", standard) for standard in CXX_STANDARDS]
        if header.suffix == ".h":
            languages += [("gcc", "c", standard) for standard in C_STANDARDS]
        ways = [[], ["-DTEK_OPTIONAL"]] if name.parts[0] == "include" else [[]]
        for (compiler, language, standard), way in product(languages, ways):
            cases.append(_check(
                context, " ".join([f"{name} alone, {standard}", *way]),
                [compiler, f"-std={standard}", *STRICT, *way, "-x", language,
                 "-include", str(header), str(source)], compiler))
    return cases


def _man_pages(context: Context) -> list[Case]:
    return [_check(context, f"man page {page.name}",
                   ["mandoc", "-T", "lint", "-W", level, str(page)], "mandoc")
            for level, page in sources.man_pages(context.top, context.build)]
