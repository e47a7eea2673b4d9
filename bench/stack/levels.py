# SPDX-License-Identifier: MIT OR Apache-2.0
"""Turn spread.csv into C: LEVEL(number, bytes) for each kind, THREAD(number) for each thread."""

import csv
import sys

with open(sys.argv[1], newline="", encoding="ascii") as file:
    rows = csv.DictReader(line for line in file if not line.startswith("#"))
    threads = [int(row["bytes"]) for row in rows]
levels = sorted(set(threads))
with open(sys.argv[2], "w", encoding="ascii") as out:
    out.write("/* Made of spread.csv by levels.py. */\n")
    out.write("#define LEVELS(LEVEL) \\\n")
    out.write(" \\\n".join(f"\tLEVEL({n}, {level})" for n, level in enumerate(levels)) + "\n\n")
    out.write("#define THREADS(THREAD) \\\n")
    out.write(" \\\n".join(f"\tTHREAD({levels.index(bytes)})" for bytes in threads) + "\n")
