"""Tests of the style checks: what clippy warned of while it compiled must not pass."""

import unittest

from checks import results, style

PASSED, FAILED, _ = results.Outcome

WARNED = '''\
warning: this `if` has identical blocks
 --> crates/tek/src/words.rs:3:5
warning: `tek` (bin "tek" test) generated 1 warning (1 duplicate)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.16s
'''
OF_A_LIBRARY = '''\
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.16s
warning: the following packages contain code that will be rejected by a future version of Rust: x v1.0.0
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

    def test_a_remark_about_a_library_of_others_does_not_fail(self):
        self.assertEqual(self.verdict(OF_A_LIBRARY).outcome, PASSED)
        self.assertEqual(self.verdict("").outcome, PASSED)
