"""Tests of tools/kernel-symbols: gdb knows a kernel by its own list of symbols."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).with_name("kernel-symbols")
OF_64_BITS = """\
ffffffff81000000 T _text
ffffffff81000000 T __pi__text
ffffffff817928f0 t do_sys_openat2
ffffffff8301b100 D init_task
ffffffff84230000 B _end
ffffffffc0201000 t of_a_module\t[ext4]
"""
OF_32_BITS = """\
c0300000 T _text
c0312340 T schedule
c1a00000 B _end
"""


def convert(text):
    with tempfile.TemporaryDirectory() as directory:
        kallsyms = Path(directory, "kallsyms")
        kallsyms.write_text(text)
        return subprocess.run([TOOL, kallsyms], capture_output=True, check=False)


@unittest.skipUnless(shutil.which("readelf"), "needs readelf (binutils)")
class KernelSymbols(unittest.TestCase):
    def symbols(self, text):
        with tempfile.NamedTemporaryFile() as file:
            file.write(convert(text).stdout)
            file.flush()
            seen = subprocess.run(["readelf", "-hsW", file.name], capture_output=True, text=True,
                                  check=True)
        self.assertEqual(seen.stderr, "")
        rows = [line.split() for line in seen.stdout.splitlines()]
        kinds = {row[7]: (int(row[1], 16), row[3]) for row in rows if len(row) == 8
                 and row[4] == "GLOBAL"}
        return kinds, seen.stdout

    def test_functions_and_data_of_the_kernel_itself_are_in_it(self):
        symbols, header = self.symbols(OF_64_BITS)
        self.assertEqual(symbols["do_sys_openat2"], (0xffffffff817928f0, "FUNC"))
        self.assertEqual(symbols["init_task"], (0xffffffff8301b100, "OBJECT"))
        self.assertEqual(set(symbols), {"_text", "do_sys_openat2", "init_task"})
        self.assertIn("X86-64", header)

    def test_kernels_of_32_bits_too(self):
        symbols, header = self.symbols(OF_32_BITS)
        self.assertEqual(symbols["schedule"], (0xc0312340, "FUNC"))
        self.assertIn("ARM", header)

    def test_a_list_without_addresses_is_refused(self):
        for text in ("", "0000000000000000 T _text\n0000000000000000 B _end\n"):
            ended = convert(text)
            self.assertEqual((ended.returncode, ended.stdout), (1, b""))
            self.assertIn(b"read it as root", ended.stderr)


if __name__ == "__main__":
    unittest.main()
