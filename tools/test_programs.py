"""Tests of tools/real-programs: verdicts, the table, and that nothing is left of a run."""

import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from fnmatch import fnmatchcase
from pathlib import Path

from checks import packages
from programs import runner, table, tools
from programs.catalogue import PROGRAMS
from programs.known import KNOWN, known_cells
from programs.modes import MODES
from programs.program import version_in
from programs.verdict import (
    Cell,
    Known,
    Outcome,
    Verdict,
    change,
    expected,
    judge,
    telling_lines,
)

TOOLS = Path(__file__).resolve().parent
WORKS, REFUSED, DIFFERS, HANGS, SKIPPED = Verdict


class Verdicts(unittest.TestCase):
    def verdict(self, *words, **more):
        return judge(Outcome(*words, **more), r"\d+ frames")

    def test_the_right_answer_works(self):
        self.assertEqual(self.verdict("50 frames"), (WORKS, ""))

    def test_another_answer_differs_and_is_shown(self):
        self.assertEqual(self.verdict("no frames"), (DIFFERS, "answered 'no frames'"))

    def test_only_a_whole_match_is_right(self):
        self.assertEqual(self.verdict("50 frames and more")[0], DIFFERS)

    def test_a_mode_that_tek_refuses_is_refused_with_its_words(self):
        seen = "tek: /bin/x is statically linked: it runs, but not under TEK\n"
        self.assertEqual(
            self.verdict("50 frames", errors=seen),
            (REFUSED, "/bin/x is statically linked: it runs, but not under TEK"),
        )

    def test_a_remark_of_tek_is_no_refusal(self):
        seen = "tek: stacks: no thread but the first ones of processes was measured\n"
        self.assertEqual(self.verdict("50 frames", errors=seen), (WORKS, ""))

    def test_words_of_the_program_itself_are_no_refusal(self):
        self.assertEqual(self.verdict("50 frames", errors="it runs, but slowly\n"), (WORKS, ""))

    def test_a_wrong_answer_differs_even_if_tek_refused_the_mode(self):
        seen = "tek: x: it runs, but not under TEK\n"
        self.assertEqual(self.verdict("none", errors=seen)[0], DIFFERS)

    def test_a_failure_of_tek_itself_is_a_refusal_only_with_a_reason(self):
        seen = "tek: libtek.so is not installed\n"
        self.assertEqual(
            self.verdict(None, "exit status 125", 125, errors=seen)[0], REFUSED
        )
        self.assertEqual(self.verdict(None, "exit status 125", 125)[0], DIFFERS)

    def test_a_signal_differs(self):
        self.assertEqual(
            self.verdict(None, "killed by SIGSEGV", -11), (DIFFERS, "killed by SIGSEGV")
        )

    def test_what_does_not_end_hangs(self):
        self.assertEqual(self.verdict(None, "waited", hung=True), (HANGS, "waited"))

    def test_the_first_and_the_last_lines_of_standard_error_are_quoted(self):
        self.assertEqual(telling_lines("a\n\nb\n"), ("a", "b"))
        self.assertEqual(
            telling_lines("\n".join("abcdefghij")), ("a", "b", "...", "e", "f", "g", "h", "i", "j")
        )

    def test_exit_status_2_is_one_of_the_program_also_where_tek_made_a_remark(self):
        seen = "tek: stacks: no thread was measured\n"
        self.assertEqual(self.verdict(None, "exit status 2", 2, errors=seen)[0], DIFFERS)


class Changes(unittest.TestCase):
    known = (
        Known("go", "*", REFUSED, "static"),
        Known("chromium", "m:*", HANGS, "its zygotes"),
    )

    def test_what_is_not_known_must_work(self):
        for verdict, worse in ((WORKS, False), (REFUSED, True), (DIFFERS, True), (HANGS, True)):
            self.assertEqual(change(Cell("nginx", "m:1", verdict), self.known) > 0, worse, verdict)

    def test_a_known_refusal_is_as_expected_and_a_failure_in_its_place_is_worse(self):
        self.assertEqual(change(Cell("go", "klt", REFUSED), self.known), 0)
        self.assertGreater(change(Cell("go", "klt", DIFFERS), self.known), 0)

    def test_a_failure_may_take_another_form(self):
        self.assertEqual(change(Cell("chromium", "m:n", DIFFERS), self.known), 0)

    def test_a_known_failure_that_works_now_is_better(self):
        self.assertLess(change(Cell("chromium", "m:n", WORKS), self.known), 0)

    def test_a_skipped_program_is_neither(self):
        self.assertEqual(change(Cell("nginx", "native", SKIPPED), self.known), 0)

    def test_without_a_right_to_real_time_priorities_critical_is_refused(self):
        cell = Cell("nginx", "critical", REFUSED)
        self.assertEqual(change(cell, known_cells(root=False)), 0)
        self.assertGreater(change(cell, known_cells(root=True)), 0)

    def test_the_first_entry_that_matches_counts(self):
        two = (Known("go", "klt", HANGS, "first"), *self.known)
        self.assertEqual(expected(Cell("go", "klt", HANGS), two).reason, "first")


class Table(unittest.TestCase):
    cells = [
        Cell("nginx", "native", WORKS),
        Cell("nginx", "plain", WORKS, seconds=1.5),
        Cell("nginx", "m:1", DIFFERS, "killed by SIGSEGV", ("a|b",)),
        Cell("nginx", "m:n", DIFFERS, "killed by SIGSEGV"),
        Cell("java", "native", SKIPPED, "java is missing"),
    ]

    def test_each_program_has_a_line_and_each_reason_is_given_once(self):
        text = table.markdown(self.cells, {"date": "today"}, {"nginx": "1.22"}, ())
        self.assertIn("- date: today\n", text)
        self.assertRegex(text, r"\| nginx 1\.22 \| works \|.*\*\*differs\*\* \| \*\*differs\*\* \|")
        self.assertIn("- nginx, m:1, m:n: differs: killed by SIGSEGV\n", text)
        self.assertIn("- java: skipped: java is missing\n", text)

    def test_a_known_reason_stands_in_the_place_of_what_was_seen(self):
        known = (Known("nginx", "m:1", HANGS, "its workers fork"),)
        text = table.markdown(self.cells, {}, {}, known)
        self.assertIn("- nginx, m:1: differs: its workers fork\n", text)
        self.assertIn("- nginx, m:n: differs: killed by SIGSEGV\n", text)

    def test_all_lines_of_the_table_have_the_same_columns(self):
        text = table.markdown(self.cells, {}, {}, ())
        lines = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual({line.count("|") for line in lines}, {len(MODES) + 2})

    def test_text_of_programs_cannot_break_the_table(self):
        self.assertEqual(table.escaped("a|b\x1b[1m\n`c`"), "a\\|b?\\[1m?\\`c\\`")

    def test_a_page_keeps_all_but_the_table(self):
        page = (TOOLS.parent / "docs/programs.md").read_text()
        once = table.inserted(page, "one\n")
        self.assertIn(f"{table.BEGIN}\none\n{table.END}\n", once)
        self.assertEqual(table.inserted(once, "two\n"), table.inserted(page, "two\n"))

    def test_json_keeps_all(self):
        about = {"date": "today"}, {"nginx": "1.22"}
        self.assertEqual(table.from_json(table.to_json(self.cells, *about)), (self.cells, *about))


class Catalogue(unittest.TestCase):
    def test_no_two_programs_have_one_name(self):
        names = [program.name for program in PROGRAMS]
        self.assertEqual(len(names), len(set(names)))

    def test_a_known_cell_is_one_of_a_program_and_a_mode(self):
        for entry in KNOWN:
            self.assertTrue(any(fnmatchcase(p.name, entry.program) for p in PROGRAMS), entry)
            self.assertTrue(any(fnmatchcase(m.name, entry.mode) for m in MODES), entry)
            self.assertTrue(entry.reason, entry)

    def test_every_package_is_listed_so_that_install_brings_it(self):
        listed = {name for package in packages.listed(TOOLS.parent) for name in package.names}
        elsewhere = {"cargo", "duckdb"}  # tools/setup finds Rust by itself; pip has duckdb
        for program in PROGRAMS:
            self.assertLessEqual(set(program.package.split()) - elsewhere, listed, program.name)

    def test_right_answers_are_regular_expressions(self):
        for program in PROGRAMS:
            re.compile(program.answer)

    def test_the_size_of_a_picture_is_that_of_its_header(self):
        header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 320, 240)
        self.assertEqual(tools.picture_size(header), "320 x 240")
        self.assertEqual(tools.picture_size(b"GIF89a"), "no PNG file")


class Runs(unittest.TestCase):
    """In a process of its own, which adopts orphans and ends all its children."""

    def run_in(self, work):
        with tempfile.TemporaryDirectory() as directory:
            program = (
                f"import sys; sys.path.insert(0, {str(TOOLS)!r}); from pathlib import Path; "
                "from chroots.system import adopt_orphans; adopt_orphans(); "
                "from programs.runner import Run, Failed, Hung\n"
                f"run = Run(['env', 'UNDER=tek'], Path({directory!r}), Path({directory!r}), LIMIT)\n"
                f"try:\n    {work}\n"
                "except (Failed, Hung) as error: print(type(error).__name__, error)\n"
                "finally: run.end()\n"
            )
            limit = 0.5 if "sleep" in work else 20
            return subprocess.run(
                [sys.executable, "-B", "-c", program.replace("LIMIT", str(limit))],
                capture_output=True, text=True, check=True, timeout=60,
            ).stdout.strip()

    def test_only_programs_have_tek_before_them_and_clients_have_not(self):
        ask = "'sh', '-c', 'echo ${UNDER:-nothing}'"
        self.assertEqual(self.run_in(f"print(run.output({ask}) + run.client({ask}))"),
                         "tek\nnothing")

    def test_an_exit_status_is_reported(self):
        self.assertEqual(self.run_in("run.output('sh', '-c', 'exit 3')"), "Failed exit status 3")

    def test_a_program_that_does_not_end_hangs_and_its_daemon_is_ended(self):
        info = self.run_in(
            "run.output('sh', '-c', 'setsid sleep 77 & echo $! >pid; wait')"
            "\nexcept Hung: print('hung', open(run.directory / 'pid').read())"
        ).split()
        self.assertEqual(info[0], "hung")
        self.assertFalse(Path(f"/proc/{info[1]}").exists())

    def test_a_daemon_that_ends_before_it_answers_is_no_hang(self):
        self.assertEqual(
            self.run_in(
                "run.until(run.start('sh', '-c', 'exit 7'), lambda: run.client('false'))"
            ),
            "Failed the daemon ended: exit status 7",
        )

    def test_a_free_port_can_be_used(self):
        self.assertGreater(runner.free_port(), 0)


class Versions(unittest.TestCase):
    def test_a_version_is_distinguished_from_a_name(self):
        for seen, version in (
            ("gst-launch-1.0 version 1.22.0", "1.22.0"),
            ("go version go1.26.8 linux/amd64", "1.26.8"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("v20.20.2", "20.20.2"),
            ('version = "1.11.0"', "1.11.0"),
        ):
            self.assertEqual(version_in(seen), version)


class Command(unittest.TestCase):
    def info(self, *words, **environment):
        return subprocess.run(
            [TOOLS / "real-programs", *words], capture_output=True, text=True, check=False,
            env=os.environ | environment,
        )

    def test_help_has_examples(self):
        self.assertIn("tools/real-programs --only nginx --mode m:1", self.info("--help").stdout)

    def test_nonsense_is_refused(self):
        for words in (["--only", "nonsense"], ["--mode", "nonsense"], ["nonsense"]):
            self.assertEqual(self.info(*words).returncode, 2, words)

    def test_without_a_build_nothing_is_run(self):
        with tempfile.TemporaryDirectory() as directory:
            info = self.info("--only", "go", TEK_BUILD=directory)
        self.assertEqual(info.returncode, 2)
        self.assertIn("bin/tek is missing: make build", info.stderr)


if __name__ == "__main__":
    unittest.main()
