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

from . import c_tests, e2e_tests, fuzz_tests, lab_tests, rust_tests, style, tools_tests
from .process import Context, describe_status
from .results import Case, counts, failed, skipped, succeeded, summary

TOP = Path(__file__).resolve().parents[2]
# Those of the lab are in lab/tests.toml.
SUITES = {
    "tools": tools_tests.own_tests,
    "c": c_tests.as_built,
    "rust": rust_tests.cargo_test,
    "e2e": e2e_tests.end_to_end,
    "asan": c_tests.address,
    "tsan": c_tests.thread,
    "fuzz": fuzz_tests.fuzzers,
    "style": style.style,
}


def all_suites() -> dict:
    return SUITES | lab_tests.suites(TOP)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="tools/check",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true",
                        help="the tests that need the kernel lab, instead of all others")
    parser.add_argument("--only", choices=all_suites(), action="append", metavar="SUITE",
                        help=f"run this suite only; can be repeated ({', '.join(all_suites())})")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the output of the tests")
    return parser.parse_args()


def build() -> list[Case]:
    """Build.  Only what went wrong comes back."""
    status = subprocess.run([TOP / "tools/build"], cwd=TOP).returncode
    return [failed("tools/build", describe_status(status))] if status else []


def run_suite(name: str, context: Context) -> list[Case]:
    print(f"{name:6} ", end="\n" if context.verbose else "", flush=True)
    began = time.monotonic()
    try:
        cases = all_suites()[name](context)
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
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no test outlives us
    context = Context(TOP, TOP / "build", options.verbose)
    shutil.rmtree(context.logs, ignore_errors=True)
    cases = build()
    try:
        if not cases:
            for name in options.only or (lab_tests.suites(TOP) if options.lab else SUITES):
                cases += run_suite(name, context)
    except KeyboardInterrupt:
        cases.append(failed("tools/check", "interrupted"))
    print(summary(cases))
    return 0 if succeeded(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
