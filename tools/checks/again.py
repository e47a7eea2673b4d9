"""Runs failed tests again, each alone.  A test that passes then is flaky: it is reported and
logged.  More than MOST_FLAKY flaky tests fail the run.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

from .process import Context
from .results import Case, Outcome, failed, of_outcome, passed

TRIES = 2
MOST_FLAKY = 3
# More failures than that have a common cause, and running all of them again takes too long.
MOST_FAILED = 12
# The log of flaky tests, beside the other logs.
RECORD = "flaky.txt"
# flaky.txt has the end of a failed test's output: so many characters.
HELD = 16_000

# Runs the test with the name that its suite reports, and returns its cases.
Alone = Callable[[Context, str], list[Case]]


def settle(context: Context, cases: list[Case], ways: dict[str, Alone]) -> list[Case]:
    """The cases, in which failed tests that pass alone are flaky.

    `ways` has a function for each suite whose tests can run alone; a case's name is `SUITE: NAME`.
    """
    candidates = [case for case in of_outcome(cases, Outcome.FAILED) if _suite(case) in ways]
    if not candidates:
        return cases
    if len(candidates) > MOST_FAILED:
        print(f"again  {len(candidates)} tests failed: too many to run each again", flush=True)
        return cases
    settled = {case.name: _settled(context, case, ways[_suite(case)]) for case in candidates}
    flaky = [case for case in settled.values() if case.flaky]
    for case in flaky:
        _write_down(context, case)
    cases = [settled.get(case.name, case) if case.outcome is Outcome.FAILED else case
             for case in cases]
    if len(flaky) > MOST_FLAKY:
        cases.append(failed("flaky tests", f"{len(flaky)} tests; a run may have {MOST_FLAKY}"))
    return cases


def _suite(case: Case) -> str:
    return case.name.split(": ")[0]


def _settled(context: Context, case: Case, alone: Alone) -> Case:
    """The case, which is flaky if the test passes in one of its tries alone."""
    name = case.name.split(": ", 1)[1]
    for attempt in range(TRIES):
        print(f"again  {case.name} ... ", end="", flush=True)
        began = time.monotonic()
        verdict = run_alone(context, name, alone)
        print(f"{verdict.outcome.value}  ({time.monotonic() - began:.1f} s)", flush=True)
        if verdict.outcome is Outcome.PASSED:
            log = context.logs / RECORD
            reason = f"{case.reason} (passed in try {attempt + 2})"
            return replace(case, outcome=Outcome.PASSED, reason=reason, log=log, flaky=True)
    return case


def run_alone(context: Context, name: str, alone: Alone) -> Case:
    """The result of that test in a run alone."""
    try:
        return verdict_of(name, alone(context, name))
    # A mistake in tools/check must not hide the results of other tests.
    except Exception as error:  # pylint: disable=broad-exception-caught
        return failed(name, f"tools/check itself failed: {error}")


def verdict_of(name: str, cases: list[Case]) -> Case:
    """The result of a run of that test alone.

    A whole program that failed has a name that none of its tests has.  Such a program passed if one
    of its tests passed and none failed.
    """
    if bad := of_outcome(cases, Outcome.FAILED):
        return next((case for case in bad if case.name == name), bad[0])
    own = [case for case in cases if case.name == name]
    if own or not of_outcome(cases, Outcome.PASSED):
        return own[0] if own else failed(name, "was not found")
    return passed(name)


def _commit(context: Context) -> str:
    command = ["git", "-C", str(context.top), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout.strip()
    except OSError:
        return "(no git)"


def _write_down(context: Context, case: Case) -> None:
    """Append the test and its output when it failed to build/check/flaky.txt."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # What a test printed may contain bytes that are no characters.
    with case.log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(f"==== {when} {_commit(context)} {case.name}\n{case.reason}\n"
                     f"{case.output[-HELD:].rstrip()}\n\n")
