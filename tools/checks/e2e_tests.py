"""The end-to-end tests: pytest over what was built, told by pytest_record.py."""

import json
from pathlib import Path

from .process import Context, run
from .results import Case, Outcome, failed, skipped

NO_TESTS = 5  # pytest's exit status where it finds none


def end_to_end(context: Context) -> list[Case]:
    tests = context.top / "tests" / "e2e"
    if not tests.is_dir():
        return []
    python = ["/usr/bin/python3", "-B"]
    if run(context, "e2e", [*python, "-c", "import pytest"]).status:
        return [skipped("tests/e2e", "pytest is missing (Debian's python3-pytest)")]
    record = context.logs / "e2e.jsonl"
    record.unlink(missing_ok=True)
    finished = run(
        context, "e2e",
        [*python, "-m", "pytest", "-v", "-p", "checks.pytest_record", "-p", "no:cacheprovider",
         str(tests)],
        environment={"PYTHONPATH": str(context.top / "tools"), "CHECK_RECORD": str(record)})
    lines = record.read_text().splitlines() if record.exists() else []
    cases = parse(lines, finished.log, finished.how)
    explained = any(case.outcome is Outcome.FAILED for case in cases)
    if finished.hung or (finished.status not in (0, NO_TESTS) and not explained):
        cases.append(failed("pytest", finished.how, finished.log))
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
