"""The end-to-end tests: pytest over what was built, told by pytest_record.py."""

import json
from pathlib import Path

from .process import TEST_SILENCE, Context, run
from .results import Case, Outcome, failed, skipped

NO_TESTS = 5  # pytest's exit status where it finds none


def end_to_end(context: Context) -> list[Case]:
    tests = context.top / "tests" / "e2e"
    return run_pytest(context, "e2e", [tests]) if tests.is_dir() else []


def run_pytest(context: Context, suite: str, tests: list[Path],
               silence: int = TEST_SILENCE) -> list[Case]:
    python = ["/usr/bin/python3", "-B"]
    if run(context, suite, [*python, "-c", "import pytest"]).status:
        return [skipped(str(path.relative_to(context.top)),
                        "pytest is missing (Debian's python3-pytest)") for path in tests]
    record = context.logs / f"{suite}.jsonl"
    record.unlink(missing_ok=True)
    finished = run(
        context, suite,
        [*python, "-m", "pytest", "-v", "-p", "checks.pytest_record", "-p", "no:cacheprovider",
         *map(str, tests)], silence,
        environment={"PYTHONPATH": str(context.top / "tools"), "CHECK_RECORD": str(record)})
    lines = record.read_text().splitlines() if record.exists() else []
    status = None if finished.hung else finished.status
    return judge(lines, "pytest", status, finished.how, finished.log)


def judge(lines: list[str], name: str, status: int | None, how: str, log: Path) -> list[Case]:
    """Cases of a run of pytest with that exit status; None is one that was ended."""
    cases = parse(lines, log, how)
    explained = any(case.outcome is Outcome.FAILED for case in cases)
    if status is None or (status not in (0, NO_TESTS) and not explained):
        cases.append(failed(name, how, log))
    return cases


def parse(lines: list[str], log: Path | None, how: str) -> list[Case]:
    """Cases from the record.  A test can fail twice, itself and in its clean-up: that is one."""
    cases: dict[str, Case | None] = {}
    for line in lines:
        entry = json.loads(line)
        name = entry["name"]
        if entry["event"] == "planned":
            cases[name] = None
            continue
        outcome = Outcome(entry["outcome"])
        before = cases.get(name)
        if before is None or outcome is Outcome.FAILED:
            reason = entry["reason"]
            if outcome is Outcome.SKIPPED:
                reason = reason or "no reason given"
            cases[name] = Case(name, outcome, reason, log if outcome is Outcome.FAILED else None)
    return [case or failed(name, f"never ended ({how})", log) for name, case in cases.items()]
