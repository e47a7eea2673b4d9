"""The layers of lib/: a folder includes headers of lower folders only, and uses their names only.

As a program, `python3 -m checks.layers` in tools: prints each breach.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

# The lowest layer comes first.  Folders of one layer do not include each other.
LAYERS = (
    ("base",),
    ("arch",),
    ("exec",),
    ("threads",),
    ("mediate", "place", "stack"),
    ("inherit",),
    ("life",),
    ("preload",),
)
# Libraries of their own beside libtek.so: the folders below each.  Only preload/ is above them.
LIBRARIES = {
    "alloc": {"base"},
    "profile": {"base"},
    "sync": {"base"},
    "uthread": {"base", "arch"},
}
# The headers of libtek.so that uthread/ shares: the table, roles from rules, sizes of stacks.
SHARED = {
    "uthread": {
        "mediate/rule.h", "stack/config.h", "stack/fit.h", "stack/learnt.h",
        "threads/rundir.h", "threads/table.h",
    },
}
# Declared below and defined above: the only ways up.  tek__hooks is the table of life/hooks.c; the
# other two are weak, for libtek.so to find in another library.
INVERTED = {"tek__hooks", "tek_prof__passed", "tek_sync__wants_cpus"}

# Headers and libraries of others.
FOREIGN = {"libm", "oldest"}

SUFFIXES = (".c", ".h", ".S", ".in")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
NAME = re.compile(r"\btek_?[a-z]*__\w+")
# A function or a variable that begins in the first column of a C file.
DEFINITION = re.compile(
    r"^(?!static\b|extern\b|typedef\b)(?=[A-Za-z_])[^\n;={}]*?\b(tek_?[a-z]*__\w+)"
    r"(?:\([^;{}]*\{|\s*(?:=|;|\[|__attribute__))", re.MULTILINE)
# Those in a header, which has them for each file that includes it.
INLINE = re.compile(r"^static inline\b[^\n;={}]*?\b(tek_?[a-z]*__\w+)\(", re.MULTILINE)


def below(folder: str) -> set[str]:
    """The folders that a folder may include, itself among them."""
    if folder in LIBRARIES:
        return {folder, *LIBRARIES[folder]}
    allowed = {folder}
    for layer in LAYERS:
        if folder in layer:
            break
        allowed.update(layer)
    else:
        raise ValueError(f"lib/{folder}/ is in no layer")
    return allowed | set(LIBRARIES) if folder == "preload" else allowed


def breaches(top: Path) -> list[str]:
    """A line for each include, and for each use of a name, against the order."""
    lib, lines = top / "lib", []
    code = code_of(lib)
    bases = _bases(code)
    for file, text in code.items():
        folder = file.split("/")[0]
        if folder in FOREIGN:
            continue
        allowed = below(folder)
        lines += [f"lib/{file}: includes {header}"
                  for header in INCLUDE.findall((lib / file).read_text())
                  if "/" in header and not _may_include(folder, allowed, header)]
        lines += [f"lib/{file}: uses {name} of {' and '.join(sorted(bases[name]))}/"
                  for name in sorted(set(NAME.findall(text)) - INVERTED)
                  if name in bases and not bases[name] & (allowed | _shared_folders(folder))]
    return lines


def code_of(lib: Path) -> dict[str, str]:
    """The files in the folders of lib/, without comments and strings."""
    return {path.relative_to(lib).as_posix(): NO_CODE.sub(" ", path.read_text())
            for path in sorted(lib.rglob("*"))
            if path.suffix in SUFFIXES and len(path.relative_to(lib).parts) > 1}


def _may_include(folder: str, allowed: set[str], header: str) -> bool:
    return header.split("/")[0] in allowed or header in SHARED.get(folder, ())


def _shared_folders(folder: str) -> set[str]:
    return {header.split("/")[0] for header in SHARED.get(folder, ())}


def _bases(code: dict[str, str]) -> dict[str, set[str]]:
    """The folders that define each name."""
    bases: dict[str, set[str]] = defaultdict(set)
    for file, text in code.items():
        for name in (INLINE if file.endswith(".h") else DEFINITION).findall(text):
            bases[name].add(file.split("/")[0])
    return bases


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "lib/ is in order")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
