"""Builds, runs every test and style check, and says what became of each.

The last line is `N passed, N failed, N skipped`.  Exit status: 0 if nothing failed and
something passed, 1 otherwise.  Logs lie in build/check/.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from dataclasses import replace
from pathlib import Path

from . import c_tests, e2e_tests, fuzz_tests, lab_plan, lab_tests, rust_tests, style, tools_tests
from .ahead import Ahead
from .process import Context, describe_status
from .results import Case, counts, failed, skipped, succeeded, summary

TOP = Path(__file__).resolve().parents[2]
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


def all_suites() -> dict:
    return SUITES | lab_tests.suites(TOP)


def suite(name: str) -> str:
    """An argument of --only: one of those, or of the lab a single test."""
    if name not in all_suites() | lab_tests.suites_by_name(TOP):
        single = ", ".join(sorted(found for found in lab_tests.suites_by_name(TOP)
                                  if found.startswith(name.split(":")[0])))
        raise argparse.ArgumentTypeError(f"there is no suite {name}" + (
            f"; there are {single}" if single else f"; there are {', '.join(all_suites())}"))
    return name


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="tools/check",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true",
                        help="the tests that need the kernel lab, instead of all others")
    parser.add_argument("--only", type=suite, action="append", metavar="SUITE",
                        help=f"run this suite only; can be repeated ({', '.join(all_suites())}, or "
                             "lab-KIND:NAME for one entry of lab/tests.toml)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the output of the tests")
    return parser.parse_args()


def build(*parts: str) -> list[Case]:
    """Build.  Only what went wrong comes back."""
    status = subprocess.run([TOP / "tools/build", *parts], cwd=TOP).returncode
    return [failed("tools/build", describe_status(status))] if status else []


def run_suite(name: str, context: Context) -> list[Case]:
    print(f"{name:6} ", end="\n" if context.verbose else "", flush=True)
    began = time.monotonic()
    try:
        cases = (all_suites() | lab_tests.suites_by_name(TOP))[name](context)
    except Exception as error:  # a mistake in tools/check must not hide the other suites
        traceback.print_exc()
        cases = [failed(f"suite {name}", f"tools/check itself failed: {error}")]
    cases = cases or [skipped("all", "no tests were found")]
    print(f"{counts(cases)}  ({time.monotonic() - began:.1f} s)", flush=True)
    for case in cases:
        if case.told:
            print(textwrap.indent(case.told, " " * 7), flush=True)
    return [replace(case, name=f"{name}: {case.name}") for case in cases]


def main() -> int:
    try:
        options = arguments()
    except (lab_plan.Mistake, OSError, ValueError) as mistake:
        print(f"tools/check: {mistake}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no test outlives us
    context = Context(TOP, TOP / "build", options.verbose)
    shutil.rmtree(context.logs, ignore_errors=True)
    # Where all suites run, the first ones need the C half only, and the rest is built while they run.
    cases = build() if options.only or options.lab else build("c")
    suites = list(options.only or (lab_tests.suites(TOP) if options.lab else SUITES))
    try:
        if not cases:
            with Ahead(context, suites[1:]) as ahead:
                for name in suites:
                    ahead.wait(name)
                    cases += run_suite(name, context)
    except KeyboardInterrupt:
        cases.append(failed("tools/check", "interrupted"))
    print(summary(cases))
    return 0 if succeeded(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
