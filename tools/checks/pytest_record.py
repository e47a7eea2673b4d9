"""A pytest plugin that writes one JSON line to $CHECK_RECORD when a test ends.

More lines have the times of a slow set-up or clean-up, and the CPU time. Unlike a report at the
end, the record survives the death of pytest.
"""

import json
import os
import resource

import pytest

WORTH_RECORDING = 0.05  # seconds
HELD = 16_000  # characters of a failed test's output


def _write(**fields) -> None:
    with open(os.environ["CHECK_RECORD"], "a", encoding="utf-8") as stream:
        stream.write(json.dumps(fields) + "\n")


def _reason(report) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).split("\n")[0]


def _output(report) -> str:
    """Where a test failed, and what it printed."""
    sections = (f"---- {title} ----\n{text}" for title, text in report.sections)
    return "\n".join([report.longreprtext, *sections])[-HELD:]


def planned(items) -> None:
    """Record the tests before they run, so that one that never ends is known."""
    for item in items:
        _write(event="planned", name=item.nodeid)


def pytest_collection_finish(session):
    if "CHECK_SHARE" not in os.environ:  # pytest_share.py plans the groups that it takes
        planned(session.items)


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    before = _cpu_seconds()
    yield
    took = _cpu_seconds() - before
    if took >= WORTH_RECORDING:
        _write(event="took", name=item.nodeid, cpu_seconds=round(took, 2))


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        reason = "" if report.outcome == "passed" else _reason(report)
        more = {"output": _output(report)} if report.failed else {}
        _write(event="result", name=report.nodeid, outcome=report.outcome, reason=reason,
               seconds=round(report.duration, 2), **more)
    elif report.duration >= WORTH_RECORDING:
        _write(event=report.when, name=report.nodeid, seconds=round(report.duration, 2))


def pytest_collectreport(report):
    if report.outcome != "passed":
        _write(event="result", name=report.nodeid, outcome=report.outcome, reason=_reason(report))
