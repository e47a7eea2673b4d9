# SPDX-License-Identifier: MIT OR Apache-2.0
"""libtek-sync-native.so replaces nothing of the C library."""
import re
import subprocess

from conftest import BUILD, INCLUDE

LIBRARY = BUILD / "lib" / "libtek-sync-native.so"


def test_it_has_the_functions_of_its_header_and_no_other_ones():
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, timeout=60,
                            stdout=subprocess.PIPE, text=True).stdout
    has = {line.split()[-1] for line in listed.splitlines()}
    header = (INCLUDE / "tek" / "lock.h").read_text()
    assert has == set(re.findall(r"^\w.*?\b(tek_lock_\w+)\(", header, re.M))
