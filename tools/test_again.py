"""Tests of tools/check: what runs again, beside load, or many times."""

import contextlib
import io
import os
import re
import shutil
import tempfile
import time
import unittest
from pathlib import Path

from checks import again, e2e_tests, load, process, results, rust_tests, stress

TOP = Path(__file__).resolve().parents[1]
PASSED, FAILED, SKIPPED = results.Outcome


class Scripted:
    """A suite whose tests come out as told, one run after the other."""

    def __init__(self, **outcomes):
        self.outcomes = {name: list(list_of) for name, list_of in outcomes.items()}
        self.runs = 0

    def __call__(self, context, name):
        self.runs += 1
        return [results.Case(name, self.outcomes[name].pop(0))]


class WithContext(unittest.TestCase):
    def setUp(self):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        self.context = process.Context(top, top / "build", False)
        self.context.logs.mkdir(parents=True)
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)


class Again(WithContext):
    def settle(self, *names, suite="s", **outcomes):
        self.way = Scripted(**outcomes)
        failures = [results.failed(f"{suite}: {name}", "at first", output=f"words of {name}")
                    for name in names]
        return again.settle(self.context, failures, {"s": self.way})

    def test_a_test_that_passes_alone_is_flaky_and_no_failure(self):
        case, = self.settle("a", a=[PASSED])
        self.assertEqual((case.outcome, case.flaky), (PASSED, True))
        self.assertTrue(results.succeeded([case]))

    def test_a_test_runs_again_twice_at_most(self):
        case, = self.settle("a", a=[FAILED, FAILED, PASSED])
        self.assertEqual((case.outcome, case.flaky, self.way.runs), (FAILED, False, 2))
        case, = self.settle("a", a=[FAILED, PASSED])
        self.assertTrue(case.flaky)

    def test_a_skip_alone_does_not_excuse_a_failure(self):
        self.assertEqual(self.settle("a", a=[SKIPPED, SKIPPED])[0].outcome, FAILED)

    def test_a_suite_whose_tests_cannot_run_alone_keeps_its_failures(self):
        case, = self.settle("a", suite="fuzz", a=[PASSED])
        self.assertEqual((case.outcome, self.way.runs), (FAILED, 0))

    def test_a_flaky_test_is_logged_with_what_it_printed(self):
        self.settle("a", a=[PASSED])
        self.settle("b", b=[PASSED])
        log = (self.context.logs / again.RECORD).read_text()
        for words in ("s: a\n", "words of a", "s: b\n", "words of b", "at first"):
            self.assertIn(words, log)

    def test_a_flaky_test_is_listed_before_the_last_line(self):
        lines = results.summary(self.settle("a", a=[PASSED])).split("\n")
        self.assertEqual(lines[-1], "1 passed, 0 failed, 0 skipped")
        self.assertTrue(any(line.startswith("Flaky: 1 ") for line in lines[:-1]))
        self.assertTrue(any(line.startswith("  s: a: at first") for line in lines[:-1]))

    def test_three_flaky_tests_do_not_fail_the_run_and_four_do(self):
        for names, expected in (("abc", True), ("abcd", False)):
            cases = self.settle(*names, **{name: [PASSED] for name in names})
            self.assertEqual(results.succeeded(cases), expected)

    def test_many_failures_are_not_run_again(self):
        names = [f"t{number}" for number in range(again.MOST_FAILED + 1)]
        cases = self.settle(*names, **{name: [PASSED] for name in names})
        self.assertEqual((self.way.runs, {case.outcome for case in cases}), (0, {FAILED}))

    def test_passed_and_skipped_tests_do_not_run_again(self):
        cases = [results.passed("s: a"), results.skipped("s: b", "why")]
        self.assertEqual(again.settle(self.context, cases, {"s": Scripted()}), cases)

    def test_a_mistake_in_a_run_alone_does_not_hide_the_other_results(self):
        cases = self.settle("a", "b", a=[], b=[PASSED])
        self.assertEqual([case.outcome for case in cases], [FAILED, PASSED])

    def test_a_failed_build_or_a_dead_program_of_rust_does_not_run_again(self):
        for name in ("cargo test --no-run", "tek"):
            failure = results.failed(f"rust: {name}", "exit status 101")
            self.assertEqual(again.settle(self.context, [failure], {"rust": rust_tests.alone}),
                             [failure])

    def test_a_module_that_cannot_be_imported_is_not_flaky(self):
        (self.context.top / "tools").symlink_to(TOP / "tools")
        (self.context.top / "test_m.py").write_text("def test_it(): pass\n")
        failure = results.failed("e2e: test_m.py", "ImportError")
        self.assertEqual(again.settle(self.context, [failure], {"e2e": e2e_tests.alone}), [failure])

    def test_a_flaky_test_may_print_bytes_that_are_no_characters(self):
        failure = results.failed("s: a", "\udcff", output="\udcfe")
        again.settle(self.context, [failure], {"s": Scripted(a=[PASSED])})
        self.assertIn(r"\udcfe", (self.context.logs / again.RECORD).read_text())

    def test_the_failure_of_a_whole_program_is_excused_only_if_all_of_it_passes(self):
        good, bad = results.passed("p/a"), results.failed("p/b", "x")
        self.assertEqual(again.verdict_of("p", [good]).outcome, PASSED)
        self.assertEqual(again.verdict_of("p", [good, bad]).outcome, FAILED)
        self.assertEqual(again.verdict_of("p", []).outcome, FAILED)
        self.assertEqual(again.verdict_of("p/a", [good, bad]).outcome, FAILED)


class Stress(WithContext):
    def stress(self, name, times=3, **outcomes):
        self.way = Scripted(**outcomes)
        return stress.run(self.context, name, times, {"s": self.way})

    def test_a_test_passes_only_if_each_of_its_runs_does(self):
        self.assertEqual(self.stress("s: a", a=[PASSED] * 3)[0].outcome, PASSED)
        case, = self.stress("s: a", a=[PASSED, FAILED, PASSED])
        self.assertEqual((case.outcome, self.way.runs), (FAILED, 3))
        self.assertIn("1 of 3 runs failed", case.reason)

    def test_a_skipped_test_is_not_run_many_times(self):
        case, = self.stress("s: a", a=[SKIPPED])
        self.assertEqual((case.outcome, self.way.runs), (SKIPPED, 1))

    def test_an_unknown_name_fails_and_reports_how_tests_are_named(self):
        case, = self.stress("nothing")
        self.assertEqual(case.outcome, FAILED)
        self.assertIn("SUITE: NAME", case.reason)

    def test_the_list_of_ever_flaky_tests_names_tests_that_exist(self):
        """The end-to-end tests, before any has run."""
        for name in stress.names(process.Context(TOP, TOP / "build", False), "ever-flaky"):
            suite, test = name.split(": ", 1)
            if suite == "e2e":
                module, function = re.match(r"([^:]+)::(?:\w+::)?(\w+)", test).groups()
                self.assertIn(f"def {function}(", (TOP / module).read_text(encoding="utf-8"))

    def unknown(self, entry, *names):
        """Whether the entry is refused after a run of these tests of the suite c."""
        (self.context.top / "tests").mkdir(exist_ok=True)
        (self.context.top / stress.EVER_FLAKY).write_text(f"# comment\n{entry}  # cause\n")
        return bool(stress.unknown(self.context, ["c"], [results.passed(name) for name in names]))

    def test_an_entry_that_names_no_test_that_ran_fails(self):
        self.assertTrue(self.unknown("c: p/a", "c: p/b", "c: q"))
        self.assertFalse(self.unknown("c: p/a", "c: p/b", "c: p/a"))
        self.assertFalse(self.unknown("c: p/a", "c: p"), "the whole program was skipped")
        self.assertFalse(self.unknown("rust: a: b", "c: p"), "the suite did not run")


class TestLoad(WithContext):
    def test_the_load_runs_and_ends_with_its_block(self):
        with load.Load(self.context.logs) as running:
            pids = [program.pid for program in running.programs]
            self.assertEqual(len(pids), load.CPU_HOGS + 1)
            end = time.monotonic() + 30
            while not running.file.exists() and time.monotonic() < end:
                time.sleep(0.01)
            self.assertTrue(running.file.exists())
        self.assertFalse(running.file.exists())
        self.assertFalse(any(Path(f"/proc/{pid}").exists() for pid in pids))

    def test_the_load_ends_when_its_parent_is_killed(self):
        started, info = os.pipe()
        parent = os.fork()
        if parent == 0:
            with load.Load(self.context.logs) as running:
                os.write(info, " ".join(str(program.pid) for program in running.programs).encode())
                time.sleep(60)
            os._exit(0)
        pids = os.read(started, 1000).decode().split()
        os.close(started)
        os.close(info)
        time.sleep(0.5)
        os.kill(parent, 9)
        os.waitpid(parent, 0)
        end = time.monotonic() + 30
        while any(self.alive(pid) for pid in pids) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(any(self.alive(pid) for pid in pids))

    @staticmethod
    def alive(pid):
        try:
            return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
