"""Judges one cell: what a program did in a mode, against the right answer and what is known."""

import enum
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

FIRST_LINES, LAST_LINES = 2, 6  # of standard error that are shown
# What `tek` says where a mode does not apply to a program, which then runs without it.
REFUSED = re.compile(
    r"it runs, but|cannot become time-critical|not understood|not put into|cannot be profiled"
    r"|is not profiled|refused|runs as it is|on threads of the kernel|not supported|cannot be"
)
OWN_FAILURE = 125  # the exit status of tek itself


class Verdict(enum.Enum):
    WORKS = "works"
    REFUSED = "refused"
    DIFFERS = "differs"
    HANGS = "hangs"
    SKIPPED = "skipped"


_RANK = {Verdict.WORKS: 0, Verdict.REFUSED: 1, Verdict.DIFFERS: 2, Verdict.HANGS: 2}


@dataclass(frozen=True)
class Outcome:
    """What happened. `answer` is None if the work did not end."""

    answer: str | None
    problem: str = ""
    status: int = 0
    hung: bool = False
    errors: str = ""


@dataclass(frozen=True)
class Known:
    """A cell that is expected not to work; program and mode are patterns."""

    program: str
    mode: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Cell:
    program: str
    mode: str
    verdict: Verdict
    why: str = ""
    errors: tuple[str, ...] = ()
    seconds: float = 0


def judge(outcome: Outcome, right: str) -> tuple[Verdict, str]:
    seen = refusals(outcome.errors)
    if outcome.hung:
        return Verdict.HANGS, outcome.problem
    if outcome.answer is None:
        if outcome.status == OWN_FAILURE and text_by_tek(outcome.errors):
            return Verdict.REFUSED, text_by_tek(outcome.errors)[-1]
        return Verdict.DIFFERS, outcome.problem
    if not re.fullmatch(right, outcome.answer, re.DOTALL):
        return Verdict.DIFFERS, f"answered {short(outcome.answer)!r}"
    if seen:
        return Verdict.REFUSED, seen[0]
    return Verdict.WORKS, ""


def text_by_tek(errors: str) -> list[str]:
    return [line[5:] for line in errors.splitlines() if line.startswith("tek: ")]


def refusals(errors: str) -> list[str]:
    return [line for line in text_by_tek(errors) if REFUSED.search(line)]


def telling_lines(errors: str) -> tuple[str, ...]:
    """The last lines of standard error, and the first ones: Go begins with the reason."""
    lines = [line[:300] for line in errors.splitlines() if line.strip()]
    if len(lines) <= FIRST_LINES + LAST_LINES:
        return tuple(lines)
    return (*lines[:FIRST_LINES], "...", *lines[-LAST_LINES:])


def short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def expected(cell: Cell, known: tuple[Known, ...]) -> Known | None:
    """The first entry for a cell; none for a program without TEK."""
    if cell.mode == "native":
        return None
    return next(
        (
            entry
            for entry in known
            if fnmatchcase(cell.program, entry.program) and fnmatchcase(cell.mode, entry.mode)
        ),
        None,
    )


def change(cell: Cell, known: tuple[Known, ...]) -> int:
    """Below 0: better than known; 0: as known; above 0: worse."""
    if cell.verdict is Verdict.SKIPPED:
        return 0
    entry = expected(cell, known)
    return _RANK[cell.verdict] - (_RANK[entry.verdict] if entry else 0)
