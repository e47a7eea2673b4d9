"""The end-to-end tests: pytest over the build, with results from pytest_record.py."""

import json
import os
import tempfile
from functools import cache
from itertools import chain
from pathlib import Path

from .process import BUILD_SILENCE, TEST_SILENCE, Context, run, side_by_side
from .results import Case, Outcome, failed, skipped

PYTHON = ["/usr/bin/python3", "-B"]
NO_TESTS = 5  # pytest's exit status where it finds none
TESTS_FAILED = (1, 2)  # those where tests failed, and where modules cannot be imported

# The modules with long tests begin first, so that no process waits long for the last one.
FIRST = [
    "test_uthread_torture", "test_suggest", "test_bench", "test_bench_uthread", "test_ident_count",
    "test_run_sync", "test_stack_programs", "test_tekd_groups", "test_tekd_groups_attacked",
    "test_run_model", "test_run_alloc",
]
# Prefix of a process of pytest: root's programs under TEK have their tables in /run/tek.
OWN_TABLES = ["unshare", "--mount", "sh", "-c",
              'mkdir -p /run/tek && mount -t tmpfs -o mode=755 tables /run/tek && exec "$@"',
              "own-tables"]
# Two processes for each CPU share the tests, because most of these sleep; at most so many.
PROCESSES = 4


def build(context: Context) -> list[Case]:
    """The command, the daemon and the files that they generate.  Returns failures only."""
    built = run(context, "build", ["tools/build"], BUILD_SILENCE)
    return [failed("tools/build", built.how, built.log)] if built.status else []


def end_to_end(context: Context) -> list[Case]:
    """All modules, shared by several processes."""
    if wrong := build(context):
        return wrong
    modules = sorted((context.top / "tests" / "e2e").glob("*/test_*.py"), key=_place)
    return shared(context, modules, min(2 * (os.cpu_count() or 1), PROCESSES))


def alone(context: Context, name: str) -> list[Case]:
    """The test with that name, which is its id in pytest.

    If a module cannot be imported beside the others, no test of the run begins, and the module by
    itself proves nothing.
    """
    if "::" not in name:
        return [failed(name, "is no single test")]
    return run_pytest(context, "e2e-alone", [context.top / name])


def _place(module: Path) -> tuple[int, str]:
    return FIRST.index(module.stem) if module.stem in FIRST else len(FIRST), module.stem


def shared(context: Context, modules: list[Path], count: int) -> list[Case]:
    """The tests of modules, shared by `count` processes of pytest: pytest_share.py."""
    if not _has_pytest(context):
        return run_pytest(context, "e2e", modules)
    share = context.logs / "e2e.json"
    share.unlink(missing_ok=True)
    before = OWN_TABLES if run(context, "e2e", [*OWN_TABLES, "true"]).status == 0 else []
    cases = list(chain.from_iterable(side_by_side(
        lambda number: _share_of(context, number, modules, share, before), range(1, count + 1),
        count)))
    # If a process died, its groups may be left.
    if _left(share):
        cases += _share_of(context, count + 1, modules, share, before)
        cases += [failed(name, "no process of pytest ran it") for name in _left(share)]
    return _each_once(cases)


def _share_of(context: Context, number: int, modules: list[Path], share: Path,
              before: list[str]) -> list[Case]:
    """The tests that one process takes, with a directory for temporary files of its own."""
    with tempfile.TemporaryDirectory(prefix="tek-check-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o1777)
        environment = {"TMPDIR": directory, "CHECK_SHARE": str(share)}
        return run_pytest(context, f"e2e-{number}", modules, before=before,
                          environment=environment)


def _left(share: Path) -> list[str]:
    """The first tests of the groups that no process has taken."""
    text = share.read_text() if share.exists() else '{"free": {}}'
    return list(json.loads(text)["free"]) if text else ["tests of unknown names"]


def _each_once(cases: list[Case]) -> list[Case]:
    """Without duplicates: each process reports a module that cannot be imported."""
    found: dict[str, Case] = {}
    for case in cases:
        if case.name not in found or case.outcome is Outcome.FAILED:
            found[case.name] = case
    return list(found.values())


@cache
def _has_pytest(context: Context) -> bool:
    return run(context, "pytest", [*PYTHON, "-c", "import pytest"]).status == 0


def run_pytest(context: Context, suite: str, tests: list[Path], silence: int = TEST_SILENCE,
               before: list[str] | None = None,
               environment: dict[str, str] | None = None) -> list[Case]:
    """Tests by module or id; with $CHECK_SHARE those that this process takes of them."""
    if not _has_pytest(context):
        return [skipped(str(path.relative_to(context.top)),
                        "pytest is missing (Debian's python3-pytest)") for path in tests]
    record = context.logs / f"{suite}.jsonl"
    record.unlink(missing_ok=True)
    environment = {"PYTHONPATH": str(context.top / "tools"), "CHECK_RECORD": str(record),
                   **(environment or {})}
    plugins = ["-p", "checks.pytest_record", "-p", "no:cacheprovider"]
    if "CHECK_SHARE" in environment:
        plugins += ["-p", "checks.pytest_share"]
    command = [*(before or []), *PYTHON, "-m", "pytest", "-v", *plugins, *map(str, tests)]
    finished = run(context, suite, command, silence, environment=environment)
    lines = record.read_text().splitlines() if record.exists() else []
    status = None if finished.hung else finished.status
    return judge(lines, "pytest", status, finished.how, finished.log)


def judge(lines: list[str], name: str, status: int | None, how: str, log: Path) -> list[Case]:
    """Cases of a run of pytest; `status` is None if the run was killed.

    Failed tests explain TESTS_FAILED only: any other end needs a test that it interrupted.
    """
    cases = parse(lines, log, how)
    explained = [case for case in cases if case.outcome is Outcome.FAILED
                 and (status in TESTS_FAILED or case.reason == _never_ended(how))]
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
    return [case or failed(name, _never_ended(how), log) for name, case in cases.items()]


def _never_ended(how: str) -> str:
    return f"never ended ({how})"
