"""tools/check --stress: runs one test many times beside load."""

import time
from collections.abc import Iterable

from . import again
from .load import Load
from .process import Context
from .results import Case, Outcome, failed, passed, skipped

TIMES = 50
# The tests that were flaky at any time, by the name that tools/check prints.
EVER_FLAKY = "tests/ever-flaky.txt"


def names(context: Context, wanted: str) -> list[str]:
    """The tests for the argument of --stress: those of the list, or one."""
    return ever_flaky(context) if wanted == "ever-flaky" else [wanted]


def ever_flaky(context: Context) -> list[str]:
    lines = (context.top / EVER_FLAKY).read_text(encoding="utf-8").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line and not line.startswith("#")]


def unknown(context: Context, suites: Iterable[str], cases: list[Case]) -> list[Case]:
    """A failure for each entry of the list that names no test of these suites, which have run.

    Where a whole program was skipped or failed, its tests are unknown.
    """
    run = {case.name for case in cases}
    return [failed(EVER_FLAKY, f"no test is called {name!r}: correct the name")
            for name in ever_flaky(context)
            if name.partition(": ")[0] in suites and name not in run
            and name.rpartition("/")[0] not in run]


def run(context: Context, wanted: str, times: int, ways: dict[str, again.Alone]) -> list[Case]:
    """A case for each test: passed if each of its runs passed."""
    with Load(context.logs):
        return [_stress(context, name, times, ways) for name in names(context, wanted)]


def _stress(context: Context, name: str, times: int, ways: dict[str, again.Alone]) -> Case:
    suite, _, test = name.partition(": ")
    if suite not in ways or not test:
        return failed(name, "no such test: the name is `SUITE: NAME`, as tools/check prints it; "
                            f"the suites are {', '.join(ways)}")
    failures = []
    for count in range(1, times + 1):
        began = time.monotonic()
        verdict = again.run_alone(context, test, ways[suite])
        print(f"{name}: {count} of {times}: {verdict.outcome.value} {verdict.reason} "
              f"({time.monotonic() - began:.1f} s)", flush=True)
        if verdict.outcome is Outcome.SKIPPED or verdict.reason == "was not found":
            return (skipped if verdict.outcome is Outcome.SKIPPED else failed)(name, verdict.reason)
        if verdict.outcome is Outcome.FAILED:
            failures.append(verdict)
    if failures:
        return failed(name, f"{len(failures)} of {times} runs failed: {failures[0].reason}",
                      failures[0].log)
    return passed(name)
