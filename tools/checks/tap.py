"""The Test Anything Protocol as cmocka writes it.

Each group of a program has a plan of its own.  A skipped test is `not ok 2 # SKIP name`
in cmocka 1.1 and `ok 2 # SKIP name` in later versions; the reason is the `# ...` line
that the test printed just before.  Lines that are not TAP are the test's own words.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from .results import Case, Outcome, failed, of_outcome, passed, skipped

PLAN = re.compile(r"^1\.\.(\d+)\b")
RESULT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*)$")
SKIP = re.compile(r"^(.*?)\s*#\s*SKIP\b[:\s]*(.*)$", re.IGNORECASE)


@dataclass
class Report:
    cases: list[Case] = field(default_factory=list)
    planned: int | None = None

    @property
    def missing(self) -> int:
        """Tests that were announced and never reported."""
        return max(0, (self.planned or 0) - len(self.cases))


def parse(text: str, program: str, log: Path | None = None) -> Report:
    report = Report()
    comment = ""
    pending = None  # a failed test whose explanation may follow
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            comment = line.lstrip("# ")
            if pending and not comment.startswith(("ok", "not ok")):
                pending[1].append(comment)
            continue
        if pending:
            report.cases.append(failed(pending[0], "; ".join(pending[1]) or "failed", log))
            pending = None
        if plan := PLAN.match(line):
            report.planned = (report.planned or 0) + int(plan[1])
        elif result := RESULT.match(line):
            words = result[3].strip()
            if skip := SKIP.match(words):
                name, reason = (skip[1], skip[2] or comment) if skip[1] else (skip[2], comment)
                report.cases.append(skipped(f"{program}/{name}", reason))
            elif result[1]:
                pending = (f"{program}/{words}", [])
            else:
                report.cases.append(passed(f"{program}/{words}"))
        comment = ""
    return report


def judge(report: Report, program: str, status: int | None, how: str,
          log: Path | None) -> list[Case]:
    """The cases of a program with that exit status, None if it was ended, and one for what its
    lines do not tell."""
    cases = list(report.cases)
    if report.planned is None:
        cases.append(failed(program, f"told nothing of its tests ({how})", log))
    elif report.missing:
        after = f"after {cases[-1].name.split('/')[-1]}" if cases else "in its first"
        cases.append(failed(program, f"ended {report.missing} tests early, {after} ({how})", log))
    elif status is None or (status and not of_outcome(cases, Outcome.FAILED)):
        cases.append(failed(program, f"after its last test: {how}", log))
    return cases
