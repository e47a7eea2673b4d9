# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that no file needs a symbol of a newer glibc than the oldest supported one.

oldest.py VERSION FILE...: `objdump -p` lists the versions that a file needs.
"""
import re
import subprocess
import sys


def needed(path):
    """The versions of glibc that the file needs, as pairs of numbers."""
    shown = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True)
    return [
        tuple(int(number) for number in version.split("."))
        for version in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)\b", shown.stdout)
    ]


def main(oldest, *paths):
    """Returns 1 if a file needs a newer version."""
    limit = tuple(int(number) for number in oldest.split("."))
    newer = [
        f"{path}: GLIBC_{'.'.join(map(str, version))}"
        for path in paths
        for version in needed(path)
        if version > limit
    ]
    for line in newer:
        print(line, "is needed: see lib/oldest/features.h")
    return 1 if newer or not paths else 0


sys.exit(main(*sys.argv[1:]))
