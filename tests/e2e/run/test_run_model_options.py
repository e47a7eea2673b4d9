# SPDX-License-Identifier: MIT OR Apache-2.0
"""User-level threads: options that are refused, and what programs cannot have on them."""
import json
import os
import shutil
import subprocess

import pytest
from conftest import BUILD, INCLUDE
from test_run_model import TEK, library

assert library  # which pytest finds by their names

pytestmark = pytest.mark.spread

REFUSED = [
    (["--workers", "2"], "--workers"),
    (["--model", "m:1", "--workers", "2"], "--workers is for --model m:n"),
    (["--sched", "rr"], "--sched"),
    (["--trace", "x.json"], "--trace"),
    (["--model", "m:1", "--sched", "lottery"], "rr, mlfq, psjf, fifo, steal"),
    (["--model", "n:m"], "1:1, m:1, m:n"),
    (["--model", "m:n", "--workers", "0"], "write a number from 1 to 256"),
    (["--model", "m:n", "--workers", "two"], "write a number from 1 to 256"),
    (["--model", "m:n", "--stack", "2G"], "a size from 16K to 1G"),
    (["--model", "m:1", "--quantum", "5"], "200us"),
    (["--model", "m:1", "--pool", "5"], "--sched fifo"),
    (["--model", "m:1", "--critical", "ui*"], "--critical cannot be combined with --model m:1"),
    (["--model", "m:n", "--stack", "report"], "grow or exact cannot be combined with --model m:n"),
    (["--model", "m:n", "--rules", "x.toml"], "--rules cannot be combined"),
    (["--model", "m:n", "--report"], "--report cannot be combined"),
]


@pytest.mark.parametrize("options, seen", REFUSED,
                         ids=[" ".join(options) for options, _ in REFUSED])
def test_options_that_do_not_fit_together_start_nothing(tek, options, seen):
    ended = tek("run", *options, "--", "echo", "started")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert seen in ended.stderr, ended.stderr


def test_what_makes_threads_critical_is_not_followed_on_user_level_threads_and_that_is_reported(
        tek, tmp_path):
    rules = tmp_path / "config" / "tek"
    rules.mkdir(parents=True)

    def info(rule, **environment):
        (rules / "rules.toml").write_text(f"[[rule]]\n{rule}\n")
        ended = tek("run", "--model", "m:1", "--", "true",
                    env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), **environment})
        assert ended.returncode == 0
        return ended.stderr

    critical = "set = { critical = true }"
    followed = 'match = { thread = "ui*" }\nset = { role = "screen" }'
    assert "rules that make threads of true time-critical" in info(f'match = {{ thread = "ui*" '
                                                                   f'}}\n{critical}')
    assert "rules that make threads of true" in info(f'match = {{ program = "t*" }}\n{critical}')
    assert info(f'match = {{ program = "false" }}\n{critical}') == info(followed) == ""
    assert info(followed, TEK_CRITICAL="ui*").startswith("tek: TEK_CRITICAL is not followed")


def test_options_that_do_not_fit_together_are_reported_with_the_usage_of_their_command(tek):
    ended = tek("run", "--sched", "rr", "--", "true")
    assert "\nUsage: tek run [OPTIONS]" in ended.stderr, ended.stderr


def test_a_trace_that_cannot_be_written_starts_nothing(tek):
    ended = tek("run", "--model", "m:1", "--trace", "/nonexistent/trace.json", "echo", "started")
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "/nonexistent/trace.json" in ended.stderr


PRELOADED = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	const char *preload = getenv("LD_PRELOAD");
	puts(preload && *preload ? preload : "no preload");
	return 7;
}
"""

NOT_COVERED = {
    "static": (["cc", "-static"], "is statically linked"),
    "32-bit": (["cc", "-m32"], "is of another word size"),
    "asan": (["cc", "-fsanitize=address"], "is built with AddressSanitizer"),
    "tsan": (["cc", "-fsanitize=thread"], "is built with ThreadSanitizer"),
    "musl": (["musl-gcc"], "is for another C library"),
}


@pytest.mark.parametrize("case", NOT_COVERED)
def test_a_program_that_cannot_be_on_user_level_threads_is_named_and_runs(tek, compile_c,
                                                                          library, case):
    command, reason = NOT_COVERED[case]
    program = compile_c(PRELOADED, *command)
    ended = tek("run", "--model", "m:1", program)
    # A program that a static program starts can be.
    preload = library if case == "static" else "no preload"
    assert (ended.returncode, ended.stdout) == (7, f"{preload}\n")
    assert ended.stderr == f"tek: {program} {reason}: it runs, but not on user-level threads\n"


@pytest.mark.parametrize("start", ['"$0"; exit $?', 'exec "$0"'], ids=["fork", "exec"])
@pytest.mark.parametrize("case", NOT_COVERED)
def test_a_child_that_cannot_be_on_user_level_threads_is_named_and_runs_as_it_is(
        tek, compile_c, library, case, start):
    program = compile_c(PRELOADED, *NOT_COVERED[case][0])
    ended = tek("run", "--model", "m:n", "sh", "-c", start, program)
    preload = library if case == "static" else "no preload"
    assert (ended.returncode, ended.stdout) == (7, f"{preload}\n")
    assert ended.stderr.startswith(f"tek: {program} is ") and ended.stderr.count("\n") == 1
    assert ended.stderr.endswith(": it runs, but not under TEK\n")


def test_a_program_that_is_linked_with_libtek_is_named_and_runs(tek, compile_c):
    lib = BUILD / "lib"
    program = compile_c(PRELOADED, "cc", "-Wl,--no-as-needed", f"-L{lib}", f"-Wl,-rpath,{lib}",
                        "-ltek")
    ended = tek("run", "--model", "m:n", program)
    assert (ended.returncode, ended.stdout) == (7, "no preload\n")
    assert "is linked with libtek.so: it runs, but not on user-level threads" in ended.stderr


def test_other_libraries_stay_preloaded_and_tek_has_one(tek, compile_c, library):
    program = compile_c(PRELOADED, "cc")
    own = library.parent.parent / "bin" / "tek"
    ended = tek("run", "--model", "m:1", program, env={**os.environ, "LD_PRELOAD": "libm.so.6"})
    assert ended.stdout == f"{library}:libm.so.6\n"
    ended = tek("run", own, "run", "--model", "m:1", program)
    assert ended.stdout == f"{library}\n"
    ended = tek("run", "--model", "m:1", own, "run", program)
    assert ended.stdout == f"{library.parent / 'libtek.so'}\n"


def test_without_its_library_tek_reports_how_to_get_it(tek, open_build, tmp_path):
    shutil.copy(open_build / "lib" / "libtek.so", tmp_path)
    environment = {**os.environ, "TEK_LIBRARY": str(tmp_path / "libtek.so")}
    ended = tek("run", "--model", "m:1", "echo", "started", env=environment)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "libtek-uthread.so is not installed" in ended.stderr and "make build" in ended.stderr


def test_the_environment_gives_defaults(tek):
    environment = {**os.environ, "TEK_UTHREAD": "quantum=2ms,sched=psjf,promote=7"}
    ended = tek("run", "--model", "m:1", "--quantum", "1ms", "sh", "-c", "echo $TEK_UTHREAD",
                env=environment)
    assert (ended.stdout, ended.stderr) == ("sched=psjf,promote=7,workers=1,quantum=1ms\n", "")


def test_doctor_reports_what_user_level_threads_can_have(tek, library):
    diagnosis = json.loads(tek("doctor", "--json").stdout)
    checks = {check["id"]: check for check in diagnosis["checks"]}
    assert checks["uthread-library"]["found"] == str(library)
    assert checks["uthread-storage"]["answer"] in ("yes", "info")
    assert checks["uthread-guards"]["answer"] in ("yes", "info")


# tek/tek.h's report on a critical thread, and the share of a thread that is not critical.
CRITICAL = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tek/tek.h>
#include <time.h>
static volatile unsigned long other;
static volatile int stop;
static void *compute(void *argument)
{
	while (!stop)
		other++;
	return argument;
}
static unsigned long others_while(double seconds)
{
	struct timespec begin, now;
	unsigned long before = other;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((double)(now.tv_sec - begin.tv_sec) +
	       (double)(now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
	return other - before;
}
int main(void)
{
	struct tek_attributes attributes;
	struct sched_param param;
	pthread_t thread;
	int policy;
	pthread_create(&thread, NULL, compute, NULL);
	while (!other)
		sched_yield();
	printf("enter %d\n", tek_critical_enter());
	printf("enter %d\n", tek_critical_enter());
	printf("ran %d\n", others_while(0.3) != 0);
	printf("leave %d\n", tek_critical_leave());
	printf("ran %d\n", others_while(0.1) != 0);
	pthread_getschedparam(pthread_self(), &policy, &param);
	printf("policy %d\n", policy == SCHED_OTHER);
	printf("leave %d\n", tek_critical_leave());
	printf("leave %d\n", tek_critical_leave() == EINVAL);
	printf("ran %d\n", others_while(1.0) != 0);
	const int error = tek_thread_get_attributes(pthread_self(), &attributes);
	printf("get %d %d %d\n", error, attributes.policy, attributes.critical);
	attributes.policy = SCHED_TEK;
	attributes.priority = -5;
	printf("set %d\n",
	       tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_POLICY, &attributes));
	pthread_getschedparam(pthread_self(), &policy, &param);
	printf("policy %d %d\n", policy, param.sched_priority);
	printf("mark %d\n", tek_thread_mark(thread, 1) == ENOTSUP);
	printf("group %d\n", tek_thread_set_group(thread, TEK_URGENT) == ENOTSUP);
	printf("budget %d\n", tek_set_budget(1000000, 10000000) == ENOTSUP);
	printf("for %d\n", tek_critical_for(1000) == ENOTSUP);
	printf("check %d %s\n", tek_check(), tek_version() ? "version" : "");
	stop = 1;
	pthread_join(thread, NULL);
	return 0;
}
"""


@pytest.mark.parametrize("sched", ["rr", "mlfq", "psjf", "steal"])
def test_what_a_program_asks_of_tek_is_done_or_refused(compile_c, sched):
    program = compile_c(CRITICAL, "cc", "-DTEK_OPTIONAL", f"-I{INCLUDE}", "-pthread")
    ended = subprocess.run([TEK, "run", "--no-rules", "--model", "m:1", "--sched", sched,
                            "--quantum", "1ms", "--",
                            program], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=120,
                           check=False)
    assert ended.stdout.splitlines() == [
        "enter 0", "enter 0", "ran 0", "leave 0", "ran 0", "policy 1", "leave 0", "leave 1",
        "ran 1", "get 0 0 0",
        "set 0", "policy 84 -5", "mark 1", "group 1", "budget 1", "for 1", "check 0 version"]
    assert ended.returncode == 0
    assert (ended.stderr == "tek: tek_thread_mark() and its like are not supported on user-level "
                            "threads\n")
