"""Whether two builds have the same machine code, as after changes of comments and inner names only.

As a program, `python3 -m checks.objects OLD NEW` in tools: compares each library and each program
of the C half in two build directories, without symbols, debug information and build id.  Prints a
line for each, with the sections that differ.  Exit status 1 if a section with code or data differs.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Its name, type, four numbers, and flags with A: it is loaded.
SECTION = re.compile(r"^\s*\[\s*\d+\]\s+(\S+)\s+[A-Z_]+(?:\s+[0-9a-f]+){4}\s+\w*A", re.MULTILINE)
# Names: of exported symbols, which include those of sections, and the hash tables of these.
NAMES = (".dynstr", ".dynsym", ".gnu.hash", ".hash", ".gnu.version")
ELF = b"\x7fELF"


def files_of(build: Path) -> dict[str, Path]:
    """The libraries and programs, by path in the build directory."""
    found = [*build.glob("lib*/*.so*"), *build.glob("tests/**/*"), *build.glob("bench/**/*")]
    return {str(path.relative_to(build)): path for path in sorted(found)
            if path.is_file() and not path.is_symlink() and not path.suffix == ".o"
            and path.open("rb").read(4) == ELF}


def sections_of(file: Path) -> dict[str, bytes]:
    """The bytes of each section that is loaded."""
    listed = subprocess.run(["readelf", "--section-headers", "--wide", file], check=True,
                            capture_output=True, text=True).stdout
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in SECTION.findall(listed):
            if name in (".bss", ".tbss", ".note.gnu.build-id"):
                continue
            part = Path(directory) / "part"
            subprocess.run(["objcopy", f"--dump-section={name}={part}", file,
                            Path(directory) / "copy"], check=True)
            found[name] = part.read_bytes()
    return found


def differing(old: Path, new: Path) -> list[str]:
    """The sections that differ, or that one of the two files lacks."""
    before, after = sections_of(old), sections_of(new)
    return sorted(name for name in before.keys() | after.keys()
                  if before.get(name) != after.get(name))


def main() -> int:
    old, new = (files_of(Path(name)) for name in sys.argv[1:])
    wrong = False
    for name in sorted(old.keys() & new.keys()):
        sections = differing(old[name], new[name])
        wrong |= not set(sections) <= {*NAMES}
        print(f"{name}: {'differs in ' + ', '.join(sections) if sections else 'the same'}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
