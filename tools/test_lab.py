"""Tests of tools/check's part for the kernel lab: no failure in a guest may get lost on its way."""

import json
import shutil
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from checks import lab_boots, lab_plan, lab_tests, process, results

PASSED, FAILED, SKIPPED = results.Outcome
TOP = Path("/project")

INTROSPECTED = [
    {"name": "life", "cmd": ["/project/build/tests/test_life"],
     "env": {"CMOCKA_MESSAGE_OUTPUT": "TAP", "LD_LIBRARY_PATH": "/project/build/lib"}},
    {"name": "optional-with", "cmd": ["/project/build/tests/test_optional", "with"], "env": {}},
    *({"name": f"tek / sync_lock_{kind}", "env": {},
       "cmd": ["/project/build/tests/sync/test_sync_locks", kind]} for kind in ("k42", "mcs")),
    {"name": "appliance", "cmd": ["/usr/bin/python3", "/project/bench/check.py"], "env": {}},
]

# What a test program of Rust's says.
RUST = """
running 2 tests
test a ... ok
test b ... ignored, needs root

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s
"""

PANIC = """\
[    2.5][    T9] BUG: kernel NULL pointer dereference, address: 0008
[    2.5][    T9] Oops: 0002 [#1] SMP
[    2.5][    T9] RIP: 0010:put_prev+0x1/0x2
[    2.5][    T9] Code: 40 00
[    2.6][    T9] Call Trace:
[    2.6][    T9]  <IRQ>
[    2.6][    T9]  put_prev+0x1/0x2
[    2.6][    T9]  ? guess+0x1/0x2
[    2.6][    T9]  switch.isra.0+0x1/0x2 [module]
[    2.6][    T9]  schedule+0x1/0x2
[    2.6][    T9] RIP: 0033:0x47b7a0
[    2.7][    T9] Kernel panic - not syncing: in interrupt""".splitlines()


def boots(kind, *entries, **choice):
    choice = lab_plan.Choice(kind, **choice)
    return lab_plan.boots(TOP, list(entries), choice, lambda build: INTROSPECTED)


def entry(**fields):
    return {"name": "own", "kinds": ["rt"], **fields}


class Plan(unittest.TestCase):
    def test_every_c_program_that_meson_runs_is_a_job_with_its_paths_of_the_guest(self):
        boot, = boots("rt", entry(meson="build", limit=9))
        self.assertEqual([job.name for job in boot.jobs], ["own.life", "own.optional-with"])
        life, optional = boot.jobs
        self.assertEqual((life.command, life.format), (["/tek/build/tests/test_life"], "tap"))
        self.assertEqual(life.environment["LD_LIBRARY_PATH"], "/tek/build/lib")
        self.assertEqual((optional.command[1:], optional.format), (["with"], "status"))
        self.assertEqual(optional.limit, 9 * lab_plan.PATIENCE)

    def test_patterns_of_names_choose_c_programs_in_all_folders_and_the_last_one_counts(self):
        def chosen(*patterns):
            return [job.name for boot in boots("rt", entry(meson="build", tests=list(patterns)))
                    for job in boot.jobs]
        self.assertEqual(chosen("*"), ["own.life", "own.optional-with", "own.sync_lock_k42",
                                       "own.sync_lock_mcs"])
        self.assertEqual(chosen("sync_*", "!*_mcs", "life"), ["own.life", "own.sync_lock_k42"])
        self.assertEqual(chosen("nothing"), [])

    def test_every_module_of_pytest_is_a_job(self):
        boot, = boots("rt", entry(pytest=["tests/e2e/test_a.py", "tests/e2e/test_b.py"]))
        self.assertEqual([job.name for job in boot.jobs], ["own.test_a", "own.test_b"])
        self.assertIn("/tek/tests/e2e/test_a.py", boot.jobs[0].command)

    def test_every_program_of_cargo_is_a_job(self):
        boot, = boots("rt", entry(rust=["tree", "floor"]))
        self.assertEqual([job.name for job in boot.jobs], ["own.tree", "own.floor"])
        self.assertEqual((boot.jobs[0].command, boot.jobs[0].format),
                         (["/tek/build/rust-tests/tree"], "libtest"))

    def test_tests_of_a_kind_share_a_boot_if_it_holds_the_same(self):
        made = boots("rt", entry(command=["a"]), entry(name="b", command=["b"]),
                     entry(name="c", command=["c"], memory="2G"),
                     entry(kinds=["v1"], command=["d"]))
        self.assertEqual([[job.name for job in boot.jobs] for boot in made], [["own", "b"], ["c"]])

    def test_two_jobs_of_one_name_would_overwrite_each_other(self):
        with self.assertRaises(lab_plan.Mistake):
            boots("rt", entry(command=["a"]), entry(command=["b"]))

    def test_a_job_in_json_has_what_tek_lab_run_takes_and_no_more(self):
        boot, = boots("rt", entry(command=["a"], fresh=True))
        self.assertEqual(boot.jobs[0].as_json() | {"environment": {}}, {
            "name": "own", "command": ["a"], "environment": {}, "limit": 0, "fresh": True,
            "files": True})

    def test_misspelt_keys_are_refused(self):
        for text in ('[[tests]]\nname = "a"\nkinds = ["rt"]\ncomand = ["b"]\n',
                     '[[tests]]\nname = "a"\nkinds = ["rt"]\n',
                     '[[tests]]\nname = "a"\ncommand = ["b"]\n'):
            self.assert_mistake(text)

    def test_mistakes_are_reported_before_anything_is_booted(self):
        for wrong, info in (('kinds = ["v2"]\ncommand = ["b"]',
                             "there is no kind v2; there are rt"),
                            ('kinds = ["rt"]\ncommand = "true"', "`command` is a list of strings"),
                            ('kinds = ["rt"]\npytest = ["none.py"]', "there is no none.py")):
            self.assert_mistake(f'[[tests]]\nname = "a"\n{wrong}\n', info)

    def assert_mistake(self, text, info=""):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "lab/tests.toml"
            file.parent.mkdir()
            file.write_text(text)
            file.with_name("kinds.toml").write_text("[kind.rt]\n")
            file.with_name("test_a.py").write_text("def test_b():\n")
            with self.assertRaisesRegex(lab_plan.Mistake, info):
                lab_plan.read(file)

    def test_one_entry_can_be_run_alone(self):
        entries = entry(command=["a"]), entry(name="b", command=["b"])
        boot, = boots("rt", *entries, only="b")
        self.assertEqual([job.name for job in boot.jobs], ["b"])

    def test_and_so_can_one_of_its_jobs(self):
        entries = entry(meson="build"), entry(name="own2", meson="build")
        boot, = boots("rt", *entries, only="own.life")
        self.assertEqual([job.name for job in boot.jobs], ["own.life"])

    def test_one_test_of_a_job_can_be_run_without_the_rest(self):
        boot, = boots("rt", entry(meson="build"), entry(name="b", pytest=["t/test_a.py"]),
                      entry(name="c", rust=["tree"]))
        life, _, module, tree = boot.jobs
        for job, name, last in ((life, "life/x", "/tek/build/tests/test_life"),
                                (module, "t/test_a.py::test_b[c d]",
                                 "/tek/t/test_a.py::test_b[c d]"),
                                (tree, "tree: a::b", "--exact")):
            self.assertEqual([lab_plan.is_of(other, name) for other in (life, module, tree)],
                             [other is job for other in (life, module, tree)])
            self.assertEqual(lab_plan.narrowed(job, name).command[-1], last)
        self.assertEqual(lab_plan.narrowed(tree, "tree: a::b").command[1:], ["a::b", "--exact"])
        narrowed = lab_plan.narrowed(module, "t/test_a.py::test_b")
        self.assertNotIn("/tek/t/test_a.py", narrowed.command)

    def test_the_smoke_set_has_the_tests_that_a_kind_names(self):
        entries = (entry(meson="build", smoke={"rt": ["life"]}),
                   entry(name="b", pytest=["t/test_a.py", "t/test_b.py"], kinds=["rt", "v1"],
                         smoke={"rt": ["test_b.py::test_c", "test_b.py::test_d"], "v1": True}))
        found = [job for boot in boots("rt", *entries, smoke=True) for job in boot.jobs]
        self.assertEqual([job.name for job in found], ["own.life", "b.test_b"])
        self.assertEqual(found[1].command[-2:],
                         ["/tek/t/test_b.py::test_c", "/tek/t/test_b.py::test_d"])
        found = [job for boot in boots("v1", *entries, smoke=True) for job in boot.jobs]
        self.assertEqual([job.name for job in found], ["b.test_a", "b.test_b"])

    def test_the_smoke_set_shares_boots_that_hold_different_things(self):
        entries = (entry(command=["a"], **{"with": ["c"]}, smoke={"rt": True}),
                   entry(name="b", command=["b"], **{"with": ["rust", "c"]}, smoke={"rt": True}))
        self.assertEqual(len(boots("rt", *entries)), 2)
        boot, = boots("rt", *entries, smoke=True)
        self.assertEqual((boot.sets, boot.in_turns), (("c", "rust"), True))

    def test_a_test_that_judges_times_shares_no_boot(self):
        made = boots("rt", entry(command=["a"]), entry(name="b", command=["b"], alone=True))
        self.assertEqual([boot.alone for boot in made], [False, True])

    def test_a_smoke_test_that_is_not_there_is_refused(self):
        start = '[[tests]]\nname = "a"\nkinds = ["rt"]\n'
        for smoke, message in (('.v1 = true', "has no kind v1"),
                               (' = true', "needs a kind"),
                               ('.rt = ["test_b.py"]', "no module test_b.py"),
                               ('.rt = ["test_a.py::test_x"]', "test_a.py has no test_x")):
            self.assert_mistake(f'{start}pytest = ["lab/test_a.py"]\nsmoke{smoke}\n', message)
        self.assert_mistake(f'{start}rust = ["b"]\nsmoke.rt = ["c"]\n', "no program c")

    def test_our_own_file_makes_sense(self):
        top = Path(__file__).resolve().parents[1]
        entries, _ = lab_plan.read(top / "lab/tests.toml")
        for kind in lab_plan.kinds(entries):
            for boot in boots(kind, *entries):
                for job in boot.jobs:
                    self.assertRegex(job.name, r"^[A-Za-z0-9][\w.-]{0,99}$")
        for one in entries:
            for module in one.get("pytest", []):
                self.assertTrue((top / module).is_file(), module)


class SideBySide(unittest.TestCase):
    def setUp(self):
        self.lock, self.began, self.runs, self.most = threading.Lock(), [], 0, 0

    def work(self, suite, name, **options):
        def run():
            with self.lock:
                self.began.append(name)
                self.runs += 1
                self.most = max(self.most, self.runs)
            time.sleep(0.05)
            with self.lock:
                self.runs -= 1
            return [results.passed(name)]
        return lab_boots.Work(suite, run, **options)

    def run_all(self, *works, cpus=2, memory=1000):
        with mock.patch("os.cpu_count", lambda: cpus), \
                mock.patch.object(lab_boots, "available_mb", lambda: memory):
            found = lab_boots.run_all(list(works))
        return {suite: [case.name for case in cases] for suite, cases in found.items()}

    def test_results_are_in_the_order_of_the_works_whatever_began_first(self):
        found = self.run_all(self.work("rt", "a", seconds=1), self.work("v1", "b", seconds=5),
                             self.work("rt", "c", seconds=9), cpus=1)
        self.assertEqual(found, {"rt": ["a", "c"], "v1": ["b"]})
        self.assertEqual(self.began, ["c", "b", "a"])

    def test_as_many_boot_at_a_time_as_there_are_cpus(self):
        self.run_all(*[self.work("rt", str(number)) for number in range(8)])
        self.assertEqual(self.most, 2)

    def test_guests_that_need_all_memory_wait_for_each_other(self):
        self.run_all(*[self.work("rt", str(number), memory=5000) for number in range(3)])
        self.assertEqual((self.most, len(self.began)), (1, 3))

    def test_a_test_that_judges_times_has_the_machine_for_itself(self):
        alone = [self.work("rt", f"alone {number}", alone=True, seconds=9) for number in range(2)]
        self.run_all(*alone, self.work("rt", "a"), self.work("rt", "b"))
        self.assertEqual(sorted(self.began[:2]), ["a", "b"])
        self.assertEqual(sorted(self.began[2:]), ["alone 0", "alone 1"])


class WhatIsNeeded(unittest.TestCase):
    """A tree whose tek can or cannot fetch a kernel, and boots nothing."""

    def setUp(self):
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        (top / "lab").mkdir()
        (top / "lab/kinds.toml").write_text(
            '[kind.rt]\nmemory = "1G"\n[kind.v1]\nmemory = "256M"\n')
        (top / "lab/tests.toml").write_text("".join(
            f'[[tests]]\nname = "{name}"\nkinds = ["rt", "v1"]\ncommand = ["a"]\n'
            f'with = ["{files}"]\n'
            for name, files in (("a", "plain"), ("b", "made"))) + '[prepare]\nmade = ["./make"]\n')
        self.context = process.Context(top, top / "build", False)
        (top / "build/bin").mkdir(parents=True)
        self.program(top / "build/bin/tek", "exit 0")
        self.program(top / "make", "exit 0")
        self.booted = []

    def program(self, path, script):
        path.write_text(f"#!/bin/sh\necho run >> {path}.runs\n{script}\n")
        path.chmod(0o755)

    def boot(self, context, boot, directory):
        self.booted.append((boot.kind, boot.sets, directory.name))
        return [results.passed(job.title) for job in boot.jobs]

    def run_alone(self, suite, name):
        with mock.patch.object(lab_tests, "_boot", self.boot):
            return lab_tests.ways(self.context.top)[suite](self.context, name)

    def run_lab(self, *names, **options):
        with mock.patch.object(lab_tests, "_boot", self.boot):
            suites = lab_tests.Lab(self.context.top, list(names), **options).suites()
            return {name: [(case.name, case.outcome) for case in suite(self.context)]
                    for name, suite in suites.items()}

    def test_preparations_run_once_for_all_kinds_and_only_if_needed(self):
        self.run_lab("lab-rt:a")
        self.assertFalse((self.context.top / "make.runs").exists())
        found = self.run_lab("lab-rt", "lab-v1")
        two = [("a", PASSED), ("b", PASSED)]
        self.assertEqual(found, {"lab-rt": two, "lab-v1": two})
        self.assertEqual((self.context.top / "make.runs").read_text(), "run\n")

    def test_a_failed_preparation_leaves_out_only_its_boots(self):
        self.program(self.context.top / "make", "exit 1")
        self.assertEqual(self.run_lab("lab-rt"), {"lab-rt": [("make", FAILED), ("a", PASSED)]})

    def test_boots_without_an_unavailable_preparation_are_skipped(self):
        self.program(self.context.top / "make", "echo no compiler; exit 77")
        self.assertEqual(self.run_lab("lab-rt"), {"lab-rt": [("a", PASSED), ("b", SKIPPED)]})

    def test_a_kernel_is_fetched_once_for_a_kind_and_all_is_skipped_without_it(self):
        self.program(self.context.build / "bin/tek", "sleep 0.2; exit 1")
        self.assertEqual(self.run_lab("lab-rt"), {"lab-rt": [("a", SKIPPED), ("b", SKIPPED)]})
        self.assertEqual((self.context.build / "bin/tek.runs").read_text(), "run\n")
        self.assertEqual(self.booted, [])

    def test_a_lab_that_fails_to_fetch_is_one_failure(self):
        self.program(self.context.build / "bin/tek", "exit 3")
        self.assertEqual(self.run_lab("lab-v1"), {"lab-v1": [("tek lab fetch --kind v1", FAILED)]})

    def test_a_boot_has_a_directory_of_its_own_also_when_it_is_repeated(self):
        self.run_lab("lab-rt")
        self.run_alone("lab-rt", "b")
        again = [(sets, number) for _, sets, number in self.booted[2:]]
        self.assertEqual(again, [(("made",), "3")])
        self.assertEqual({number for _, _, number in self.booted[:2]}, {"1", "2"})

    def test_a_test_runs_alone_by_the_name_that_it_is_reported_with(self):
        self.assertEqual(self.run_alone("lab-v1:a", "a"), [results.passed("a")])
        self.assertEqual(self.run_alone("lab-v1", "none"), [])

    def test_its_guest_is_as_the_one_in_which_it_failed(self):
        entries = (self.context.top / "lab/tests.toml")
        entries.write_text(entries.read_text() + '[[tests]]\nname = "c"\nkinds = ["rt"]\n'
                           'command = ["c"]\nsmoke.rt = true\n')
        steps = []

        def boot_it(_context, boot, _directory):
            steps.append(boot.in_turns)

        with mock.patch.object(lab_tests, "_boot", boot_it):
            for smoke in True, False:
                lab_tests.ways(self.context.top, smoke)["lab-rt"](self.context, "c")
        self.assertEqual(steps, [True, False])


class JobsOfTheGuest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def cases(self, format, record, stdout="", stderr=""):
        (self.directory / "stdout").write_text(stdout)
        (self.directory / "stderr").write_text(stderr)
        job = lab_plan.Job("name", ["command"], format, "title")
        return lab_tests.cases_of_job(job, record, self.directory, "exit status 125")

    def outcomes(self, *arguments, **more):
        return [case.outcome for case in self.cases(*arguments, **more)]

    def exited(self, status):
        return {"job": "name", "outcome": "exited", "status": status}

    def test_a_command_is_judged_by_its_status(self):
        self.assertEqual(self.outcomes("status", self.exited(0)), [PASSED])
        self.assertEqual(self.outcomes("status", self.exited(1)), [FAILED])
        case, = self.cases("status", self.exited(77), "\nneeds a disk\n\n")
        self.assertEqual((case.outcome, case.reason), (SKIPPED, "needs a disk"))

    def test_a_job_that_the_lab_does_not_report_failed(self):
        case, = self.cases("status", None)
        self.assertEqual(case.outcome, FAILED)
        self.assertIn("exit status 125", case.reason)

    def test_any_end_but_its_own_is_a_failure_in_every_format(self):
        tap = "1..1\nok 1 - a\n"
        pytest = '{"event": "result", "name": "t", "outcome": "passed", "reason": ""}\n'
        ends = [{"outcome": "killed", "signal": 9, "out_of_memory": True}, {"outcome": "timed-out"},
                {"outcome": "not-started", "why": "x"}, {"outcome": "panicked", "why": "x"},
                {"outcome": "hung"}, {"outcome": "stopped"}, {"outcome": "qemu-died", "why": "x"},
                {"outcome": "not-booted", "why": "x"}, {"outcome": "something new"}]
        for end in ends:
            for format, seen in ("status", tap), ("tap", tap), ("pytest", tap), ("libtest", RUST):
                outcomes = self.outcomes(format, {"job": "name", **end}, seen, pytest)
                self.assertIn(FAILED, outcomes, (format, end))

    def test_the_reason_is_what_happened(self):
        case, = self.cases("status",
                           {"job": "name", "outcome": "panicked", "why": "sysrq triggered"})
        self.assertEqual(case.reason, "the guest's kernel panicked: sysrq triggered")
        case, = self.cases("status", {"job": "name", "outcome": "panicked", "why": "in interrupt",
                                      "console": PANIC})
        self.assertEqual(case.reason, "the guest's kernel panicked: in interrupt: "
                         "BUG: kernel NULL pointer dereference, address: 0008; "
                         "Oops: 0002 [#1] SMP; RIP: 0010:put_prev+0x1/0x2; put_prev < "
                         "switch.isra.0 < schedule")
        case, = self.cases("status", {"job": "name", "outcome": "killed", "signal": 9,
                                      "out_of_memory": True})
        self.assertEqual(case.reason, "killed by SIGKILL, the guest had no memory left")

    def test_only_a_kernel_that_died_of_being_emulated_is_no_failure_of_the_test(self):
        lost = {"outcome": "panicked", "console": ["[ 1.0] Oops: int3: 0000 [#1] SMP"]}
        self.assertTrue(lab_tests.died_of_emulation(lost))
        self.assertFalse(lab_tests.died_of_emulation(lost | {"outcome": "timed-out"}))
        self.assertFalse(lab_tests.died_of_emulation({"outcome": "panicked", "console": PANIC}))
        self.assertFalse(lab_tests.died_of_emulation({}))

    def test_a_cpu_that_does_not_get_past_nothing_is_an_emulated_one(self):
        before_nothing, elsewhere = ("Code: ef e8 7a <0f> 1f 44 00 00 49 8b",
                                     "Code: ef e8 7a <f3> 90 44 00 00 49 8b")
        stuck = ["[ 76.5] watchdog: BUG: soft lockup - CPU#0 stuck for 45s! [kworker/u4:4:133]",
                 "RIP: 0010:a+0x1/0x2"]
        hung = {"outcome": "hung", "console": [*stuck, before_nothing, *stuck, before_nothing]}
        self.assertTrue(lab_tests.died_of_emulation(hung))
        self.assertFalse(lab_tests.died_of_emulation(hung | {"outcome": "timed-out"}))
        self.assertFalse(lab_tests.died_of_emulation(hung | {"console": [*stuck, elsewhere] * 9}))
        self.assertFalse(lab_tests.died_of_emulation(hung | {"console": [*stuck, before_nothing]}))

    def test_so_is_one_that_does_not_answer_another_that_changes_the_code(self):
        waits = "[ 140.7]  text_poke_bp_batch+0xb7/0x300"
        trace = ["[ 140.7] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [python3:4848]",
                 "[ 140.7] Call Trace:", waits]
        hung = {"outcome": "hung", "console": [waits, *trace]}
        self.assertTrue(lab_tests.died_of_emulation(hung))
        self.assertFalse(lab_tests.died_of_emulation(hung | {"console": [waits, waits]}))
        self.assertFalse(lab_tests.died_of_emulation(hung | {"console": trace}))

    def test_its_jobs_are_run_again_and_that_is_reported(self):
        boot, = boots("rt", entry(command=["a"]), entry(name="b", command=["b"]))
        lost = {"outcome": "panicked", "why": "x", "console": ["Oops: int3: 0000"]}
        runs = iter([{"own": self.exited(0), "b": lost}, {"b": self.exited(0)}])
        jobs = []

        def run(context, boot, results):
            results.mkdir()  # as `tek lab run`, which takes none that has something in it
            jobs.append([job.name for job in boot.jobs])
            for job in boot.jobs:
                (results / job.name).mkdir()
                (results / job.name / "stdout").write_text(f"in {results.name}")
            return next(runs), ""
        with mock.patch.object(lab_tests, "_run_jobs", run):
            cases = lab_tests._boot(None, boot, self.directory / "1")
        self.assertEqual(jobs, [["own", "b"], ["b"]])
        self.assertEqual([case.outcome for case in cases], [PASSED, PASSED])
        self.assertEqual([bool(case.report) for case in cases], [False, True])
        self.assertIn("in 1-again-1", (self.directory / "1-again-1/b/log").read_text())

    def test_the_log_has_the_last_lines_of_the_console_and_what_the_job_wrote(self):
        case, = self.cases("status", {"job": "name", "outcome": "hung", "console": ["BUG: soft"]},
                           "out", "err")
        log = case.log.read_text()
        for words in ("BUG: soft", "out", "err"):
            self.assertIn(words, log)

    def test_tests_of_a_c_program_come_from_its_output(self):
        cases = self.cases("tap", self.exited(0), "1..2\nok 1 - a\nok 2 - b\n")
        self.assertEqual([case.name for case in cases], ["title/a", "title/b"])
        self.assertEqual(self.outcomes("tap", self.exited(0), "1..2\nok 1 - a\n"), [PASSED, FAILED])

    def test_tests_of_a_rust_program_come_from_its_output(self):
        cases = self.cases("libtest", self.exited(0), RUST)
        self.assertEqual([(case.name, case.outcome) for case in cases],
                         [("title: a", PASSED), ("title: b", SKIPPED)])
        self.assertEqual(self.outcomes("libtest", self.exited(101), RUST.partition("test b")[0]),
                         [PASSED, FAILED])
        self.assertEqual(self.outcomes("libtest", self.exited(0), ""), [FAILED])

    def test_tests_of_pytest_come_from_its_record(self):
        lines = [{"event": "planned", "name": "t"}, {"event": "planned", "name": "u"},
                 {"event": "result", "name": "t", "outcome": "passed", "reason": ""}]
        text = "a warning\n" + "".join(json.dumps(line) + "\n" for line in lines)
        cases = self.cases("pytest", {"job": "name", "outcome": "hung"}, "", text)
        self.assertEqual([(case.name, case.outcome) for case in cases],
                         [("t", PASSED), ("u", FAILED), ("title", FAILED)])
        self.assertEqual(self.outcomes("pytest", self.exited(1), "", "no module named pytest"),
                         [FAILED])

    def test_the_lines_of_the_lab_are_found_among_other_lines(self):
        text = 'tek: booting\n{"job": "a", "outcome": "hung"}\n{"half": \n{"event": "x"}\n'
        self.assertEqual([record["job"] for record in lab_tests.records(text)], ["a"])

    def test_the_report_of_a_test_goes_with_its_first_case(self):
        (self.directory / "files").mkdir()
        (self.directory / "files/report").write_text("ratio 9.7\n")
        cases = lab_tests._with_report([results.passed("a"), results.passed("b")], self.directory)
        self.assertEqual([case.report for case in cases], ["ratio 9.7", ""])


if __name__ == "__main__":
    unittest.main()
