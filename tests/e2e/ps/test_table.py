# SPDX-License-Identifier: MIT OR Apache-2.0
"""The thread table of a running program, read by another process."""
import re
import subprocess

import pytest

from conftest import BUILD, INCLUDE, eventually

# Threads enter and leave the Fast Region, start and end, as fast as they can.
CHURN = r"""
#include <pthread.h>
#include <tek/tek.h>
#include <unistd.h>

static void *toggle(void *unused)
{
	for (int i = 0; i < 100; i++) {
		tek_critical_enter();
		tek_critical_leave();
	}
	return unused;
}

int main(void)
{
	alarm(60);
	for (;;) {
		pthread_t threads[8];
		for (int i = 0; i < 8; i++)
			pthread_create(&threads[i], NULL, toggle, NULL);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
	}
}
"""


@pytest.fixture
def churning(compile_c, tmp_path):
    """The table of a program that changes its records all the time."""
    program = compile_c(CHURN, "cc", "-DTEK_OPTIONAL", f"-I{INCLUDE}", "-pthread")
    environment = {"LD_PRELOAD": str(BUILD / "lib" / "libtek.so"), "TEK_RUN_DIR": str(tmp_path)}
    with subprocess.Popen([program], env=environment) as process:
        table = tmp_path / f"{process.pid}.table"
        # The first word is written last.
        eventually(lambda: table.exists() and table.read_bytes()[:8] not in (b"", bytes(8)))
        yield table
        process.kill()


def test_no_record_is_torn_at_full_speed(tek, churning, real_time):
    ended = tek("debug", "table", churning, "--hammer", "1")
    counts = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", ended.stdout)}
    assert (ended.returncode, counts["torn"]) == (0, 0), ended.stdout
    assert counts["reads"] > 1000


def test_a_table_can_be_printed_while_it_changes(tek, churning):
    ended = tek("debug", "table", churning)
    assert ended.returncode == 0, ended.stderr
    assert "program" in ended.stdout.splitlines()[0]
