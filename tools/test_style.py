"""Tests of the style checks: clippy's warnings and circles of modules must not pass."""

import tempfile
import unittest
from pathlib import Path

from checks import results, rust_modules, style

PASSED, FAILED, _ = results.Outcome

WARNED = '''\
warning: this `if` has identical blocks
 --> crates/tek/src/words.rs:3:5
warning: `tek` (bin "tek" test) generated 1 warning (1 duplicate)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.16s
'''
OF_A_LIBRARY = '''\
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.16s
warning: the following packages contain code that will be rejected by a future version of Rust: x
'''


class Clippy(unittest.TestCase):
    def verdict(self, output, status=0):
        return style.verdict_of_clippy(output, status, f"exit status {status}", None)

    def test_a_warning_of_a_crate_of_ours_fails(self):
        verdict = self.verdict(WARNED)
        self.assertEqual(verdict.outcome, FAILED)
        self.assertIn('`tek` (bin "tek" test) generated 1 warning', verdict.reason)

    def test_a_compiler_error_is_a_failure_with_its_message(self):
        verdict = self.verdict("   Compiling tek\nerror[E0425]: cannot find value `x`\n", 101)
        self.assertEqual((verdict.outcome, verdict.reason),
                         (FAILED, "exit status 101: error[E0425]: cannot find value `x`"))

    def test_a_remark_about_a_foreign_library_does_not_fail(self):
        self.assertEqual(self.verdict(OF_A_LIBRARY).outcome, PASSED)
        self.assertEqual(self.verdict("").outcome, PASSED)


class RustModules(unittest.TestCase):
    """The check for circles, on crates that are made up here."""

    def circles(self, files):
        with tempfile.TemporaryDirectory() as top:
            for name, text in files.items():
                path = Path(top, "crates/fridge/src", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return rust_modules.circles(Path(top))

    def test_modules_that_use_each_other_are_a_circle_with_its_uses(self):
        files = {"door.rs": "use crate::lamp::Lamp;\n", "lamp.rs": "use super::door;\n"}
        self.assertEqual(self.circles(files),
                         ["fridge: door uses lamp::Lamp; lamp uses door"])

    def test_a_circle_is_found_through_braces_paths_and_a_third_module(self):
        files = {"door.rs": "use crate::{\n    lamp::{self, Lamp as Light},\n};\n",
                 "lamp.rs": "fn f() { crate::motor::stop() }\n",
                 "motor/mod.rs": "mod belt;\n", "motor/belt.rs": "use super::super::door::Door;\n"}
        self.assertEqual(len(self.circles(files)), 1)

    def test_a_name_that_is_passed_on_counts_as_its_module(self):
        files = {"lib.rs": "mod door;\npub use lamp::Lamp;\n", "door.rs": "use crate::Lamp;\n",
                 "lamp.rs": "use crate::door::Door;\n"}
        self.assertEqual(len(self.circles(files)), 1)

    def test_a_circle_within_a_folder_is_reported_with_the_folder(self):
        files = {"cold/air.rs": "use super::water::W;\n", "cold/water.rs": "use super::air::A;\n"}
        self.assertEqual(self.circles(files), ["fridge::cold: cold::air uses cold::water::W; "
                                               "cold::water uses cold::air::A"])

    def test_tests_comments_and_strings_use_nothing(self):
        files = {"door.rs": "use crate::lamp::Lamp;\n",
                 "lamp.rs": '// crate::door::Door\nconst A: &str = "crate::door::Door";\n'
                            'const B: (char, &str) = (\'"\', r#"crate::door"#);\n'
                            "#[cfg(test)]\nmod tests {\n    use crate::door::Door;\n}\n",
                 "lamp_tests.rs": "use crate::door::Door;\n"}
        self.assertEqual(self.circles(files), [])

    def test_a_child_may_use_what_its_folders_file_defines(self):
        files = {"door/mod.rs": "mod hinge;\nuse hinge::Hinge;\n",
                 "door/hinge.rs": "use super::Size;\n"}
        self.assertEqual(self.circles(files), [])

    def test_the_crates_have_no_circle(self):
        self.assertEqual(rust_modules.circles(Path(__file__).parents[1]), [])
