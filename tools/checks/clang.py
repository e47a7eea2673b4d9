"""What clang sees and gcc does not, in the C files that the build in build/ compiles.

Warnings: the builds for other processors use clang, and a warning is an error there.

64-bit atomics of the libraries: a uint64_t in a struct has 4 bytes of alignment on 32-bit x86, and
an atomic access to it becomes a call of libatomic, which no library of TEK has.  tek_u64 of
abi/tek_types.h is aligned.

As a program, `python3 -m checks.clang` in tools: prints all of that.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

PASSED_ON = ("-I", "-D", "-std=", "-m32")
WARNINGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
# The warning comes when code is generated.
ATOMICS = ["-O0", "-S", "-o", "/dev/null", "-Wno-everything", "-Werror=atomic-alignment"]


def why_no_warnings(build: Path) -> str:
    """Why no file can be compiled by clang; empty if it can."""
    if not which("clang"):
        return "clang is missing (Debian's clang)"
    return "" if _commands(build, _is_source) else "nothing was built"


def why_no_atomics(build: Path) -> str:
    """Why no 64-bit atomics can be checked; empty if they can."""
    if not which("clang"):
        return "clang is missing (Debian's clang)"
    return "" if _commands(build, _is_of_32_bits) else \
        "nothing was built for 32 bits (Debian's gcc-multilib)"


def warnings(build: Path) -> list[str]:
    """The first warning of each file that has one."""
    return _first_messages(_commands(build, _is_source), WARNINGS)


def unaligned_atomics(build: Path) -> list[str]:
    """A line for each file with such an access."""
    return _first_messages(_commands(build, _is_of_32_bits), ATOMICS)


def _is_source(file: str, words: Sequence[str]) -> bool:
    return file.endswith(".c") and "-m32" not in words


def _is_of_32_bits(file: str, words: Sequence[str]) -> bool:
    return file.startswith("../lib/") and "-m32" in words


def _commands(build: Path, is_wanted: Callable[[str, Sequence[str]], bool]) -> list[dict]:
    """Entries of compile_commands.json, one for each file that is not generated."""
    path = build / "compile_commands.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    found = {entry["file"]: entry for entry in entries if entry["file"].startswith("../")
             and is_wanted(entry["file"], shlex.split(entry["command"]))}
    return [found[file] for file in sorted(found)]


def _first_messages(entries: list[dict], options: list[str]) -> list[str]:
    with ThreadPoolExecutor() as pool:
        return [line for line in pool.map(lambda entry: _message(entry, options), entries) if line]


def _message(entry: dict, options: list[str]) -> str:
    passed_on = [word for word in shlex.split(entry["command"]) if word.startswith(PASSED_ON)]
    compiled = subprocess.run(["clang", *passed_on, *options, entry["file"]],
                              cwd=entry["directory"], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return compiled.stdout.strip().partition("\n")[0] if compiled.returncode else ""


def main() -> int:
    build = Path(__file__).resolve().parent.parent.parent / "build"
    lines = warnings(build) + unaligned_atomics(build)
    print("\n".join(lines) or why_no_warnings(build) or why_no_atomics(build)
          or "clang warns of nothing")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
