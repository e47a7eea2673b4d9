# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek explain reports the identity of one thread, what it was given, and why."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import WAITING, child_of, eventually, names_of, read, tids_by_name

RULES = """\
[[rule]]
match = { thread = "touch" }
set = { role = "touch input", critical = true, priority = -5 }

[[rule]]
match = { role = "touch*" }
set = { group = "urgent" }
"""


@pytest.fixture
def start(open_build):
    """Starts a command; returns its process and the tids of its threads by name, once they wait."""
    started = []

    def run(command, *names, under=None):
        prefix = [open_build / "bin" / "tek", "run", *under, "--"] if under is not None else []
        process = subprocess.Popen([*prefix, command, *names], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        pid = child_of(process.pid) if prefix else process.pid
        return pid, tids_by_name(pid, names)

    yield run
    for process in started:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(timeout=60)


def facts_of(tek, tid, **options):
    ended = tek("explain", "--json", tid, **options)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def wait_until(tek, tid, fits):
    def fit():
        facts = facts_of(tek, tid)
        return fits(facts) and facts

    return eventually(fit)


def test_a_thread_that_a_rule_makes_fast_is_explained_by_that_rule(
        tek, start, waiting, tmp_path, real_time):
    rules = tmp_path / "fridge.toml"
    rules.write_text(RULES)
    pid, tids = start(waiting, "touch", "other", under=["--no-rules", "--rules", rules])
    facts = wait_until(tek, tids["touch"], lambda facts: facts["tek"]["fast"])
    known = facts["tek"]
    assert (facts["pid"], facts["named"]) == (pid, True)
    assert (known["role"], known["group"], known["reasons"]) == ("touch input", "urgent", ["rule"])
    assert (known["creator_tid"], known["priority"]) == (pid, -5)
    assert facts["kernel"]["policy"] == "SCHED_RR"
    assert known["base"] == ["SCHED_OTHER", 0]
    by_number = {rule["number"]: rule for rule in known["rules"]}
    assert "critical" in by_number[1]["sets"] and by_number[2]["sets"] == ["group"]
    assert by_number[1]["source"] == f"{rules}:1"
    assert facts["not_known"] == []

    guard, = (tid for tid, name in names_of(pid).items() if name == "tek-guard")
    assert "It is TEK's own guard" in tek("explain", guard).stdout.split("\n\n")[0]

    text = tek("explain", tids["touch"]).stdout
    assert f"rule 1, {rules}:1 (match = " in text
    assert "Its role: touch input." in text and "gets back SCHED_OTHER" in text
    assert "It was never time-critical." in tek("explain", tids["other"]).stdout


def test_a_name_on_the_command_line_is_a_reason_too(tek, start, waiting, real_time):
    _, tids = start(waiting, "touch", under=["--no-rules", "--critical", "ui", "--critical", "to*"])
    wait_until(tek, tids["touch"], lambda facts: facts["tek"]["fast"])
    assert "- its name fits `--critical to*`.\n" in tek("explain", tids["touch"]).stdout


@pytest.mark.parametrize("policy, priority, name, words", [
    (os.SCHED_OTHER, 0, "other", "SCHED_OTHER since"),
    (os.SCHED_RR, 5, "rr", "SCHED_RR with real-time priority 5 since"),
])
def test_a_thread_whose_policy_was_set_from_outside_is_not_called_fast(
        tek, start, waiting, real_time, policy, priority, name, words):
    _, tids = start(waiting, "touch", under=["--no-rules", "--critical", "touch"])
    wait_until(tek, tids["touch"], lambda facts: facts["tek"]["fast"])
    os.sched_setscheduler(tids["touch"], policy, os.sched_param(priority))
    row, = json.loads(tek("ps", "--json", "--tid", tids["touch"]).stdout)["threads"]
    known = (row["region"], row["policy"], row["priority"], row["critical"])
    assert known == ("none", name, priority, None)
    assert row["rt_priority"] == (priority or None)
    text = tek("explain", tids["touch"]).stdout
    assert words in text and "stays as it is when it leaves" in text
    assert "It is time-critical" not in text and "gets back" not in text


def test_a_thread_that_the_guard_sent_back_is_described_as_such(tek, start, waiting, real_time):
    options = ["--no-rules", "--critical", "busy", "--budget", "50ms/1s"]
    _, tids = start(waiting, "busy", under=options)
    facts = wait_until(tek, tids["busy"], lambda facts: facts["tek"]["overruns"] > 0)
    assert facts["tek"]["budget"] == "50ms/1s"
    # Once, unless this machine is so slow that a second window begins.
    assert re.search(r"The guard sent it back (once|twice|\d+ times)",
                     tek("explain", tids["busy"]).stdout)


def test_a_program_without_tek_is_explained_as_far_as_the_kernel_knows(tek, start, waiting):
    pid, tids = start(waiting, "touch")
    facts = facts_of(tek, tids["touch"])
    assert facts["tek"] is None and facts["name"] == "touch" and facts["pid"] == pid
    assert "tek run --critical touch -- " in facts["not_known"][0]
    assert "It is scheduled as SCHED_OTHER" in tek("explain", pid).stdout


def test_a_program_that_tek_cannot_ride_in_is_described_as_such(tek, start, compile_c):
    static = compile_c(WAITING, "cc", "-pthread", "-static")
    _, tids = start(static, "touch", under=["--no-rules"])
    info, = facts_of(tek, tids["touch"])["not_known"]
    assert "libtek.so is in its LD_PRELOAD but not in it" in info


@pytest.mark.usefixtures("library_32")
def test_a_thread_of_a_32_bit_program_is_explained(tek, start, compile_c, real_time):
    narrow = compile_c(WAITING, "cc", "-m32", "-pthread")
    _, tids = start(narrow, "touch", "other", under=["--critical", "touch"])
    facts = facts_of(tek, tids["touch"])
    assert facts["tek"] is not None and not facts["not_known"]
    assert "- its name fits `--critical touch`.\n" in tek("explain", tids["touch"]).stdout


def wait_until_stopped(tid):
    """A signal to a process reaches its threads at different times."""
    eventually(lambda: read(f"/proc/{tid}/stat").rpartition(")")[2].split()[0] == "T")


def test_a_stopped_program_is_explained_at_once(tek, start, waiting):
    pid, tids = start(waiting, "touch", under=["--no-rules"])
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until_stopped(tids["touch"])
        # It goes on only after this: a tek that waited for it would wait until the timeout.
        facts = facts_of(tek, tids["touch"], timeout=60)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert facts["kernel"]["state"] == "T" and facts["tek"] is not None


def test_of_another_users_thread_what_is_hidden_is_named(tek, start, waiting, as_nobody):
    _, tids = start(waiting, "touch", under=["--no-rules"])
    facts = facts_of(tek, tids["touch"], prefix=as_nobody)
    assert facts["kernel"]["policy"] == "SCHED_OTHER"
    assert any("its rules and its budget" in text or "table" in text
               for text in facts["not_known"]), facts


def test_a_thread_of_the_kernel_is_known_for_what_it_does(tek):
    named = {}
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            named[comm.read_text().strip()] = comm.parent.name
        except OSError:
            pass  # it has ended
    if "ksoftirqd/0" not in named:
        pytest.skip("needs to see the kernel's threads, which a container hides")
    text = tek("explain", named["ksoftirqd/0"]).stdout
    assert "is a thread of the kernel" in text and "interrupts" in text
    assert "What TEK did" not in text


def test_several_threads_are_explained_one_after_the_other(tek, start, waiting):
    pid, tids = start(waiting, "touch")
    text = tek("explain", pid, tids["touch"]).stdout
    assert text.count("Who it is\n") == 2 and text.index(f"[{pid}]") < text.index("touch [")
    ended = tek("explain", "--json", 2**22 + 1, tids["touch"])
    assert ended.returncode == 1 and "there is no thread" in ended.stderr
    assert json.loads(ended.stdout)["name"] == "touch"


def test_what_is_not_there_is_an_error(tek):
    ended = tek("explain", 2**22 + 1)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "there is no thread" in ended.stderr
    for bad in ("0", "-1", "x", "99999999999"):
        assert tek("explain", bad).returncode == 2


def test_output_for_a_person_has_no_colours_in_a_pipe(tek):
    assert "\x1b" not in tek("explain", os.getpid()).stdout


def test_a_name_may_be_anything(tek, start, waiting):
    name = os.fsdecode(b"\xff\xfe\x1b[31m")
    _, tids = start(waiting, name)
    ended = tek("explain", tids[name])
    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout


def test_no_rule_controls_the_terminal(tek, start, waiting, monkeypatch):
    monkeypatch.setenv("TEK_RULES", "thread=touch,role=a,source=x\x1b[31m\nFORGED")
    _, tids = start(waiting, "touch", under=["--no-rules"])
    ended = tek("explain", tids["touch"])
    assert ended.returncode == 0 and "\x1b" not in ended.stdout
    assert "FORGED" not in ended.stdout.splitlines()
