"""Tests of how tools/check builds and runs the C tests and the fuzzers."""

import base64
import json
import shutil
import tempfile
import unittest
from pathlib import Path

from checks import c_tests, fuzz_tests, process


class Sanitized(unittest.TestCase):
    def needed(self, suites):
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory)
        info = directory / "meson-info"
        info.mkdir()
        tests = [{"depends": [name], "suite": [f"tek:{suite}"]}
                 for name, suite in (("a", "unit"), ("b", "one-thread"), ("c", "program"))]
        targets = [{"id": name, "filename": [str(directory / name)]} for name in "abcd"]
        (info / "intro-tests.json").write_text(json.dumps(tests))
        (info / "intro-targets.json").write_text(json.dumps(targets))
        return c_tests._needed(directory, suites)  # pylint: disable=protected-access

    def test_only_what_runs_under_a_sanitizer_is_built_for_it(self):
        self.assertEqual(self.needed(c_tests.SANITIZED["asan"]), ["a", "b"])
        self.assertEqual(self.needed(c_tests.SANITIZED["tsan"]), ["a"])


class Fuzzing(unittest.TestCase):
    def setUp(self):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        self.context = process.Context(top, top / "build", False)
        self.kept = top / fuzz_tests.CORPUS / "fuzz_x.txt"
        self.kept.parent.mkdir(parents=True)

    def inputs(self):
        found = fuzz_tests._inputs(self.context, "fuzz_x")  # pylint: disable=protected-access
        return sorted(file.read_bytes() for file in found.iterdir())

    def test_kept_inputs_come_back_byte_by_byte(self):
        inputs = [b"", b"\0\n\xff", b"text"]
        self.kept.write_text("".join(f"{base64.b64encode(one).decode()}\n" for one in inputs))
        self.assertEqual(self.inputs(), inputs)

    def test_a_fuzzer_without_kept_inputs_begins_with_none(self):
        self.assertEqual(self.inputs(), [])

    def test_a_damaged_line_is_an_error(self):
        self.kept.write_text("not base64!\n")
        with self.assertRaises(ValueError):
            self.inputs()


if __name__ == "__main__":
    unittest.main()
