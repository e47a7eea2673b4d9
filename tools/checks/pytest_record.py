"""A pytest plugin: one JSON line a test, written when it ends, to $CHECK_RECORD. And one for setting it up and for
clearing up behind it, where that takes long.

Unlike a report at the end it is there up to the last test when pytest itself dies.
"""

import json
import os

WORTH_TELLING = 0.05  # seconds
KEPT = 16_000  # characters of what a failed test printed


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
    parts = [report.longreprtext, *(f"---- {title} ----\n{text}" for title, text in report.sections)]
    return "\n".join(parts)[-KEPT:]


def pytest_collection_finish(session):
    for item in session.items:
        _write(event="planned", name=item.nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        reason = "" if report.outcome == "passed" else _reason(report)
        more = {"output": _output(report)} if report.failed else {}
        _write(event="result", name=report.nodeid, outcome=report.outcome, reason=reason,
               seconds=round(report.duration, 2), **more)
    elif report.duration >= WORTH_TELLING:
        _write(event=report.when, name=report.nodeid, seconds=round(report.duration, 2))


def pytest_collectreport(report):
    if report.outcome != "passed":
        _write(event="result", name=report.nodeid, outcome=report.outcome, reason=_reason(report))
