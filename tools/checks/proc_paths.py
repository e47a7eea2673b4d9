"""Threads with real-time priorities look up tasks in /proc only after they asked for the task.

A lookup of an ended task can keep such a thread in the kernel for ever:
crates/tek-procfs/README.md.  So in Rust these paths come from tek-procfs, and in C each such path
is beside a call of tek__procfs_exists().

As a program, `python3 -m checks.proc_paths` in tools: prints each breach.
"""

import re
import sys
from pathlib import Path

# What may run with a real-time priority: the daemon with its crates, and the watcher of tek run.
RUST = ("crates/tekd/src", "crates/tek-effect/src", "crates/tek-bpf/src",
        "crates/tek/src/run/keeper.rs")
IN_RUST = re.compile(r'"/proc/\{|Path::new\("/proc"\)\.join')
TESTS = "#[cfg(test)]\nmod tests {"
IN_C = re.compile(r'"/proc/(?:self/task/)?%d|"/proc/self/task/"')
ASKS_IN_C = "tek__procfs_exists("
IS_TEST = re.compile(r"(?:^|/)(?:fault|tests|\w+_tests)\.rs$")


def breaches(top: Path) -> list[str]:
    """A line for each breach."""
    lines = []
    for file in sorted(file for part in RUST for file in _sources(top / part)):
        name = file.relative_to(top).as_posix()
        text = file.read_text().split(TESTS)[0]
        if not IS_TEST.search(name):
            lines += [f"{name}: {found}… names a task: take the path from tek_procfs"
                      for found in IN_RUST.findall(text)]
    for file in sorted((top / "lib").rglob("*.c")):
        text = file.read_text()
        paths = len(IN_C.findall(text))
        if paths > text.count(ASKS_IN_C):
            lines.append(f"{file.relative_to(top).as_posix()}: {paths} paths name a task: ask "
                         "tek__procfs_exists() before each lookup")
    return lines


def _sources(part: Path) -> list[Path]:
    return [part] if part.is_file() else list(part.rglob("*.rs"))


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "who looks up a task in /proc asks for it before")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
