# SPDX-License-Identifier: MIT OR Apache-2.0
"""The common parts distinguish a fault of a test from a missing requirement."""
import pytest


def test_a_mistake_in_a_test_program_is_a_failure(compile_c):
    with pytest.raises(pytest.fail.Exception, match="error:"):
        compile_c("int main(void) { return mistake; }", "cc")


def test_what_nothing_can_be_built_with_is_a_reason_to_skip(compile_c):
    with pytest.raises(pytest.skip.Exception, match="no-such-library"):
        compile_c("int main(void) { return 0; }", "cc", "-lno-such-library")
