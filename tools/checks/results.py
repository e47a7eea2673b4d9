"""The result of a suite, and the report."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Case:
    """One test and its outcome."""

    name: str
    outcome: Outcome
    reason: str = ""  # why it failed or was skipped; of a flaky test, why it failed at first
    log: Path | None = None
    report: str = ""  # a report of the test for the reader, such as measurements
    output: str = ""  # of a failed test
    flaky: bool = False  # it failed, and passed when it ran again alone


def passed(name: str) -> Case:
    return Case(name, Outcome.PASSED)


def failed(name: str, reason: str, log: Path | None = None, output: str = "") -> Case:
    return Case(name, Outcome.FAILED, reason, log, output=output)


def skipped(name: str, reason: str) -> Case:
    return Case(name, Outcome.SKIPPED, reason or "no reason given")


def of_outcome(cases: list[Case], outcome: Outcome) -> list[Case]:
    return [case for case in cases if case.outcome is outcome]


def counts(cases: list[Case]) -> str:
    return ", ".join(f"{len(of_outcome(cases, outcome))} {outcome.value}" for outcome in Outcome)


def succeeded(cases: list[Case]) -> bool:
    """Nothing failed, and something was tested at all."""
    return not of_outcome(cases, Outcome.FAILED) and bool(of_outcome(cases, Outcome.PASSED))


def summary(cases: list[Case]) -> str:
    """The end of the report.  Its last line is the total."""
    flaky = [case for case in cases if case.flaky]
    lines = []
    for title, chosen in (("Skipped:", of_outcome(cases, Outcome.SKIPPED)),
                          (f"Flaky: {len(flaky)} (failed, then passed alone)", flaky),
                          ("Failed:", of_outcome(cases, Outcome.FAILED))):
        if chosen:
            lines += ["", title]
        for case in chosen:
            lines.append(f"  {case.name}: {case.reason}")
            if case.log:
                lines.append(f"    log: {case.log}")
    return "\n".join([*lines, "", counts(cases)])
