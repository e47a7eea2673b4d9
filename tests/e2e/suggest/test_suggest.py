# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek suggest finds the threads that wake often and are soon done, and writes rules for them."""
import functools
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import ALL, BUILD, FIRST, child_of, tids_by_name
from paths import TOP

# `tek suggest` needs 5 seconds of activity; on a busy machine some of them pass without any.
SECONDS = 9

# Threads that each live one way for so many seconds; then the exit status.
LIVES = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds;

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void burn(double for_s)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + for_s;
	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void live(double work_s, unsigned pause_us)
{
	double end = now(CLOCK_MONOTONIC) + seconds;
	while (now(CLOCK_MONOTONIC) < end) {
		burn(work_s);
		usleep(pause_us);
	}
}

/* Each second has pauses of its own, so that the thread never wakes as evenly as by a clock. */
static void answer(void)
{
	double begin = now(CLOCK_MONOTONIC);
	for (double lived = 0; lived < seconds; lived = now(CLOCK_MONOTONIC) - begin) {
		burn(0.001);
		usleep(20000 + 20000 * ((unsigned)lived % 9));
	}
}

static void *nameless(void *unused)
{
	answer();
	return unused;
}

static void *run(void *name)
{
	pthread_setname_np(pthread_self(), name);
	if (strncmp(name, "click", 5) == 0)
		answer();
	else if (strcmp(name, "clock") == 0)
		live(0.0002, 50000);
	else if (strcmp(name, "slow") == 0)
		live(0.001, 900000);
	else if (strcmp(name, "long") == 0)
		live(0.08, 150000);
	else
		live(0.1, 40000);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[16];
	seconds = atof(argv[1]);
	alarm(60);
	for (int i = 2; i < argc - 1; i++)
		pthread_create(&threads[i], NULL, strcmp(argv[i], "-") ? run : nameless, argv[i]);
	puts("out");
	fflush(stdout);
	for (int i = 2; i < argc - 1; i++)
		pthread_join(threads[i], NULL);
	if (strcmp(argv[argc - 1], "killed") == 0)
		raise(SIGKILL);
	return atoi(argv[argc - 1]);
}
"""


@pytest.fixture(scope="session")
def lives(compile_c):
    return compile_c(LIVES, "cc", "-pthread")


def cpu_times():
    with open("/proc/stat", encoding="ascii") as stat:
        times = [int(time) for time in stat.readline().split()[1:9]]
    return sum(times), times[7]


def unless_disturbed(test):
    """Repeats a test that fails while the machine's host takes CPU time away, and skips it if that
    does not help: the behaviour of threads is computed from the times at which they ran."""
    @functools.wraps(test)
    def run(*arguments, **fixtures):
        for last in (False, True):
            (all_before, stolen_before), watched = cpu_times(), fixtures.get("watched")
            watched = watched and watched()
            try:
                return test(*arguments, **fixtures | ({"watched": watched} if watched else {}))
            except AssertionError:
                all_after, stolen_after = cpu_times()
                share = (stolen_after - stolen_before) / max(all_after - all_before, 1)
                share = watched["stolen"] if watched else share
                if share < 0.02:
                    raise
                if last:
                    pytest.skip(f"the machine's host took {share:.0%} of the CPU time away")
                if watched:
                    fixtures["watched"](again=True)
        return None
    return run


def watch_shortly(tek, lives):
    with subprocess.Popen([*FIRST, lives, "30", "click", "0"], stdout=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            time.sleep(0.5)
            return tek("suggest", "--json", "--pid", process.pid, "--time", 5)
        finally:
            process.kill()


def watch_until_before_the_end(tek_path, lives):
    """Standard output, and the seconds until its end; tek's status by then, if it had ended; its
    final status, messages and seconds."""
    command = [*FIRST, tek_path, "suggest", "--time", "6", "--", lives, "9", "click", "5"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            info, info_after, ended = (process.stdout.read(), time.monotonic() - began,
                                       process.poll())
            status = process.wait(timeout=60)
            return info, info_after, ended, status, process.stderr.read(), time.monotonic() - began
        finally:
            process.kill()


def watch_until_a_signal(tek_path, lives, rules):
    command = [*FIRST, tek_path, "suggest", "-o", rules, "--", lives, "30", "click", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            assert process.stdout.readline() == b"out\n"
            tids_by_name(child_of(process.pid), ["click"])
            time.sleep(SECONDS)
            process.send_signal(signal.SIGTERM)
            return process.wait(timeout=60)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def watched(tek, open_build, lives, tmp_path_factory):
    """The suggestions for programs that are nearly always asleep, in a first watch or another."""
    watches = []

    def last(again=False):
        if again or not watches:
            watches.append(watch_side_by_side(tek, open_build / "bin" / "tek", lives,
                                              tmp_path_factory.mktemp("watched")))
        return watches[-1]

    return last


def watch_side_by_side(tek, tek_path, lives, directory):
    stripped = directory / "stripped"
    if subprocess.run(["strip", "-o", stripped, lives], check=False).returncode:
        stripped = None
    runs = {
        "borders": ["--json", "--min-rate", "30", "--", lives, SECONDS, "clock", "0"],
        "no file": ["--", lives, SECONDS, "click", "5"],
        "clock": ["--", lives, SECONDS, "click", "clock", "0"],
        "killed": ["-o", directory / "rules.toml", lives, SECONDS, "click", "killed"],
        "nameless": ["--", lives, SECONDS, "-", "0"],
        "stripped": ["--", stripped, SECONDS, "-", "0"],
        "ends early": ["--time", "60", "--", lives, SECONDS, "click", "3"],
    }
    all_before, stolen_before = cpu_times()
    with ThreadPoolExecutor(len(runs) + 3) as pool:
        ended = {name: pool.submit(tek, "suggest", *arguments, prefix=FIRST, start_new_session=True)
                 for name, arguments in runs.items() if None not in arguments}
        ended["shortest"] = pool.submit(watch_shortly, tek, lives)
        ended["before the end"] = pool.submit(watch_until_before_the_end, tek_path, lives)
        ended["signal"] = pool.submit(watch_until_a_signal, tek_path, lives,
                                      directory / "signal.toml")
        ended = {name: future.result() for name, future in ended.items()}
    all_after, stolen_after = cpu_times()
    ended["stolen"] = (stolen_after - stolen_before) / max(all_after - all_before, 1)
    ended["rules"] = directory / "rules.toml"
    ended["signal rules"] = directory / "signal.toml"
    return ended


def rules_in(text):
    """The thread patterns of the rules in a file."""
    lines = [line for line in text.splitlines() if line.startswith("match = ")]
    return [line.split('thread = "')[1].split('"')[0] for line in lines if "thread = " in line]


def kinds_in(text):
    return {kind["thread"]: kind for kind in json.loads(text)["kinds"]}


@pytest.mark.alone()
@unless_disturbed
def test_the_event_path_of_the_appliance_is_found_and_then_fast(tek, tmp_path, real_time):
    appliance = BUILD / "bench" / "response" / "appliance"
    rules, report = tmp_path / "rules.toml", tmp_path / "report.json"
    ended = tek("suggest", "-o", rules, "--", appliance, timeout=250, prefix=ALL,
                start_new_session=True)
    assert ended.returncode == 0, ended.stderr
    suggested = set(rules_in(rules.read_text()))
    assert {"touch", "ui", "render"} <= suggested and not {"door", "gas", "temp"} & suggested
    hogs = ("media", "network", "updater", "indexer")
    assert not [name for name in suggested if name.startswith(hogs)]
    assert all(f"# - {hog}[0-9]* of appliance (5 threads)" in rules.read_text() for hog in hogs)

    ended = tek("run", "--no-rules", "--rules", rules, "--report-json", report, "--", appliance,
                timeout=250, prefix=ALL, start_new_session=True)
    assert ended.returncode == 0, ended.stderr
    fast = {row["thread"] for row in json.loads(report.read_text())["threads"]}
    assert fast == suggested


def test_precision_and_recall_are_shown(tmp_path):
    shown, file = (subprocess.run([TOP / "bench/suggest/answers.py",
                                   "--hogs", "1", "--seconds", "5",
                                   "--json", tmp_path / "file", *more, "robot"],
                                  stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "TEK_BUILD": str(BUILD)}, timeout=120,
                                  check=True).stdout
                   for more in ((), ("--list",)))
    assert re.search(r"\n +1 +robot +[0-2] of 2 .*\n +1 +all +precision [01]\.\d\d, recall "
                     r"[01]\.\d\d\n$", shown)
    assert file.split() == ["robot", "bumper", "motor"]
    assert json.loads((tmp_path / "file").read_text())[0]["hogs"] == 1


@unless_disturbed
def test_each_way_to_live_has_its_verdict(tek, lives):
    names = ["click1", "click2", "clock", "slow", "long", "hog"]
    ended = tek("suggest", "--json", "--", lives, SECONDS, *names, "0", prefix=FIRST,
                start_new_session=True)
    assert ended.returncode == 0, ended.stderr
    kinds = kinds_in(ended.stdout)
    reasons = {name: kind["reason"] for name, kind in kinds.items()}
    assert reasons["click[0-9]*"] is None and kinds["click[0-9]*"]["threads"] == 2
    assert reasons["clock"] == "woken_evenly" and kinds["clock"]["periodic"]
    assert not kinds["click[0-9]*"]["periodic"]
    assert 10 <= kinds["clock"]["wakeups_per_s"] <= 25
    assert reasons["slow"] == "rarely_woken"
    assert reasons["long"] == "long_bursts"
    assert reasons["hog"] == "cpu_bound"


@unless_disturbed
def test_the_borders_can_be_moved(watched):
    assert kinds_in(watched["borders"].stdout)["clock"]["reason"] == "rarely_woken"


@unless_disturbed
def test_without_a_file_the_rules_are_all_of_standard_output(watched):
    ended = watched["no file"]
    assert ended.returncode == 5
    assert rules_in(ended.stdout) == ["click"]
    assert "out" not in ended.stdout.splitlines()
    assert "out" in ended.stderr.splitlines()


@unless_disturbed
def test_the_rule_of_a_thread_that_a_clock_wakes_waits_to_be_uncommented(watched):
    ended = watched["clock"]
    assert rules_in(ended.stdout) == ["click"]
    assert "# perhaps: clock of" in ended.stdout
    uncommented = re.sub(r"(?m)^#(?=\S)", "", ended.stdout)
    assert rules_in(uncommented) == ["click", "clock"]


@unless_disturbed
def test_with_a_file_the_program_keeps_its_streams_and_its_end(watched):
    ended = watched["killed"]
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout == "out\n"
    assert rules_in(watched["rules"].read_text()) == ["click"]
    assert all(line.startswith("tek:") for line in ended.stderr.splitlines())


@unless_disturbed
def test_a_thread_without_a_name_is_meant_by_its_function(watched):
    assert watched["nameless"].returncode == 0
    assert 'function = "nameless"' in watched["nameless"].stdout


@unless_disturbed
def test_a_thread_without_name_and_known_function_gets_advice(watched):
    if "stripped" not in watched:
        pytest.skip("needs strip")
    ended = watched["stripped"]
    advice = "give it a name in the program (pthread_setname_np)"
    assert advice in " ".join(ended.stdout.replace("\n#", "").split())
    assert rules_in(ended.stdout) == []


@unless_disturbed
def test_a_running_program_can_be_watched(tek, lives):
    with subprocess.Popen([*FIRST, lives, "60", "click", "hog", "0"], stdout=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            tids_by_name(process.pid, ["click", "hog"])
            ended = tek("suggest", "--pid", process.pid, "--time", SECONDS)
        finally:
            process.kill()
    assert ended.returncode == 0, ended.stderr
    assert rules_in(ended.stdout) == ["click"]


def test_a_watch_that_is_too_short_for_a_verdict_is_refused(tek):
    for short in ("1", "4.9", "0", "nan"):
        ended = tek("suggest", "--pid", os.getpid(), "--time", short)
        assert ended.returncode == 2 and ended.stdout == ""
        assert "from 5, for a thread that was active for less gets no verdict" in ended.stderr


@unless_disturbed
def test_the_shortest_watch_is_long_enough_for_a_verdict(watched):
    click = kinds_in(watched["shortest"].stdout)["click"]
    assert click["active_s"] >= 5 and click["reason"] is None


@unless_disturbed
def test_the_watch_of_a_program_can_end_before_the_program(watched):
    info, info_after, ended, status, stderr, ended_after = watched["before the end"]
    assert rules_in(info) == ["click"]
    assert info_after >= 6 and ended is None
    assert status == 5 and "the program runs on, and tek waits for it" in stderr
    assert ended_after >= 9


@unless_disturbed
def test_a_program_that_ends_before_its_watch_gets_its_rules(watched):
    ended = watched["ends early"]
    assert ended.returncode == 3
    assert rules_in(ended.stdout) == ["click"]
    assert "runs on" not in ended.stderr


@unless_disturbed
def test_a_signal_reaches_the_program_and_the_rules_are_written(watched):
    assert watched["signal"] == -signal.SIGTERM
    assert rules_in(watched["signal rules"].read_text()) == ["click"]


def test_nothing_is_started_whose_result_could_not_be_written(tek, tmp_path):
    started = tmp_path / "started"
    ended = tek("suggest", "-o", tmp_path / "no" / "file", "--", "touch", started)
    assert ended.returncode == 125 and "cannot write" in ended.stderr
    for bad in (["--max-share", "x"], ["--max-share", "101"], ["--min-rate=-1"], ["--time", "4"],
                ["--min-rate", "5", "--max-rate", "1"], ["--pid", "1"], ["-x"]):
        ended = tek("suggest", *bad, "--", "touch", started)
        assert ended.returncode == 2, bad
    assert not started.exists()


def test_a_file_of_rules_stays_until_there_are_new_ones(tek, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("# mine\n")
    assert tek("suggest", "-o", rules, "--", "no-such-program-anywhere").returncode == 127
    assert rules.read_text() == "# mine\n"
    assert tek("suggest", "-o", rules, "--", "true").returncode == 0
    assert "# mine" not in rules.read_text()


def test_rules_that_cannot_be_written_are_reported_by_the_status(tek):
    ended = tek("suggest", "-o", "/dev/full", "--", "true")
    assert ended.returncode == 125 and "cannot write the rules" in ended.stderr


def test_what_is_not_there_is_reported(tek):
    assert tek("suggest", "--", "no-such-program-anywhere").returncode == 127
    ended = tek("suggest", "--pid", 2**22 + 1)
    assert ended.returncode == 1
    assert "no process" in ended.stderr
    assert tek("suggest").returncode == 2


def test_a_thread_is_not_taken_for_a_process(tek, lives):
    with subprocess.Popen([lives, "30", "click", "0"], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            tid, = {int(tid) for tid in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}
            ended = tek("suggest", "--pid", tid)
        finally:
            process.kill()
    assert ended.returncode == 1 and ended.stdout == ""
    assert f"{tid} is a thread of {process.pid}" in ended.stderr


def test_a_program_that_ends_at_once_gets_an_empty_file(tek):
    ended = tek("suggest", "--", "true")
    assert ended.returncode == 0
    assert "# No thread is suggested." in ended.stdout
    assert os.linesep in ended.stdout and rules_in(ended.stdout) == []
