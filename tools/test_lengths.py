"""The check of lengths fails on a long file of each language."""

import tempfile
import unittest
from pathlib import Path

from checks import lengths


class Lengths(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)

    def breaches(self) -> list[str]:
        return lengths.breaches(self.top)

    def write(self, name: str, lines: int) -> None:
        (self.top / name).write_text("\n" * lines)

    def test_a_file_of_more_than_500_lines_is_a_breach(self):
        for name in ("one.c", "one.h", "one.cpp", "one.rs", "one.py"):
            self.write(name, 500)
            self.assertEqual(self.breaches(), [])
            self.write(name, 501)
            found, = self.breaches()
            self.assertTrue(found.startswith(f"{name}: has 501 lines"), found)
            self.write(name, 1)

    def test_a_program_without_a_suffix_counts_by_its_interpreter(self):
        (self.top / "one").write_text("#!/usr/bin/env python3\n" + "\n" * 500)
        self.assertEqual(len(self.breaches()), 1)

    def test_text_may_be_long(self):
        self.write("one.md", 900)
        self.write("one.toml", 900)
        self.assertEqual(self.breaches(), [])


if __name__ == "__main__":
    unittest.main()
