"""Builds in one system, copies the build into another one and tests it there."""

import shutil
import subprocess
from pathlib import Path

from .system import Failed, System

# Directories below build/ that no test of the build needs.
NOT_COPIED = ["cargo", "asan", "tsan", "check"]


def run(before: System, after: System, top: Path, tree: str, what: str, log: Path) -> int:
    """Build in `before`, then test or demonstrate in `after`. Returns the exit status of that."""
    built = before.put(top, tree)
    status = before.run("bash", "-c", f"cd {tree} && tools/setup tests && tools/build", log=log)
    if status:
        raise Failed(f"the build failed in {before.suite} ({log}).")
    print(f"Copying the build from {before.suite} to {after.suite}", flush=True)
    for name in NOT_COPIED:
        shutil.rmtree(built / "build" / name, ignore_errors=True)
    there = after.root / tree.lstrip("/")
    shutil.rmtree(there, ignore_errors=True)
    there.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", built, there], check=True)
    # It lists packages that are unavailable in the other system.
    (there / "build/setup.lacking").unlink(missing_ok=True)
    commands = {
        "check": "tools/setup tests && PYTHONPATH=tools exec python3 -B -m checks.carried",
        "demo": "exec build/bin/tek bench response --quick",
    }
    return after.run("bash", "-c", f"cd {tree} && {commands[what]}", log=log)
