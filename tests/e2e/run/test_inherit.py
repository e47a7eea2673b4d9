# SPDX-License-Identifier: MIT OR Apache-2.0
"""Priority inheritance: what holds up a critical thread of an unmodified C++ program is lifted."""
import json
import subprocess

import pytest

from conftest import PATIENCE, eventually
from paths import PROGRAMS

PROGRAM = (PROGRAMS / "holders.cpp").read_text()
LOCKS = ["mutex", "timed_mutex", "recursive_mutex", "writer", "reader", "condition"]
# A lift comes at once, but not where other programs keep the waiter from running.
WITHIN = str(20 * PATIENCE)
# How long a test waits for what does not come.
BRIEFLY = "0.3"


@pytest.fixture(scope="module")
def holders(compile_c):
    return compile_c(PROGRAM, "g++", "-x", "c++", "-std=c++17", "-pthread")


@pytest.mark.parametrize("kind", LOCKS)
def test_the_holder_of_a_lock_is_lifted_until_it_unlocks(tek, holders, kind, real_time):
    ended = tek("run", "--critical=touch", "--", holders, kind, WITHIN)
    assert (ended.stdout, ended.stderr) == ("lifted then ordinary\n", "")


def test_a_thread_is_lifted_while_a_critical_one_joins_it(tek, holders, real_time):
    ended = tek("run", "--critical=touch", "--", holders, "join", WITHIN)
    assert (ended.stdout, ended.stderr) == ("lifted then lifted\n", "")


@pytest.mark.parametrize("kind", [*LOCKS, "join"])
def test_no_thread_is_lifted_where_the_option_forbids_it(tek, holders, kind, real_time):
    ended = tek("run", "--no-inherit", "--critical=touch", "--", holders, kind, BRIEFLY)
    assert (ended.stdout, ended.stderr) == ("ordinary then ordinary\n", "")


@pytest.mark.parametrize("kind", ["mutex", "reader", "condition", "join"])
def test_no_thread_is_lifted_for_an_ordinary_one(tek, holders, kind):
    ended = tek("run", "--", holders, kind, BRIEFLY)
    assert (ended.stdout, ended.stderr) == ("ordinary then ordinary\n", "")


def test_ps_and_explain_show_that_a_thread_is_lifted(tek, open_build, holders, real_time):
    command = [open_build / "bin" / "tek", "run", "--critical=touch", "--", holders]
    with subprocess.Popen([*command, "mutex", WITHIN, "stays"], stdin=subprocess.PIPE) as program:

        def lifted():
            columns = "--columns=tid,name,critical,waits-for,lifted-by"
            printed = tek("ps", "--json", columns, "--program", holders.name).stdout
            rows = {row["name"]: row for row in json.loads(printed)["threads"]}
            return rows if rows.get("holder", {}).get("critical") == "lift" else None

        rows = eventually(lifted)
        holder, touch = rows["holder"]["tid"], rows["touch"]["tid"]
        assert (rows["holder"]["lifted_by_tid"], rows["touch"]["waits_for_tid"]) == (touch, holder)
        assert rows["holder"]["waits_for_tid"] is rows["touch"]["lifted_by_tid"] is None
        shown = tek("ps", "--columns=name,region", "--program", holders.name).stdout
        assert ["holder", "lifted"] in [line.split() for line in shown.splitlines()]
        shown = tek("top", "--once", "--interval=0.1", "--filter", "holder").stdout
        assert [line for line in shown.splitlines() if f" {holder} " in f" {line} "
                and " lifted " in line], shown
        explained = tek("explain", holder).stdout
        assert f"it holds up touch [{touch}]: they wait for a lock" in explained
        assert f"; touch [{touch}] waits for the mutex mutex in " in explained
        explained = tek("explain", touch).stdout
        assert f"It waits for holder [{holder}]: that is time-critical" in explained
        assert "It waits for the mutex mutex in " in explained and " so far." in explained
        program.stdin.close()
    assert program.returncode == 0


def rows_of(tek, program):
    """The threads of a program, as tek ps prints them."""
    columns = "--columns=tid,name,critical"
    printed = tek("ps", "--json", columns, "--program", program.name).stdout
    return json.loads(printed)["threads"]


def test_explain_names_the_threads_of_a_deadlock_and_none_of_them_is_lifted(tek, open_build,
                                                                          compile_c, real_time):
    program = compile_c((PROGRAMS / "deadlock.c").read_text(), "cc", "-pthread", "-D_GNU_SOURCE")
    command = [open_build / "bin" / "tek", "run", "--critical=touch", "--", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:

        def rows():
            found = {row["name"]: row for row in rows_of(tek, program)}
            return found if {"touch", "logger"} <= set(found) else None

        tids = {name: row["tid"] for name, row in eventually(rows).items()}
        touch, logger = f"touch [{tids['touch']}]", f"logger [{tids['logger']}]"

        def explained(name):
            text = tek("explain", tids[name]).stdout
            return text if "It waits in a deadlock, and TEK lifts no thread" in text else None

        assert f"{touch} waits for {logger} (for the mutex second in " in eventually(
            lambda: explained("touch"))
        text = eventually(lambda: explained("logger"))
        assert f": {logger} waits for {touch} (for the mutex first" in text
        assert f"; {touch} waits for {logger} (" in text
        facts = json.loads(tek("explain", "--json", tids["touch"]).stdout)
        deadlock = [other["tid"] for other in facts["tek"]["deadlock"]]
        assert deadlock == [tids["touch"], tids["logger"], tids["touch"]]
        assert eventually(rows)["logger"].get("critical") is None
        running.stdin.close()
        assert running.wait(60) == 0


def test_of_a_deadlock_of_many_threads_the_first_ones_are_named_and_none_is_lifted(
        tek, open_build, compile_c, real_time):
    program = compile_c((PROGRAMS / "circle.c").read_text(), "cc", "-pthread", "-D_GNU_SOURCE")
    command = [open_build / "bin" / "tek", "run", "--critical=touch", "--", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:

        def rows():
            return rows_of(tek, program)

        touch = eventually(lambda: [row["tid"] for row in rows() if row["name"] == "touch"])[0]

        def explained():
            text = tek("explain", touch).stdout
            return text if "It waits in a long deadlock" in text else None

        assert "and TEK lifts no thread for it: touch [" in eventually(explained)
        deadlock = json.loads(tek("explain", "--json", touch).stdout)["tek"]["deadlock"]
        assert len({other["tid"] for other in deadlock}) == len(deadlock) > 10
        eventually(lambda: not [row for row in rows() if row["critical"] == "lift"])
        running.stdin.close()
        assert running.wait(60) == 0


def test_a_deadlock_that_a_thread_gave_up_is_not_named(tek, open_build, compile_c, real_time):
    program = compile_c((PROGRAMS / "deadlock.c").read_text(), "cc", "-pthread", "-D_GNU_SOURCE")
    command = [open_build / "bin" / "tek", "run", "--critical=touch", "--", program, "300"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as running:
        assert running.stdout.readline() == "touch gave up\n"
        tids = {row["name"]: row["tid"] for row in rows_of(tek, program)}
        for name in ("touch", "logger"):
            assert "deadlock" not in tek("explain", tids[name]).stdout
        running.stdin.close()
        assert running.wait(60) == 0


def test_a_wait_that_outlasts_a_deadlock_is_named(tek, open_build, compile_c, real_time):
    source = (PROGRAMS / "deadlock_ends.c").read_text()
    program = compile_c(source, "cc", "-pthread", "-D_GNU_SOURCE")
    command = [open_build / "bin" / "tek", "run", "--critical=touch", "--", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as running:
        assert running.stdout.readline() == "writer gave up\n"
        tids = {row["name"]: row["tid"] for row in rows_of(tek, program)}

        def explained():
            text = tek("explain", tids["touch"]).stdout
            return text if f"It waits for writer [{tids['writer']}]" in text else None

        assert "It waits for the mutex first in " in eventually(explained)
        running.stdin.close()
        assert running.wait(60) == 0
