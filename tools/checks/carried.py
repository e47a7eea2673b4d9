"""Tests a build that was made on another system: `python3 -m checks.carried`.

Builds nothing, and does not run Meson, whose version may differ: the list of tests is in
meson-info.  The C tests run, then end-to-end tests that use every library.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from . import e2e_tests, tap
from .process import Context, run, side_by_side
from .results import Case, failed, passed, skipped, succeeded, summary

TOP = Path(__file__).resolve().parents[2]
SKIPPED = 77
# At least one module for each library that `tek run` preloads, and for tekd.
END_TO_END = [
    "test_doctor",
    "test_run_critical",
    "test_run_linked",
    "test_run_sync",
    "test_run_model",
    "test_run_alloc",
    "test_run_math",
    "test_sync_native",
    "test_programs",
    "test_stack_programs",
    "test_profile_robust",
    "test_uthread_gdb",
    "test_tekd_start",
]
# The dynamic linker's error for a program that was linked with a later C library.
TOO_OLD = re.compile(r"version `(GLIBC_[\d.]+)' not found")


def too_old(build: Path) -> str:
    """The latest version that the build needs and this C library lacks; empty if it lacks none."""
    lacking = set()
    for file in (build / "bin/tek", build / "bin/tekd", build / "lib/libtek.so"):
        environment = os.environ | ({"LD_PRELOAD": str(file)} if file.suffix else {})
        command = ["true"] if file.suffix else [str(file), "--version"]
        tried = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        lacking |= set(TOO_OLD.findall(tried.stderr))
    return max(
        lacking,
        key=lambda name: [int(part) for part in name[len("GLIBC_") :].split(".")],
        default="",
    )


def runnable(tests: list[dict], build: Path) -> list[dict]:
    """Without the programs of bench/, which are expected to fail: only Meson knows that."""
    return [test for test in tests if not Path(test["cmd"][0]).is_relative_to(build / "bench")]


def run_test(context: Context, test: dict) -> list[Case]:
    name = test["name"]
    suite = f"carried-{name}"
    environment = test["env"] if isinstance(test["env"], dict) else {}
    # Commands are relative to the build directory, as Meson runs them.
    command = ["env", "-C", str(context.build), *test["cmd"]]
    finished = run(context, suite, command, test["timeout"] * 4, environment)
    # This program tests a feature of a later C library.
    if finished.status and (lacks := TOO_OLD.search(finished.output)):
        return [skipped(name, f"was linked with a later C library: it needs {lacks[1]}")]
    status = None if finished.hung else finished.status
    if "CMOCKA_MESSAGE_OUTPUT" in environment:
        return tap.judge(
            tap.parse(finished.output, name, finished.log), name, status, finished.how, finished.log
        )
    if status == 0:
        return [passed(name)]
    if status == SKIPPED:
        lines = [line for line in finished.output.splitlines() if line]
        return [skipped(name, lines[-1] if lines else "")]
    return [failed(name, finished.how, finished.log)]


def c_tests(context: Context) -> list[Case]:
    tests = json.loads((context.build / "meson-info/intro-tests.json").read_text())
    chosen = runnable(tests, context.build)
    found = side_by_side(
        lambda test: run_test(context, test), [test for test in chosen if test["is_parallel"]]
    )
    found += [run_test(context, test) for test in chosen if not test["is_parallel"]]
    return [case for cases in found for case in cases]


def end_to_end(context: Context) -> list[Case]:
    modules = [module for name in END_TO_END
               for module in (context.top / "tests/e2e").glob(f"*/{name}.py")]
    return e2e_tests.run_pytest(context, "carried-e2e", modules)


def main() -> int:
    context = Context(TOP, TOP / "build", verbose=False)
    if lacks := too_old(context.build):
        cases = [
            passed("the dynamic linker reports the missing version"),
            skipped(
                "all tests",
                f"this build needs {lacks}, which this system's C library lacks; a build that is "
                "made here runs there",
            ),
        ]
    else:
        cases = c_tests(context) + end_to_end(context)
    print(summary(cases))
    return 0 if succeeded(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
