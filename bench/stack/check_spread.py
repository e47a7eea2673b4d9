# SPDX-License-Identifier: MIT OR Apache-2.0
"""Succeed if spread.csv is what the reports say of it: 273 threads, 50,828 KiB, 48 kinds."""

import csv
import sys

with open(sys.argv[1], newline="", encoding="ascii") as file:
    rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
used = [int(row["bytes"]) for row in rows]
assert [int(row["thread"]) for row in rows] == list(range(1, 274))
assert sum(used) == 50_828 * 1024
assert len(set(used)) == 48
assert all(number % 16 == 0 for number in used), "a stack is used in units of 16 bytes"
assert max(used) * 1.2 <= 2 * 1024 * 1024, "it has to fit a conventional stack of 2 MiB"
