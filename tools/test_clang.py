"""The checks by clang find a warning, and an atomic that 32-bit x86 does not align."""

import json
import tempfile
import unittest
from pathlib import Path
from shutil import which

from checks import clang

ACCESS = """
struct wait { int kind; TYPE since; };
TYPE since(struct wait *wait) { return __atomic_load_n(&wait->since, __ATOMIC_ACQUIRE); }
"""
# gcc does not warn of it.
SET_ONLY = """
int compute(void)
{
	volatile unsigned int sum = 0;
	for (unsigned int i = 0; i < 3; i++)
		sum += i;
	return 0;
}
"""
PLAIN = "unsigned long long"
ALIGNED = "unsigned long long __attribute__((aligned(8)))"


class Clang(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)
        (self.top / "build").mkdir()
        (self.top / "lib").mkdir()

    def build(self, text: str, option: str) -> Path:
        (self.top / "lib/wait.c").write_text(text)
        build = self.top / "build"
        entry = {"directory": str(build), "file": "../lib/wait.c",
                 "command": f"cc {option} -std=gnu17 -fno-such-option -c ../lib/wait.c"}
        (build / "compile_commands.json").write_text(json.dumps([entry]))
        return build

    def atomics(self, kind: str, option: str = "-m32") -> list[str]:
        text = ACCESS.replace("TYPE", "number")
        return clang.unaligned_atomics(self.build(f"typedef {kind} number;\n{text}", option))

    @unittest.skipUnless(which("clang"), "clang is missing")
    def test_an_atomic_that_is_not_aligned_is_a_breach(self):
        found, = self.atomics(PLAIN)
        self.assertIn("wait.c:4", found)
        self.assertEqual(self.atomics(ALIGNED), [])

    def test_what_is_built_for_64_bits_only_is_not_checked(self):
        self.assertEqual(self.atomics(PLAIN, "-m64"), [])
        self.assertTrue(clang.why_no_atomics(self.top / "build"))

    @unittest.skipUnless(which("clang"), "clang is missing")
    def test_a_variable_that_is_set_and_not_used_is_a_breach(self):
        found, = clang.warnings(self.build(SET_ONLY, "-m64"))
        self.assertIn("wait.c:4", found)
        self.assertEqual(clang.warnings(self.build(SET_ONLY.replace("+= i;", "+= i + sum;"), "")),
                         [])
