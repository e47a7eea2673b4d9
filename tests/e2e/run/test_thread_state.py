# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/design/thread-state.md names each system call in lib/uthread/posix/state_effect.c."""

import re

from paths import TOP

ROOT = TOP
PAGE = ROOT / "docs" / "design" / "thread-state.md"
CODE = ROOT / "lib" / "uthread" / "posix" / "state_effect.c"


def test_the_list_of_thread_state_names_the_calls_that_the_library_examines():
    in_code = set(re.findall(r"\{(SYS_\w+), ", CODE.read_text()))
    in_page = set(re.findall(r"`(SYS_\w+)`", PAGE.read_text()))
    assert len(in_code) > 30
    assert in_code == in_page
