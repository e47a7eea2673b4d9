# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that become time-critical by name, the report on them, and the message if they cannot."""
import json
import os
import pathlib

import pytest


def rows(path):
    report = json.loads(path.read_text())
    return report, {row["thread"]: row for row in report["threads"]}


def test_named_threads_become_fast_and_are_reported(tek, threads, tmp_path, real_time):
    path = tmp_path / "report.json"
    ended = tek("run", "--critical=ui*", "--critical=touch=-20", "--critical=never", "--report",
                "--report-json", path, threads, "ui1", "touch", "other", "5")
    assert ended.returncode == 5
    assert ended.stdout == ""
    report, by_name = rows(path)
    assert set(by_name) == {"ui1", "touch"}
    assert (by_name["ui1"]["priority"], by_name["touch"]["priority"]) == (0, -20)
    for row in by_name.values():
        assert (row["state"], row["stays"], row["overruns"]) == ("ended", 1, 0)
        assert row["cpu_ns"] >= 90_000_000
        assert row["fast_ns"] >= 50_000_000
    assert report["end"] == {"status": 5}
    assert report["unmatched"] == ["never"]
    assert "ui1" in ended.stderr and "--critical 'never'" in ended.stderr


def test_the_fast_threads_of_a_killed_program_are_in_the_report(tek, threads, tmp_path, real_time):
    path = tmp_path / "report.json"
    ended = tek("run", "--critical=stay", "--report-json", path, threads, "stay", "killed")
    assert ended.returncode == -9
    report, by_name = rows(path)
    assert by_name["stay"]["state"] == "gone"
    assert by_name["stay"]["fast_ns"] >= 100_000_000
    assert report["end"] == {"signal": "SIGKILL"}


def test_a_run_leaves_nothing_behind(tek, threads, real_time):
    directory = "echo $TEK_RUN_DIR; echo $TEK_EVENTS >&2;"
    ended = tek("run", "--critical=stay", "sh", "-c", f"{directory} {threads} stay killed; exit 4")
    assert ended.returncode == 4
    run = pathlib.Path(ended.stdout.splitlines()[0])
    assert f"{run}/events" in ended.stderr
    assert not run.exists()


def test_without_privilege_one_message_gives_the_three_ways_and_the_program_runs(
        tek, threads, as_nobody):
    ended = tek("run", "--critical=ui*", "--report", threads, "ui1", "ui2", "3", prefix=as_nobody)
    assert ended.returncode == 3
    assert ended.stderr.count("cannot become time-critical") == 1
    for way in (f"prlimit --pid {os.getpid()} --rtprio=60:60", "nobody - rtprio 60",
                "LimitRTPRIO=60"):
        assert way in ended.stderr
    assert "no thread became time-critical" in ended.stderr


TITLED = """
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

static void *named(void *unused)
{
	pthread_setname_np(pthread_self(), "ui");
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	(void)count;
	memset(arguments[0], 'x', strlen(arguments[0]));
	pthread_create(&thread, NULL, named, NULL);
	return pthread_join(thread, NULL);
}
"""


def test_a_program_that_writes_over_its_arguments_keeps_its_name_in_messages(
        tek, compile_c, as_nobody):
    titled = compile_c(TITLED, "cc", "-pthread")
    ended = tek("run", "--critical=ui", titled, prefix=as_nobody)
    assert ended.returncode == 0
    assert f"thread ui of {titled.name} [" in ended.stderr


def test_a_cgroup_without_real_time_run_time_is_named_with_its_cure(tek, threads):
    base = pathlib.Path("/sys/fs/cgroup/cpu")
    group = base / f"tek-test-{os.getpid()}"
    if os.geteuid() != 0 or not (base / "cpu.rt_runtime_us").exists():
        pytest.skip("needs root and a cgroup v1 cpu controller with RT_GROUP_SCHED")
    group.mkdir()
    try:
        inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        ended = tek("run", "--critical=ui", threads, "ui", "3", prefix=inside)
        doctor = tek("doctor", "--json", prefix=inside)
    finally:
        group.rmdir()
    assert ended.returncode == 3
    assert f"{group} has no real-time run-time" in ended.stderr
    assert "rtprio" not in ended.stderr
    assert doctor.returncode == 1
    checks = {check["id"]: check for check in json.loads(doctor.stdout)["checks"]}
    assert checks["rt-group-sched"]["answer"] == "no"
    assert "cpu.rt_runtime_us" in checks["rt-group-sched"]["cure"]


UNNAMED_CHILD = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *who)
{
	printf("%s %ld\n", who, syscall(SYS_sched_getscheduler, 0) & 0xff);
}

static void *child(void *unused)
{
	char name[16];
	pthread_getname_np(pthread_self(), name, sizeof(name));
	say(name);
	return unused;
}

static void *parent(void *unused)
{
	pthread_t thread;
	pthread_setname_np(pthread_self(), "crit-touch");
	say("parent");
	pthread_create(&thread, NULL, child, NULL);
	pthread_join(thread, NULL);
	pthread_setname_np(pthread_self(), "other");
	say("renamed");
	pthread_setname_np(pthread_self(), "crit-again");
	say("again");
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, parent, NULL);
	pthread_join(thread, NULL);
	return 0;
}
"""


def test_a_child_that_only_inherited_a_critical_name_is_not_critical(tek, compile_c, real_time):
    program = compile_c(UNNAMED_CHILD, "cc", "-pthread")
    # Without the option it would be lifted while the critical thread joins it.
    ended = tek("run", "--no-inherit", "--critical=crit-*", program)
    # 2 is SCHED_RR. The child has the name, but only by inheritance.
    assert ended.stdout.splitlines() == ["parent 2", "crit-touch 0", "renamed 0", "again 2"]
    assert ended.stderr == ""


def test_an_unknown_option_starts_nothing(tek, tmp_path):
    started = tmp_path / "started"
    for option in ("--no-such-option", "--critical=ui=20", "--critical=[", "--budget=1",
                   "--rt-range=0-5", f"--critical={'*' * 64}", "--role=gas", "--role=gas=",
                   f"--role=gas={'x' * 64}"):
        ended = tek("run", option, "--", "touch", started)
        assert ended.returncode == 2
        assert option.split("=")[0] in ended.stderr
    assert not started.exists()


def test_more_patterns_than_the_library_takes_start_nothing(tek, tmp_path):
    started = tmp_path / "started"
    patterns = [f"--critical=t{n}" for n in range(65)]
    ended = tek("run", *patterns, "--", "touch", started)
    assert ended.returncode == 2
    assert "65 times" in ended.stderr and "64 patterns" in ended.stderr
    assert not started.exists()
    # The largest number of patterns is accepted, without a warning of the library.
    ended = tek("run", *patterns[:63], f"--critical={'*' * 63}", "--", "touch", started)
    assert ended.returncode == 0
    assert "TEK_" not in ended.stderr
    assert started.exists()
