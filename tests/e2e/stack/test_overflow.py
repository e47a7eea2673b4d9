# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of `tek run` about a thread that ran out of its stack."""
import re
import subprocess

OVERFLOW, FRAME = 7, 8

RECURSES = r"""
int recurse_for_ever(int depth) { return depth ? recurse_for_ever(depth - 1) + depth : 0; }
int main(void) { return recurse_for_ever(0); }
"""

# Appends events to the file of the run: kind, error, values and text of each.
WRITES = r"""
import os, struct, sys
with open(os.environ["TEK_EVENTS"], "ab", 0) as file:
    for kind, error, values, text in eval(sys.argv[1]):
        file.write(struct.pack("=IHHIIQii4Q16s64s112s", 0x564b4554, 256, kind, 12, 13, 5, error, 0,
                               *values, b"gas", b"fridge", text.encode()))
"""


def address_of(program, symbol):
    names = subprocess.run(["nm", program], capture_output=True, text=True, timeout=60,
                           check=True).stdout
    return int(re.search(rf"^(\w+) T {symbol}$", names, re.MULTILINE).group(1), 16)


def test_an_overflow_is_reported_with_its_backtrace_in_names(tek, compile_c):
    program = str(compile_c(RECURSES, "cc"))
    inside, main = (address_of(program, symbol) for symbol in ("recurse_for_ever", "main"))
    events = [
        (OVERFLOW, 1, (65536, 4096, 0, 0), "gas detection"),
        (FRAME, 0, (0, main, main, 0), program),
        (FRAME, 0, (1, inside + 3, inside + 3, 0), program),
        (FRAME, 0, (2, inside + 9, inside + 9, 700), program),
        (FRAME, 0, (3, 0x1234, 0x1234, 0), "/nowhere/libgas.so"),
    ]
    ended = tek("run", "--no-rules", "--", "python3", "-c", WRITES, repr(events))
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines() == [
        "tek: thread gas (gas detection) [13] of fridge [12] ran out of its stack of 64.0K, which "
        "TEK "
        "chose; the next run gives it more",
        "tek:   [13] runs main",
        "tek:   [13] #1 recurse_for_ever+0x3",
        "tek:   [13] #2 recurse_for_ever+0x9, then 700 more frames",
        "tek:   [13] #3 libgas.so+0x1234",
    ]
