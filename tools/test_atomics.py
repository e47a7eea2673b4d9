"""The check of atomics finds one that 32-bit x86 does not align."""

import json
import tempfile
import unittest
from pathlib import Path
from shutil import which

from checks import atomics

ACCESS = """
struct wait { int kind; TYPE since; };
TYPE since(struct wait *wait) { return __atomic_load_n(&wait->since, __ATOMIC_ACQUIRE); }
"""
PLAIN = "unsigned long long"
ALIGNED = "unsigned long long __attribute__((aligned(8)))"


class Atomics(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)
        (self.top / "build").mkdir()
        (self.top / "lib").mkdir()

    def breaches(self, kind: str, option: str = "-m32") -> list[str]:
        text = ACCESS.replace("TYPE", "number")
        (self.top / "lib/wait.c").write_text(f"typedef {kind} number;\n{text}")
        build = self.top / "build"
        entry = {"directory": str(build), "file": "../lib/wait.c",
                 "command": f"cc {option} -std=gnu17 -fno-such-option -c ../lib/wait.c"}
        (build / "compile_commands.json").write_text(json.dumps([entry]))
        return atomics.breaches(build)

    @unittest.skipUnless(which("clang"), "clang is missing")
    def test_an_atomic_that_is_not_aligned_is_a_breach(self):
        found, = self.breaches(PLAIN)
        self.assertIn("wait.c:4", found)
        self.assertEqual(self.breaches(ALIGNED), [])

    def test_what_is_built_for_64_bits_only_is_not_checked(self):
        self.assertEqual(self.breaches(PLAIN, "-m64"), [])
        self.assertTrue(atomics.why_not(self.top / "build"))
