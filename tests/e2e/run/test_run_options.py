# SPDX-License-Identifier: MIT OR Apache-2.0
"""The effects of the options of tek run, or of the same in the environment, on a real process."""
import json
import os

import pytest

from conftest import INCLUDE

# A thread takes its name by prctl, a second one is marked; both print their policy in the kernel.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

static pthread_barrier_t turn;

static void say(const char *who)
{
	struct sched_param param;
	syscall(SYS_sched_getparam, 0, &param);
	printf("%s %ld %d\n", who, syscall(SYS_sched_getscheduler, 0) & 0xff, param.sched_priority);
}

static void *named(void *unused)
{
	pthread_barrier_wait(&turn); /* the other one is marked */
	prctl(PR_SET_NAME, "ui-prctl");
	say("named");
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	return unused;
}

static void *marked(void *unused)
{
	tek_thread_mark(pthread_self(), 1);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn); /* the other one has its name */
	say("marked");
	pthread_barrier_wait(&turn);
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	pthread_barrier_init(&turn, NULL, 2);
	pthread_create(&threads[0], NULL, named, NULL);
	pthread_create(&threads[1], NULL, marked, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return 0;
}
"""


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(PROGRAM, "cc", "-DTEK_OPTIONAL", f"-I{INCLUDE}", "-pthread")


def seen(tek, program, *options, **variables):
    ended = tek("run", *options, program, env={**os.environ, **variables})
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_a_name_set_by_prctl_counts_and_what_is_marked_follows(tek, program, real_time):
    # 2 is SCHED_RR, 29 is the real-time priority of nice 0.
    assert seen(tek, program, "--critical=ui-*") == ["named 2 29", "marked 2 29"]
    assert seen(tek, program, TEK_CRITICAL="ui-*") == ["named 2 29", "marked 2 29"]
    assert seen(tek, program) == ["named 0 0", "marked 0 0"]


@pytest.mark.parametrize("options, variables", [
    (["--no-follow-marked"], {}), ([], {"TEK_FOLLOW_MARKED": "0"})], ids=["option", "variable"])
def test_what_is_marked_need_not_follow(tek, program, real_time, options, variables):
    assert seen(tek, program, "--critical=ui-*", *options, **variables) == ["named 2 29",
                                                                            "marked 0 0"]


@pytest.mark.parametrize("options, variables", [
    (["--rt-range=20-20"], {}), ([], {"TEK_RT_RANGE": "20-20"}),
    (["--rt-range=20-20"], {"TEK_RT_RANGE": "7-7"})], ids=["option", "variable", "both"])
def test_the_range_gives_the_real_time_priority(tek, program, real_time, options, variables):
    assert seen(tek, program, "--critical=ui-*", *options, **variables) == ["named 2 20",
                                                                            "marked 2 20"]


# A thread that is sent back stays so for the rest of a second, in which it sees that and ends.
@pytest.mark.parametrize("options, variables", [
    (["--budget=50ms/1s"], {}), ([], {"TEK_BUDGET": "50ms/1s"})], ids=["option", "variable"])
def test_a_thread_that_uses_up_its_budget_is_named(tek, threads, tmp_path, real_time, options,
                                                   variables):
    path = tmp_path / "report.json"
    ended = tek("run", "--critical=runaway", *options, "--report-json", path, threads,
                "runaway", "3",
                env={**os.environ, **variables})
    assert ended.returncode == 3
    assert f"thread runaway of {threads.name}" in ended.stderr
    assert "more than its budget" in ended.stderr
    row, = json.loads(path.read_text())["threads"]
    assert (row["thread"], row["overruns"]) == ("runaway", 1)
    assert 50_000_000 <= row["fast_ns"]


def test_a_thread_within_its_budget_is_not_sent_back(tek, threads, real_time):
    ended = tek("run", "--critical=spinner", "--budget=off", threads, "spinner", "3")
    assert (ended.returncode, ended.stderr) == (3, "")


# 16 threads at once, each of which allocates memory; prints the number of arenas.
ARENAS = r"""
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static pthread_barrier_t all;
static void *take(void *unused)
{
	void *volatile memory = malloc(1000);
	pthread_barrier_wait(&all);
	free(memory);
	return unused;
}
int main(void)
{
	pthread_t threads[16];
	char *text, *at;
	size_t size;
	int arenas = 0;
	pthread_barrier_init(&all, NULL, 16);
	for (int i = 0; i < 16; i++)
		pthread_create(&threads[i], NULL, take, NULL);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
	FILE *stream = open_memstream(&text, &size);
	malloc_info(0, stream);
	fclose(stream);
	for (at = text; (at = strstr(at, "<heap nr=")); at++)
		arenas++;
	printf("%d\n", arenas);
	return 0;
}
"""


@pytest.mark.parametrize("compiler", [["cc"], ["cc", "-static"]])
@pytest.mark.parametrize("variables", [
    {}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=6:glibc.malloc.tcache_count=3"},
    {"MALLOC_ARENA_MAX": "5"}], ids=["alone", "tunables", "variable"])
def test_the_arenas_of_malloc_are_limited(tek, compile_c, compiler, variables):
    program = compile_c(ARENAS, *compiler, "-pthread")
    environment = {**os.environ, **variables}
    assert int(tek("run", program, env=environment).stdout) > 3
    assert int(tek("run", "--arena-max=2", program, env=environment).stdout) <= 2
    shown = tek("run", "--arena-max", 3, "sh", "-c", "echo $GLIBC_TUNABLES", env=environment).stdout
    assert ("tcache_count=3" in shown) == ("GLIBC_TUNABLES" in variables)


@pytest.mark.parametrize("bad", ["0", "-1", "many", "1.5"])
def test_a_limit_of_arenas_that_cannot_be_meant_starts_nothing(tek, bad):
    ended = tek("run", f"--arena-max={bad}", "echo", "started")
    assert (ended.returncode, ended.stdout) == (2, "")


def test_a_name_that_is_empty_is_seen_in_the_message(tek):
    ended = tek("run", "--", "")
    assert ended.returncode == 127 and "cannot run '': not found" in ended.stderr
