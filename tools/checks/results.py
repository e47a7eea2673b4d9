"""What a suite hands back, and how it is told."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Case:
    """One test: its name, what became of it, why if it did not pass, and what it told people."""

    name: str
    outcome: Outcome
    reason: str = ""
    log: Path | None = None
    told: str = ""


def passed(name: str) -> Case:
    return Case(name, Outcome.PASSED)


def failed(name: str, reason: str, log: Path | None = None) -> Case:
    return Case(name, Outcome.FAILED, reason, log)


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
    """The end of the report.  Its last line is the sum of everything."""
    lines = []
    for outcome, title in ((Outcome.SKIPPED, "Skipped:"), (Outcome.FAILED, "Failed:")):
        chosen = of_outcome(cases, outcome)
        if chosen:
            lines += ["", title]
        for case in chosen:
            lines.append(f"  {case.name}: {case.reason}")
            if case.log:
                lines.append(f"    log: {case.log}")
    return "\n".join([*lines, "", counts(cases)])
