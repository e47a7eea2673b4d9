"""64-bit atomics of the libraries are aligned to 8 bytes on 32-bit x86, too.

A uint64_t in a struct has 4 bytes of alignment there, and an atomic access to it becomes a call of
libatomic, which no library of TEK has.  clang warns of these accesses, gcc does not.  tek_u64 of
abi/tek_types.h is aligned.

As a program, `python3 -m checks.atomics` in tools: prints each such access in what the build in
build/ compiles for 32 bits.
"""

import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

PASSED_ON = ("-I", "-D", "-std=", "-m32")
# The warning comes when code is generated.
WARNING = ["-O0", "-S", "-o", "/dev/null", "-Wno-everything",
           "-Werror=atomic-alignment"]


def why_not(build: Path) -> str:
    """Why nothing can be checked; empty if it can."""
    if not which("clang"):
        return "clang is missing (Debian's clang)"
    return "" if _commands(build) else "nothing was built for 32 bits (Debian's gcc-multilib)"


def breaches(build: Path) -> list[str]:
    """A line for each file with such an access."""
    with ThreadPoolExecutor() as pool:
        return [line for line in pool.map(_breach, _commands(build)) if line]


def _commands(build: Path) -> list[dict]:
    """The entries of compile_commands.json for 32 bits, one for each file that is not generated."""
    path = build / "compile_commands.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    found = {entry["file"]: entry for entry in entries
             if "-m32" in shlex.split(entry["command"]) and entry["file"].startswith("../lib/")}
    return [found[file] for file in sorted(found)]


def _breach(entry: dict) -> str:
    options = [word for word in shlex.split(entry["command"]) if word.startswith(PASSED_ON)]
    compiled = subprocess.run(["clang", *options, *WARNING, entry["file"]], cwd=entry["directory"],
                              check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    return compiled.stdout.strip().partition("\n")[0] if compiled.returncode else ""


def main() -> int:
    build = Path(__file__).resolve().parent.parent.parent / "build"
    lines = breaches(build)
    print("\n".join(lines) or why_not(build) or "64-bit atomics are aligned")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
