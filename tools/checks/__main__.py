"""Builds, runs every test and style check, and reports the outcome of each.

A test that fails runs again alone, twice at most.  If it passes then, it is flaky: it is listed,
and logged in build/check/flaky.txt.  Up to three flaky tests do not fail the run.
The last line is `N passed, N failed, N skipped`.  Exit status: 0 if no test failed and one
passed, 1 otherwise.  Logs are in build/check/.
"""

EXAMPLES = """
examples:
  tools/check --only c -v                       one suite, with its output
  tools/check --beside-load                     all suites beside two CPU hogs and a disk writer
  tools/check --stress "c: uthread_mutex"       one test 50 times beside that load
  tools/check --stress ever-flaky --times 20    each test of tests/ever-flaky.txt
"""

import argparse
import contextlib
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from . import (again, c_tests, e2e_tests, fuzz_tests, lab_plan, lab_tests, rust_tests, stress,
               style, tools_tests)
from .ahead import Ahead
from .load import Load
from .process import Context, describe_status
from .results import Case, counts, failed, skipped, succeeded, summary

TOP = Path(__file__).resolve().parents[2]
BEGAN = time.monotonic()
# Those of the lab are in lab/tests.toml.
SUITES = {
    "tools": tools_tests.own_tests,
    "c": c_tests.as_built,
    "e2e": e2e_tests.end_to_end,
    "rust": rust_tests.cargo_test,
    "asan": c_tests.address,
    "tsan": c_tests.thread,
    "fuzz": fuzz_tests.fuzzers,
    "style": style.style,
}
# How one test of a suite runs alone.  Fuzzers and style checks have none: their failures are never
# flaky.
ALONE = {
    "tools": tools_tests.alone,
    "c": c_tests.alone(c_tests.as_built),
    "e2e": e2e_tests.alone,
    "rust": rust_tests.alone,
    "asan": c_tests.alone(c_tests.address),
    "tsan": c_tests.alone(c_tests.thread),
}


def all_suites() -> list[str]:
    return [*SUITES, *lab_tests.suites(TOP)]


def ways(options: argparse.Namespace) -> dict:
    """How one test of each suite runs alone."""
    return ALONE | lab_tests.ways(TOP, options.smoke)


def suite(name: str) -> str:
    """An argument of --only: a suite, or a single test of the lab."""
    if name not in all_suites() and name not in lab_tests.single_suites(TOP):
        single = ", ".join(sorted(found for found in lab_tests.single_suites(TOP)
                                  if found.startswith(name.split(":")[0])))
        raise argparse.ArgumentTypeError(f"there is no suite {name}" + (
            f"; there are {single}" if single else f"; there are {', '.join(all_suites())}"))
    return name


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="tools/check", epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true",
                        help="run the tests that boot machines, and no others")
    parser.add_argument("--smoke", action="store_true",
                        help="run only the smoke set of these, which takes minutes")
    parser.add_argument("--only", type=suite, action="append", metavar="SUITE",
                        help=f"run only this suite; can be repeated ({', '.join(all_suites())}, or "
                             "lab-KIND:NAME for one entry of lab/tests.toml or one of its jobs)")
    parser.add_argument("--beside-load", action="store_true",
                        help="run the tests beside two CPU hogs and a disk writer")
    parser.add_argument("--stress", metavar="NAME",
                        help="run one test many times beside that load: NAME is as reported, or "
                             "ever-flaky")
    parser.add_argument("--times", type=int, default=stress.TIMES, metavar="N",
                        help="how often --stress runs it (%(default)s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the output of the tests")
    options = parser.parse_args()
    options.lab |= options.smoke
    return options


def build(*parts: str) -> list[Case]:
    """Build.  Returns failures only."""
    status = subprocess.run([TOP / "tools/build", *parts], cwd=TOP).returncode
    return [failed("tools/build", describe_status(status))] if status else []


def chosen(options: argparse.Namespace) -> dict:
    """The chosen suites, each with its function."""
    names = options.only or (lab_tests.suites(TOP, options.smoke) if options.lab else SUITES)
    of_lab = [name for name in names if name not in SUITES]
    known = SUITES | lab_tests.Lab(TOP, of_lab, options.smoke).suites()
    return {name: known[name] for name in names}


def run_suite(name: str, suite_of: Callable, context: Context) -> list[Case]:
    print(f"{name:6} ", end="\n" if context.verbose else "", flush=True)
    began = time.monotonic()
    try:
        cases = suite_of(context)
    except Exception as error:  # a mistake in tools/check must not hide the other suites
        traceback.print_exc()
        cases = [failed(f"suite {name}", f"tools/check itself failed: {error}")]
    cases = cases or [skipped("all", "no tests were found")]
    print(f"{counts(cases)}  ({time.monotonic() - began:.1f} s)", flush=True)
    for case in cases:
        if case.report:
            print(textwrap.indent(case.report, " " * 7), flush=True)
    return [replace(case, name=f"{name}: {case.name}") for case in cases]


def clear_logs(context: Context) -> None:
    """Remove the logs of the last run, except the log of flaky tests, to which runs append."""
    if not context.logs.is_dir():
        return
    for path in context.logs.iterdir():
        if path.name == again.RECORD:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def run_suites(context: Context, suites: dict, options: argparse.Namespace) -> list[Case]:
    """The cases of these suites.  Failed tests run again."""
    cases = []
    try:
        with Load(context.logs) if options.beside_load else contextlib.nullcontext():
            with Ahead(context, [*suites][1:]) as ahead:
                for name, suite_of in suites.items():
                    ahead.wait(name)
                    cases += run_suite(name, suite_of, context)
            cases = again.settle(context, cases, ways(options))
            if not options.only:
                cases += stress.unknown(context, suites, cases)
    except KeyboardInterrupt:
        cases.append(failed("tools/check", "interrupted"))
    return cases


def times() -> str:
    """The elapsed time, and the CPU time of all children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return f"{time.monotonic() - BEGAN:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time"


def interrupt_on_signals() -> None:
    """Have more signals end tools/check as SIGINT does, so that running tests are ended.

    nohup(1) ignores SIGHUP.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def main() -> int:
    try:
        options = arguments()
    except (lab_plan.Mistake, OSError, ValueError) as mistake:
        print(f"tools/check: {mistake}", file=sys.stderr)
        return 2
    interrupt_on_signals()
    # What a test printed may contain bytes that are no characters.
    sys.stdout.reconfigure(errors="backslashreplace")
    context = Context(TOP, TOP / "build", options.verbose)
    clear_logs(context)
    try:
        # If all suites run, the first ones need only the C half, and the rest is built meanwhile.
        cases = build() if options.only or options.lab or options.stress else build("c")
        if options.stress:
            cases = cases or stress.run(context, options.stress, options.times, ways(options))
        elif not cases:
            cases = run_suites(context, chosen(options), options)
    except KeyboardInterrupt:
        cases = [failed("tools/check", "interrupted")]
    print(f"{times()}{summary(cases)}")
    return 0 if succeeded(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
