"""No file of C, C++, Rust or Python has more than 500 lines.

A longer one has several subjects: split it by these, into one file for each.

As a program, `python3 -m checks.lengths` in tools: prints each breach.
"""

import sys
from pathlib import Path

from . import language

LINES = 500
LANGUAGES = ("c", "python", "rust")


def breaches(top: Path) -> list[str]:
    """A line for each breach."""
    lengths = {name: _lines(top / name) for name in language.tracked_files(top)
               if language.language_of(top / name) in LANGUAGES}
    return [f"{name}: has {lines} lines, more than {LINES}: split it by subjects"
            for name, lines in sorted(lengths.items()) if lines > LINES]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "no file is too long")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
