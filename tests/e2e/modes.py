# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ways to run a program: each loads other libraries, or changes their behaviour."""

MODES = {
    "plain": ["run"],
    "critical": ["run", "--critical", "*"],
    "report": ["run", "--report"],
    "stack": ["run", "--stack", "auto"],
    "lock": ["run", "--lock", "park", "--rwlock", "park", "--barrier", "block"],
    "tlsf": ["run", "--alloc", "tlsf"],
    "pool": ["run", "--alloc", "pool=16M"],
    "spread": ["run", "--place", "spread"],
    "rtfifo": ["run", "--place", "rtfifo"],
    "m:1": ["run", "--model", "m:1"],
    "m:n": ["run", "--model", "m:n", "--workers", "2"],
    "m:n with locks": ["run", "--model", "m:n", "--workers", "2", "--lock", "auto"],
    "profile": ["profile", "-o", "/dev/null"],
}
