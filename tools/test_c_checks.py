"""Tests of how tools/check builds and runs the C tests and the fuzzers."""

import base64
import json
import os
import shutil
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from checks import c_tests, fuzz_tests, process
from checks.results import Outcome


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


# In place of Meson: it runs so many of its tests, and ends.
ENDS_EARLY = """#!/usr/bin/env python3
import json, pathlib, sys
arguments = sys.argv[sys.argv.index("-C") + 2:]
names = [it for it in arguments if it in "abcd"] or list("abcd")
if "--list" in arguments:
    print(*(f"tek:unit / {it}" for it in names), sep="\\n")
    sys.exit()
log = pathlib.Path(sys.argv[sys.argv.index("-C") + 1]) / "meson-logs/testlog.json"
log.parent.mkdir(exist_ok=True)
run = names[:MOST]
results = [{"name": f"tek:unit / {it}", "result": "OK", "returncode": 0} for it in run]
log.write_text("".join(json.dumps(it) + "\\n" for it in results))
sys.exit(len(run) < len(names))
"""


class EndsEarly(unittest.TestCase):
    def cases(self, most):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        meson = top / "bin" / "meson"
        meson.parent.mkdir()
        meson.write_text(ENDS_EARLY.replace("MOST", str(most)))
        meson.chmod(0o755)
        (top / "build").mkdir()
        context = process.Context(top, top / "build", False)
        with unittest.mock.patch.dict(os.environ, PATH=f"{meson.parent}:{os.environ['PATH']}"):
            return c_tests._test(  # pylint: disable=protected-access
                context, "c", context.build, [], [])

    def test_all_tests_run_at_once(self):
        self.assertEqual([case.name for case in self.cases(4)], list("abcd"))

    def test_tests_that_did_not_run_get_another_run(self):
        cases = self.cases(2)
        self.assertEqual([case.name for case in cases], list("abcd"))
        self.assertTrue(all(case.outcome is Outcome.PASSED for case in cases))

    def test_tests_that_never_ran_fail_the_suite(self):
        lost = self.cases(1)[-1]
        self.assertIs(lost.outcome, Outcome.FAILED)
        self.assertEqual(lost.reason, "exit status 1, 2 tests did not run")
        self.assertIs(self.cases(0)[-1].outcome, Outcome.FAILED)


class Fuzzing(unittest.TestCase):
    def setUp(self):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        self.context = process.Context(top, top / "build", False)
        self.held = top / fuzz_tests.CORPUS / "fuzz_x.txt"
        self.held.parent.mkdir(parents=True)

    def inputs(self):
        found = fuzz_tests._inputs(self.context, "fuzz_x")  # pylint: disable=protected-access
        return sorted(file.read_bytes() for file in found.iterdir())

    def test_stored_inputs_come_back_byte_by_byte(self):
        inputs = [b"", b"\0\n\xff", b"text"]
        self.held.write_text("".join(f"{base64.b64encode(one).decode()}\n" for one in inputs))
        self.assertEqual(self.inputs(), inputs)

    def test_a_fuzzer_without_stored_inputs_begins_with_none(self):
        self.assertEqual(self.inputs(), [])

    def test_a_damaged_line_is_an_error(self):
        self.held.write_text("not base64!\n")
        with self.assertRaises(ValueError):
            self.inputs()


if __name__ == "__main__":
    unittest.main()
