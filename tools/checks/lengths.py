"""No file of C, C++, Rust or Python has more than 500 lines.

A longer one has several subjects: split it by these, into one file for each.  `LONGER` names the
files that are still to be split.  One that has become short enough, or is gone, has to leave it.

As a program, `python3 -m checks.lengths` in tools: prints each breach.
"""

import sys
from pathlib import Path

from . import language

LINES = 500
LANGUAGES = ("c", "python", "rust")

LONGER: frozenset[str] = frozenset()


def breaches(top: Path, longer: frozenset[str] = LONGER) -> list[str]:
    """A line for each breach."""
    lengths = {name: _lines(top / name) for name in language.tracked_files(top)
               if language.language_of(top / name) in LANGUAGES}
    too_long = {name: lines for name, lines in lengths.items() if lines > LINES}
    return [*(f"{name}: has {lines} lines, more than {LINES}: split it by subjects"
              for name, lines in sorted(too_long.items()) if name not in longer),
            *(f"{name}: has no more than {LINES} lines: take it out of LONGER in "
              "tools/checks/lengths.py" for name in sorted(longer - too_long.keys()))]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "no file is too long")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
