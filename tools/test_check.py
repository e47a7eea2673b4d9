"""Tests of tools/check: what it reads must never come out better than it is."""

import json
import os
import re
import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

from checks import ahead, c_tests, e2e_tests, process, results, rust_tests, tap, tools_tests

PASSED, FAILED, SKIPPED = results.Outcome


def info(cases):
    return [(case.name, case.outcome) for case in cases]


class Tap(unittest.TestCase):
    def test_each_result_becomes_a_case(self):
        report = tap.parse("1..2\nok 1 - a\nnot ok 2 - b\n# 0x1 != 0x2\n# not ok - t\n", "prog")
        self.assertEqual(info(report.cases), [("prog/a", PASSED), ("prog/b", FAILED)])
        self.assertEqual(report.cases[1].reason, "0x1 != 0x2")

    def test_skips_of_old_and_new_cmocka_carry_the_reason_printed_before(self):
        for line in ("not ok 1 # SKIP a", "ok 1 # SKIP a", "ok 1 - a # SKIP"):
            report = tap.parse(f"1..1\n# needs root\n{line}\n", "prog")
            self.assertEqual(info(report.cases), [("prog/a", SKIPPED)])
            self.assertEqual(report.cases[0].reason, "needs root")

    def test_a_reason_after_the_directive_is_taken(self):
        report = tap.parse("1..1\nok 1 - a # SKIP no 32-bit compiler\n", "prog")
        self.assertEqual(report.cases[0].reason, "no 32-bit compiler")

    def test_plans_of_several_groups_add_up(self):
        report = tap.parse("1..1\nok 1 - a\n1..2\nok 1 - b\n", "prog")
        self.assertEqual((report.planned, report.missing), (3, 1))

    def test_a_failed_last_line_without_explanation_is_not_lost(self):
        self.assertEqual(info(tap.parse("1..1\nnot ok 1 - a", "prog").cases), [("prog/a", FAILED)])


class MesonRecord(unittest.TestCase):
    def outcomes(self, stdout, result="OK", returncode=0, **more):
        record = {"name": "tek:unit / prog", "stdout": stdout, "result": result,
                  "returncode": returncode, **more}
        return [case.outcome for case in c_tests.cases_of_run(record, Path("log"))]

    def test_a_program_that_dies_between_tests_fails(self):
        self.assertEqual(self.outcomes("1..3\nok 1 - a\n", "ERROR"), [PASSED, FAILED])

    def test_a_dead_program_is_reported_with_its_last_test(self):
        for seen, where in (("1..3\nok 1 - a\n", "after a"), ("1..2\n", "in its first")):
            last = tap.judge(tap.parse(seen, "prog"), "prog", -6, "killed", None)[-1]
            self.assertIn(where, last.reason)

    def test_a_program_that_hangs_fails_even_after_its_last_test(self):
        self.assertEqual(self.outcomes("1..1\nok 1 - a\n", "TIMEOUT", -15), [PASSED, FAILED])

    def test_a_sanitizer_report_after_the_last_test_fails(self):
        self.assertEqual(self.outcomes("1..1\nok 1 - a\n", "ERROR", 66), [PASSED, FAILED])

    def test_a_failed_test_is_not_counted_again_for_the_exit_status(self):
        self.assertEqual(self.outcomes("1..1\nnot ok 1 - a\n", "FAIL", 1), [FAILED])

    def test_a_skip_that_meson_takes_for_a_failure_is_a_skip(self):
        self.assertEqual(self.outcomes("1..1\nnot ok 1 # SKIP a\n", "FAIL"), [SKIPPED])

    def test_a_cmocka_program_that_reports_nothing_fails(self):
        self.assertEqual(self.outcomes("", env={"CMOCKA_MESSAGE_OUTPUT": "TAP"}), [FAILED])
        self.assertEqual(self.outcomes("garbage\n", env={"CMOCKA_MESSAGE_OUTPUT": "TAP"}), [FAILED])

    def test_a_plain_program_is_judged_by_meson(self):
        self.assertEqual(self.outcomes(""), [PASSED])
        self.assertEqual(self.outcomes("", "FAIL", 1), [FAILED])
        self.assertEqual(self.outcomes("", "ERROR", -11), [FAILED])
        self.assertEqual(self.outcomes("no compiler\n", "SKIP", 77), [SKIPPED])


class Libtest(unittest.TestCase):
    HEAD = "     Running unittests src/lib.rs (build/cargo/debug/deps/tek-0)\n\nrunning {} tests\n"
    TAIL = "test result: ok. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out\n"

    def parse(self, count, lines, *total):
        tail = self.TAIL.format(*total) if total else ""
        return rust_tests.parse(self.HEAD.format(count) + lines + tail)

    def test_results_are_read_with_their_reasons(self):
        cases = self.parse(3, "test a ... ok\ntest b ... FAILED\ntest c ... ignored, needs root\n",
                           1, 1, 1)
        self.assertEqual([case.outcome for case in cases], [PASSED, FAILED, SKIPPED])
        self.assertEqual(cases[2].reason, "needs root")
        self.assertEqual(cases[0].name, "tek: a")

    def test_a_binary_that_dies_is_a_failure(self):
        cases = self.parse(3, "test a ... ok\n")
        self.assertEqual([case.outcome for case in cases], [PASSED, FAILED])

    def test_a_garbled_line_is_counted_from_the_sum(self):
        cases = self.parse(2, "test a ... output of a child\nok\ntest b ... ok\n", 1, 1, 0)
        self.assertEqual([case.outcome for case in cases], [PASSED, FAILED])

    def test_no_tests_are_no_cases(self):
        self.assertEqual(self.parse(0, "", 0, 0, 0), [])

    def test_the_reason_of_a_failure_is_the_message_of_the_panic(self):
        output = ("test a ... FAILED\ntest b ... FAILED\n\nfailures:\n\n---- a stdout ----\n"
                  "some words\n\nthread 'a' (7) panicked at crates/a.rs:1:2:\nit is wrong\n"
                  "  left: 1\n")
        cases = self.parse(2, output, 0, 2, 0)
        self.assertEqual([case.reason for case in cases], ["it is wrong", "failed"])


class PytestRecord(unittest.TestCase):
    def parse(self, *entries):
        return e2e_tests.parse([json.dumps(entry) for entry in entries], None, "hung")

    def test_a_test_that_never_ended_failed(self):
        cases = self.parse({"event": "planned", "name": "t"})
        self.assertEqual(info(cases), [("t", FAILED)])

    def test_a_failing_clean_up_makes_one_failure_of_a_pass(self):
        cases = self.parse({"event": "result", "name": "t", "outcome": "passed", "reason": ""},
                           {"event": "result", "name": "t", "outcome": "failed", "reason": "x"})
        self.assertEqual(info(cases), [("t", FAILED)])

    def test_a_set_up_is_no_result(self):
        cases = self.parse({"event": "planned", "name": "t"},
                           {"event": "setup", "name": "t", "seconds": 1})
        self.assertEqual(info(cases), [("t", FAILED)])

    def test_a_skip_keeps_its_reason(self):
        cases = self.parse({"event": "result", "name": "t", "outcome": "skipped", "reason": "root"})
        self.assertEqual((info(cases), cases[0].reason), ([("t", SKIPPED)], "root"))

    def test_failed_tests_do_not_explain_another_end_of_pytest(self):
        lines = [json.dumps({"event": "result", "name": "t", "outcome": "failed", "reason": "x"})]
        ended = {status: len(e2e_tests.judge(lines, "pytest", status, "how", Path("log")))
                 for status in (0, 1, 2, 3, -9, None)}
        self.assertEqual(ended, {0: 1, 1: 1, 2: 1, 3: 2, -9: 2, None: 2})

    def test_a_test_that_never_ended_explains_the_death_of_pytest(self):
        lines = [json.dumps({"event": "planned", "name": "t"})]
        self.assertEqual(info(e2e_tests.judge(lines, "pytest", -9, "how", Path("log"))),
                         [("t", FAILED)])


SHARED = """
import os, pathlib, signal, time
import pytest

def work(request):
    begin = time.monotonic()
    time.sleep(0.1)
    with pathlib.Path(__file__).with_name("log").open("a") as log:
        print(request.node.name, os.getpid(), begin, time.monotonic(), file=log)
"""

# Loses the list of free tests when the second process, which has no test to run, has ended: while
# that begins it would take the empty file for a new one.
LOSES = SHARED + """
here = pathlib.Path(__file__)
here.with_name(f"{os.getpid()}.collects").touch()
pytestmark = pytest.mark.alone("thing")

def second_has_ended():
    pids = {int(file.stem) for file in here.parent.glob("*.collects")}
    others = pids - {os.getpid()}
    return others and not any(os.path.exists(f"/proc/{pid}") for pid in others)

def test_loses():
    end = time.monotonic() + 60
    while not second_has_ended() and time.monotonic() < end:
        time.sleep(0.01)
    os.truncate(os.environ["CHECK_SHARE"], 0)
"""

AFTER = SHARED + """
pytestmark = pytest.mark.alone("thing")

def test_after():
    pass
"""

SPREAD = SHARED + """
pytestmark = pytest.mark.spread

@pytest.fixture(scope="module")
def one(request):
    work(request)

@pytest.mark.parametrize("number", range(6))
def test_free(request, number): work(request)

@pytest.mark.parametrize("number", range(3))
def test_with_one(request, one, number): work(request)

@pytest.mark.alone("thing")
@pytest.mark.parametrize("number", range(3))
def test_with_thing(request, number): work(request)

@pytest.mark.alone()
def test_all_alone(request): work(request)
"""

TOGETHER = SHARED + """
@pytest.mark.parametrize("number", range(3))
def test_together(request, number): work(request)
"""

# Each of the two ends when both have begun, so two processes run them, however busy the machine is.
MEET = SHARED + """
pytestmark = pytest.mark.spread

@pytest.mark.parametrize("number", range(2))
def test_meets(request, number):
    directory = pathlib.Path(__file__).parent
    (directory / f"met{number}").touch()
    end = time.monotonic() + 60
    while len(list(directory.glob("met*"))) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    work(request)
"""

DIES = SHARED + """
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
"""


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        top = Path(__file__).resolve().parents[1]
        self.context = process.Context(top, self.directory / "build", False)

    def run_shared(self, **modules):
        """What came of tests that two processes share; process, begin and end of each."""
        for name, text in modules.items():
            (self.directory / f"test_{name}.py").write_text(text)
        paths = sorted(self.directory.glob("test_*.py"))
        cases = e2e_tests.shared(self.context, paths, 2)
        if cases and "pytest is missing" in cases[0].reason:
            self.skipTest(cases[0].reason)
        log = self.directory / "log"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return cases, [(name, pid, float(begin), float(end)) for name, pid, begin, end in lines]

    def beside(self, runs, name):
        """Those that ran at the same time as those."""
        those = [run for run in runs if run[0].startswith(name)]
        return {other[0] for one in those for other in runs
                if one != other and one[2] < other[3] and other[2] < one[3]}

    def test_each_is_run_once_by_one_of_several_processes(self):
        cases, runs = self.run_shared(meet=MEET, spread=SPREAD, together=TOGETHER)
        self.assertEqual({case.outcome for case in cases}, {PASSED})
        self.assertEqual(len(cases), 18)
        self.assertEqual(len(runs), 19)
        self.assertEqual(len({pid for _, pid, _, _ in runs}), 2)
        self.assertEqual(len({pid for name, pid, _, _ in runs if name.startswith("test_meets")}), 2)

    def test_tests_marked_alone_do_not_run_at_the_same_time(self):
        _, runs = self.run_shared(spread=SPREAD, together=TOGETHER)
        self.assertEqual(self.beside(runs, "test_all_alone"), set())
        for name in ("test_with_thing", "test_with_one", "test_together"):
            beside = self.beside(runs, name)
            self.assertEqual({other for other in beside if other.startswith(name)}, set())
        for name in ("test_with_one", "test_together"):
            self.assertEqual(len({pid for one, pid, _, _ in runs if one.startswith(name)}), 1)

    def test_other_processes_run_the_tests_that_a_dead_one_left(self):
        cases, _ = self.run_shared(dies=DIES, spread=SPREAD)
        failed = [case for case in cases if case.outcome is FAILED]
        self.assertEqual([case.name.rpartition("::")[2] for case in failed], ["test_dies"])
        self.assertEqual(len(cases), 14)

    def test_tests_are_not_lost_with_the_list_of_free_ones(self):
        # A second process does not run test_after beside the first test.
        cases, _ = self.run_shared(a=LOSES, b=AFTER)
        self.assertIn("no process of pytest ran it", {case.reason for case in cases})

    def test_a_module_that_cannot_be_read_is_reported_once(self):
        cases, _ = self.run_shared(broken="import nothing_of_that_name\n", together=TOGETHER)
        failed = [case.name for case in cases if case.outcome is FAILED]
        self.assertEqual([name.rpartition("/")[2] for name in failed], ["test_broken.py"])

    def test_each_module_that_begins_first_is_there(self):
        modules = Path(__file__).resolve().parents[1] / "tests" / "e2e"
        missing = [name for name in e2e_tests.FIRST if not [*modules.glob(f"*/{name}.py")]]
        self.assertEqual(missing, [])


class Run(unittest.TestCase):
    def setUp(self):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        self.context = process.Context(top, top / "build", False)

    def test_a_test_gives_up_before_silence_ends_its_whole_process(self):
        tests = Path(__file__).resolve().parents[1] / "tests"
        limits = [(path.name, int(limit)) for path in tests.rglob("*.py")
                  for limit in re.findall(r"\btimeout=(\d+)\b", path.read_text(encoding="utf-8"))]
        self.assertTrue(limits)
        self.assertEqual([], [found for found in limits if found[1] >= process.TEST_SILENCE])

    def run_shell(self, script, silence=60):
        return process.run(self.context, "test", ["sh", "-c", script], silence)

    def test_output_and_status_come_back(self):
        finished = self.run_shell("echo out; echo err >&2; exit 3")
        self.assertEqual((finished.output, finished.status, finished.hung),
                         ("out\nerr\n", 3, False))

    def test_a_silent_command_is_ended_and_called_hung(self):
        finished = self.run_shell("echo begin; sleep 60", silence=1)
        self.assertEqual((finished.output, finished.hung), ("begin\n", True))

    def test_a_process_left_behind_does_not_hold_us_up(self):
        finished = self.run_shell("sleep 60 & exit 0")
        self.assertEqual((finished.status, finished.hung), (0, False))

    def test_a_missing_command_is_a_failure(self):
        self.assertNotEqual(process.run(self.context, "test", ["/nowhere/x"]).status, 0)

    def test_results_of_parallel_runs_are_in_order(self):
        found = process.side_by_side(lambda time: self.run_shell(
            f"sleep {time}; echo {time}").output,
                                     ["0.3", "0.1", "0"])
        self.assertEqual(found, ["0.3\n", "0.1\n", "0\n"])

    def test_parallel_runs_end_when_they_are_interrupted(self):
        def interrupt_or_run(script):
            if not script:
                raise KeyboardInterrupt
            return self.run_shell(script)

        begun = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            process.side_by_side(interrupt_or_run, ["", "sleep 60", "sleep 60"])
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(self.run_shell("echo on").output, "on\n")


class AheadOfTime(unittest.TestCase):
    """A tree in which nothing can be built."""

    def setUp(self):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        (top / "tools").symlink_to(Path(__file__).resolve().parent)
        self.context = process.Context(top, top / "build", False)

    def test_suites_are_waited_for_and_what_does_not_build_holds_nobody_up(self):
        with ahead.Ahead(self.context, ["c", "asan", "e2e", "fuzz"]) as builder:
            for suite in ("c", "asan", "e2e", "fuzz"):
                builder.wait(suite)
            self.assertEqual(builder.waiting, [])

    def test_the_builder_is_ended_with_its_children(self):
        with ahead.Ahead(self.context, ["asan", "tsan"]) as builder:
            pass
        self.assertIsNotNone(builder.process.returncode)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_build_that_is_waited_for_is_not_gentle_any_more(self):
        build = self.context.top / "tools-of-its-own"
        build.mkdir()
        (self.context.top / "tools").unlink()
        (self.context.top / "tools").symlink_to(build)
        info = self.context.top / "told"
        (build / "build").write_text(f"#!/bin/sh\nsleep 3\nps -o ni= -p $$ > {info}\n")
        (build / "build").chmod(0o755)
        (build / "checks").symlink_to(Path(__file__).resolve().parent / "checks")
        with ahead.Ahead(self.context, ["e2e"]) as builder:
            builder.wait("e2e")
        self.assertEqual(info.read_text().strip(), str(os.nice(0)))

    def test_a_command_has_the_signals_that_we_ignore(self):
        ignored = {number: signal.signal(number, signal.SIG_IGN)
                   for number in (signal.SIGINT, signal.SIGHUP)}
        try:
            info = process.run(self.context, "test", ["grep", "SigIgn", "/proc/self/status"]).output
        finally:
            for number, before in ignored.items():
                signal.signal(number, before)
        self.assertEqual(int(info.split()[1], 16) & 0b111, 0)

    def test_a_gentle_command_leaves_the_cpus_to_other_programs(self):
        gently = process.Context(self.context.top, self.context.build, False, gently=True)
        nice = process.run(gently, "test", ["nice"]).output
        self.assertEqual(nice, f"{min(os.nice(0) + 10, 19)}\n")


class OwnTests(unittest.TestCase):
    def test_skips_and_unexpected_passes_are_reported(self):
        class Some(unittest.TestCase):
            @unittest.skip("needs root")
            def test_skips(self): pass

            @unittest.expectedFailure
            def test_passes(self): pass

        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(Some)
        cases = tools_tests._run(process.Context(top, top / "build", False), suite)
        self.assertEqual(sorted((case.outcome.value, case.reason) for case in cases),
                         [("failed", "passed, but is expected to fail"), ("skipped", "needs root")])


class Summary(unittest.TestCase):
    def test_the_last_line_is_the_sum(self):
        cases = [results.passed("a"), results.failed("b", "x"), results.skipped("c", "y")]
        self.assertEqual(results.summary(cases).split("\n")[-1], "1 passed, 1 failed, 1 skipped")

    def test_only_something_passed_and_nothing_failed_is_success(self):
        self.assertTrue(results.succeeded([results.passed("a"), results.skipped("b", "x")]))
        self.assertFalse(results.succeeded([]))
        self.assertFalse(results.succeeded([results.skipped("b", "x")]))
        self.assertFalse(results.succeeded([results.passed("a"), results.failed("b", "x")]))


if __name__ == "__main__":
    unittest.main()
