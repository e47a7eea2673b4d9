"""The C tests, run by Meson: as built, and once more under each sanitizer."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import which

from . import again, packages, tap
from .process import BUILD_SILENCE, Context, describe_status, run
from .results import Case, Outcome, failed, passed, skipped

# The machine may be busy: a slow test is not a hanging one.
TIMEOUT_FACTOR = "4"
# Meson's suites that can run under a sanitizer.
SANITIZED = {"asan": ["unit", "one-thread"], "tsan": ["unit"]}
# Most tests wait more than they run.  Tests that judge times run alone (tests/meson.build).
AT_A_TIME = 2 * (os.cpu_count() or 1)


def as_built(context: Context, options: tuple[str, ...] = ()) -> list[Case]:
    promised = [] if options else packages.promised(context, context.build)
    return promised + _test(context, "c", context.build, [], [*options])


def build_address(context: Context) -> list[Case]:
    return _build_sanitized(context, "asan", "address,undefined")


def address(context: Context, options: tuple[str, ...] = ()) -> list[Case]:
    """AddressSanitizer with leak detection, and UBSan."""
    return build_address(context) or _promised(context, "asan", options) + _test(
        context, "asan", context.build / "asan", [], [*_suites("asan"), *options], {
            "ASAN_OPTIONS": "halt_on_error=1:abort_on_error=1:detect_leaks=1",
            "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
        })


def build_thread(context: Context) -> list[Case]:
    return _build_sanitized(context, "tsan", "thread")


def thread(context: Context, options: tuple[str, ...] = ()) -> list[Case]:
    # ThreadSanitizer of older compilers dies where the kernel places memory at very
    # random addresses; setarch -R switches that off for the tests.
    return build_thread(context) or _promised(context, "tsan", options) + _test(
        context, "tsan", context.build / "tsan", ["setarch", "-R"], [*_suites("tsan"), *options], {
            # The default is to wait 1 s for other threads when a process exits.
            "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=100",
        })


def alone(suite: Callable[[Context, tuple[str, ...]], list[Case]]) -> again.Alone:
    """A function that runs the program of a single test of the suite."""
    return lambda context, name: suite(context, (name.split("/")[0],))


def _suites(suite: str) -> list[str]:
    return [word for name in SANITIZED[suite] for word in ("--suite", name)]


def _build_sanitized(context: Context, suite: str, sanitizer: str) -> list[Case]:
    """Returns failures only."""
    builddir = context.build / suite
    setup = run(context, suite, ["tools/configure", str(builddir), f"-Db_sanitize={sanitizer}",
                                 "-Db_lundef=false"])
    if setup.status:
        return [failed(f"{suite} set-up", setup.how, setup.log)]
    ninja = ["ninja", "-C", str(builddir)]
    # First a changed meson.build, which determines what is needed.
    compiled = run(context, suite, [*ninja, "build.ninja"], BUILD_SILENCE)
    if not compiled.status:
        needed = _needed(builddir, SANITIZED[suite])
        compiled = run(context, suite, [*ninja, *needed], BUILD_SILENCE)
    if compiled.status:
        return [failed(f"{suite} build", compiled.how, compiled.log)]
    return []


def _promised(context: Context, suite: str, options: tuple[str, ...]) -> list[Case]:
    """Checked only if all tests run: a single test does not build all."""
    return [] if options else packages.promised(context, context.build / suite, only_tests=True)


def _needed(builddir: Path, suites: list[str]) -> list[str]:
    """The files that the tests of these suites of Meson need: half of all files."""
    tests, targets = (json.loads((builddir / f"meson-info/intro-{what}.json").read_text())
                      for what in ("tests", "targets"))
    names = {name for test in tests for name in test["depends"]
             if any(suite.split(":")[-1] in suites for suite in test["suite"])}
    return [os.path.relpath(file, builddir)
            for target in targets if target["id"] in names for file in target["filename"]]


def _test(context: Context, suite: str, builddir: Path, wrapper: list[str], options: list[str],
          environment: dict[str, str] | None = None) -> list[Case]:
    wrapper = wrapper if wrapper and which(wrapper[0]) else []
    command = [*wrapper, "meson", "test", "-C", str(builddir), "--no-rebuild", "--print-errorlogs",
               "--timeout-multiplier", TIMEOUT_FACTOR, "--num-processes", str(AT_A_TIME), *options]
    listed = _listed(context, builddir, options)
    left = set(listed)
    finished, ran = _run_meson(context, suite, builddir, command, environment)
    left -= ran.keys()
    if left and ran and not finished.hung:
        # Meson ended early, as where it cannot start a thread: the rest gets another run.
        finished, rest = _run_meson(context, suite, builddir, [*command, *sorted(left)],
                                    environment)
        left -= rest.keys()
        ran |= rest
    cases = [case for program in ran.values() for case in program]
    # Without a list it is not known whether all ran.
    if finished.hung or left or (finished.status and not (cases and listed)):
        lost = f"{finished.how}, {len(left)} tests did not run" if left else finished.how
        cases.append(failed(f"{suite}: meson test", lost, finished.log))
    return cases


def _run_meson(context, suite, builddir, command, environment):
    """How Meson ended, and the tests of each program that ran."""
    logs = builddir / "meson-logs"
    record = logs / "testlog.json"
    record.unlink(missing_ok=True)
    finished = run(context, suite, command, environment=environment)
    lines = record.read_text().splitlines() if record.exists() else []
    runs = [json.loads(line) for line in lines]
    return finished, {_program(run): cases_of_run(run, logs / "testlog.txt") for run in runs}


def _listed(context: Context, builddir: Path, options: list[str]) -> list[str]:
    """The programs that Meson would run."""
    listed = subprocess.run(["meson", "test", "-C", str(builddir), "--no-rebuild", "--list",
                             *options],
                            cwd=context.top, env=context.environment(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False)
    return [_without_suite(line) for line in listed.stdout.splitlines() if " / " in line]


def _program(record: dict) -> str:
    return _without_suite(record["name"])


def _without_suite(name: str) -> str:
    return name.split(" / ")[-1]


def cases_of_run(record: dict, log: Path) -> list[Case]:
    """The tests of one program, from its line in Meson's testlog.json.

    A program that says TAP is judged by what it said, by whether it said everything
    that it announced, and by its exit status; any other by Meson's verdict.
    """
    program = _program(record)
    verdict, status = record["result"], record["returncode"]
    if verdict in ("TIMEOUT", "INTERRUPT"):
        how = "did not end in time" if verdict == "TIMEOUT" else "interrupted"
    else:
        how = describe_status(status)

    output = record.get("stdout", "") + record.get("stderr", "")
    seen = tap.parse(record.get("stdout", ""), program, log)
    speaks_tap = seen.planned is not None or "CMOCKA_MESSAGE_OUTPUT" in record.get("env", {})
    if not speaks_tap:
        if verdict in ("OK", "EXPECTEDFAIL"):
            return [passed(program)]
        if verdict == "SKIP":
            lines = record.get("stdout", "").split("\n")
            return [skipped(program, next((line for line in reversed(lines) if line), ""))]
        return [failed(program, how, log, output)]

    ended = verdict in ("TIMEOUT", "INTERRUPT")
    cases = tap.judge(seen, program, None if ended else status, how + _sanitizer_words(record), log)
    return [replace(case, output=output) if case.outcome is Outcome.FAILED else case
            for case in cases]


def _sanitizer_words(record: dict) -> str:
    words = re.search(r"^SUMMARY: (.*)$", record.get("stderr", ""), re.MULTILINE)
    return f", {words[1]}" if words else ""
