"""The names of lib/: each library has a prefix of its own, and each name has one meaning.

tests/one_program links all libraries below preload/ into one program.  The libraries' symbols in
preload/ are those of the C library, so no program can have two of them: for their inner names this
check stands.

As a program, `python3 -m checks.names` in tools: prints each breach.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

from .layers import DEFINITION, INLINE, code_of

LIBTEK = "tek__"
# A folder of lib/ or of lib/preload/, and what its inner names begin with.
PREFIXES = {
    "alloc": "tek_alloc__",
    "profile": "tek_prof__",
    "rtfifo": "tek_sync__",  # a lock of sync/ in a library of its own
    "sync": "tek_sync__",
    "uthread": "tek_ut__",
}
TAG = re.compile(r"^(?:typedef )?((?:struct|union|enum) tek_\w+) \{", re.MULTILINE)


def prefix_of(file: str) -> str:
    first, second, *_ = file.split("/")
    return PREFIXES.get(second if first == "preload" else first, LIBTEK)


def breaches(top: Path) -> list[str]:
    """A line for each name with another library's prefix, or with two definitions."""
    lines = []
    units = defaultdict(set)  # a source and its header are one
    for file, text in code_of(top / "lib").items():
        names = set((INLINE if file.endswith(".h") else DEFINITION).findall(text))
        lines += [f"lib/{file}: {name} does not begin with {prefix_of(file)}"
                  for name in sorted(names) if not name.startswith(prefix_of(file))]
        if not file.startswith("arch/"):  # one of these headers is of the processor
            for name in names | set(TAG.findall(text)):
                units[name].add(f"lib/{file.rsplit('.', 1)[0]}")
    return lines + [f"{name} is defined in {' and in '.join(sorted(places))}"
                    for name, places in sorted(units.items()) if len(places) > 1]


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "the names of lib/ are unique")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
