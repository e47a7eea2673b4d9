"""A build made in one system, carried into another one and tested there as it is."""

import shutil
import subprocess
from pathlib import Path

from .system import Failed, System

# What only building needs, and no test of what was built.
LEFT = ["cargo", "asan", "tsan", "check"]


def run(before: System, after: System, top: Path, tree: str, what: str, log: Path) -> int:
    """Builds in `before`, and tests or shows in `after`. The exit status of that."""
    built = before.put(top, tree)
    status = before.run("bash", "-c", f"cd {tree} && tools/setup tests && tools/build", log=log)
    if status:
        raise Failed(f"it does not build in {before.suite} ({log}).")
    print(f"Carrying the build from {before.suite} to {after.suite}", flush=True)
    for name in LEFT:
        shutil.rmtree(built / "build" / name, ignore_errors=True)
    there = after.root / tree.lstrip("/")
    shutil.rmtree(there, ignore_errors=True)
    there.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", built, there], check=True)
    # What of the other system's packages cannot be had says nothing of this one's.
    (there / "build/setup.lacking").unlink(missing_ok=True)
    shown = {
        "check": "tools/setup tests && PYTHONPATH=tools exec python3 -B -m checks.carried",
        "demo": "exec build/bin/tek bench response --quick",
    }
    return after.run("bash", "-c", f"cd {tree} && {shown[what]}", log=log)
