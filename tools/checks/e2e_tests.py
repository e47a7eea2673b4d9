"""The end-to-end tests: pytest over what was built, told by pytest_record.py."""

import json
from functools import cache
from itertools import chain
from pathlib import Path

from .process import BUILD_SILENCE, TEST_SILENCE, Context, run, side_by_side
from .results import Case, Outcome, failed, skipped

PYTHON = ["/usr/bin/python3", "-B"]
NO_TESTS = 5  # pytest's exit status where it finds none


# May run beside each other: they look at what they start themselves, change nothing of the machine, and judge no
# times. Those that take longest come first.
BESIDE = [
    "test_uthread_torture", "test_ident_count", "test_run_sync", "test_run_model", "test_run_alloc", "test_bench",
    "test_lab", "test_lab_fetch", "test_stack_programs", "test_stack_learn", "test_programs", "test_ps_programs",
    "test_run_alloc_robust", "test_profile_robust", "test_bench_manycore", "test_stack_fit", "test_ps_uthreads",
    "test_run_alloc_pool", "test_explain", "test_uthread_gdb", "test_lab_shell", "test_stack_budget",
    "test_run_targets", "test_ps_native", "test_run_options", "test_run_critical", "test_run_rules",
    "test_stack_static", "test_stack_net", "test_table", "test_run_linked", "test_doctor", "test_uthread_overflow",
    "test_uthread_refused", "test_guard", "test_overflow", "test_board", "test_conftest", "test_sync_native",
]


def build(context: Context) -> list[Case]:
    """The command, the daemon and what they write.  Only what went wrong comes back."""
    built = run(context, "build", ["tools/build"], BUILD_SILENCE)
    return [failed("tools/build", built.how, built.log)] if built.status else []


def end_to_end(context: Context) -> list[Case]:
    """Those that may run beside each other in a process each, then all others in one."""
    if wrong := build(context):
        return wrong
    modules = set((context.top / "tests" / "e2e").glob("test_*.py"))
    beside = [module for module in sorted(modules, key=_place) if module.stem in BESIDE]
    found = side_by_side(
        lambda module: run_pytest(context, f"e2e-{module.stem}", [module]), beside)
    alone = sorted(modules - set(beside))
    return [*chain.from_iterable(found), *(run_pytest(context, "e2e", alone) if alone else [])]


def alone(context: Context, name: str) -> list[Case]:
    """The one test of that name, which is pytest's."""
    return run_pytest(context, "e2e-alone", [context.top / name])


def _place(module: Path) -> int:
    return BESIDE.index(module.stem) if module.stem in BESIDE else len(BESIDE)


@cache
def _has_pytest(context: Context) -> bool:
    return run(context, "pytest", [*PYTHON, "-c", "import pytest"]).status == 0


def run_pytest(context: Context, suite: str, tests: list[Path],
               silence: int = TEST_SILENCE) -> list[Case]:
    if not _has_pytest(context):
        return [skipped(str(path.relative_to(context.top)),
                        "pytest is missing (Debian's python3-pytest)") for path in tests]
    record = context.logs / f"{suite}.jsonl"
    record.unlink(missing_ok=True)
    finished = run(
        context, suite,
        [*PYTHON, "-m", "pytest", "-v", "-p", "checks.pytest_record", "-p", "no:cacheprovider",
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
        if entry["event"] != "result":
            continue
        outcome = Outcome(entry["outcome"])
        before = cases.get(name)
        if before is None or outcome is Outcome.FAILED:
            reason = entry["reason"]
            if outcome is Outcome.SKIPPED:
                reason = reason or "no reason given"
            cases[name] = Case(name, outcome, reason, log if outcome is Outcome.FAILED else None,
                               output=entry.get("output", ""))
    return [case or failed(name, f"never ended ({how})", log) for name, case in cases.items()]
