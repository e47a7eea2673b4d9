# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek stack budget computes how many threads fit, and the kernel agrees."""
import json
import os
import resource
import subprocess

import pytest

GIB = 2**30

# Makes threads that sleep, one after the other, until that fails or there are 20,000; prints how
# many. Each allocates memory if the second argument is 1.
CREATES = r"""
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long started;

static void *wait_for_ever(void *allocates)
{
	void *volatile memory = allocates ? malloc(100) : NULL;
	pthread_mutex_lock(&lock);
	started++;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	(void)memory;
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t thread;
	long count = 0;
	static char output[200];

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	if (argc > 3 && strcmp(argv[3], "lock") == 0 && mlockall(MCL_FUTURE))
		return 3;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)atol(argv[1]));
	while (count < 20000 && pthread_create(&thread, &attr, wait_for_ever,
					       atoi(argv[2]) ? &lock : NULL) == 0) {
		count++;
		pthread_mutex_lock(&lock);
		while (started < count)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
	}
	printf("%ld\n", count);
	fflush(stdout);
	_exit(0);
}
"""


@pytest.fixture(scope="session")
def creates(compile_c):
    return compile_c(CREATES, "cc", "-O1", "-pthread")


def created(program, stack, malloc=False, lock=False, limit=None, prefix=(), **variables):
    """How many threads the program could make under a limit (resource, bytes)."""
    command = [*prefix, program, str(stack), str(int(malloc)), *(["lock"] if lock else [])]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=False,
                           env={**os.environ, **variables},
                           preexec_fn=limit
                           and (lambda: resource.setrlimit(limit[0], (limit[1],) * 2)))
    assert ended.returncode == 0
    return int(ended.stdout)


def budget(tek, *options, **run):
    ended = tek("stack", "budget", "--json", *options, **run)
    answer = json.loads(ended.stdout)
    assert ended.returncode == (0 if answer["fits"] else 1), ended.stderr
    return answer


@pytest.mark.alone("thread ids")  # of which there are 32768
@pytest.mark.parametrize("stack", ["8M", "256K", "64K"])
def test_the_kernel_lets_as_many_threads_be_made_as_it_computes(tek, creates, stack):
    bytes_ = {"8M": 8 << 20, "256K": 256 << 10, "64K": 64 << 10}[stack]
    answer = budget(tek, "--threads", 100_000, "--stack", stack, "--limit", "1G", "--no-malloc")
    assert answer["in_the_way"] == "limit"
    real = created(creates, bytes_, limit=(resource.RLIMIT_AS, GIB))
    assert abs(answer["most"] / real - 1) < 0.02, (answer["most"], real)


@pytest.mark.alone("thread ids")
def test_the_arenas_of_malloc_are_in_the_way_unless_they_are_limited(tek, creates):
    options = ["--threads", 100_000, "--stack", "64K", "--limit", "1G"]
    asked = {"all": budget(tek, *options)["most"],
             "one": budget(tek, *options, "--arena-max", 1)["most"]}
    limit = (resource.RLIMIT_AS, GIB)
    one = created(creates, 64 << 10, malloc=True, limit=limit, MALLOC_ARENA_MAX="1")
    assert abs(asked["one"] / one - 1) < 0.03, (asked, one)
    if os.cpu_count() * 8 * 64 <= 1024:
        # malloc tries twice the size of a heap first, and then needs an address that fits: by
        # chance the last heap fails, and its 64 MiB are room for threads.
        most = created(creates, 64 << 10, malloc=True, limit=limit)
        of_heap = (64 << 20) // (68 << 10)
        assert asked["all"] <= most * 1.05, (asked, most)
        assert any(most * 0.9 <= expected * 1.1 <= most * 1.3
                   for expected in (asked["all"], asked["all"] + of_heap)), (asked, most)


def test_a_32_bit_program_ends_at_its_addresses(tek, compile_c):
    narrow = compile_c(CREATES, "cc", "-m32", "-O1", "-pthread")
    answer = budget(tek, "--threads", 1000, "--bits", 32, "--stack", "8M", "--no-malloc")
    assert answer["in_the_way"] == "word-size"
    real = created(narrow, 8 << 20)
    assert abs(answer["most"] / real - 1) < 0.03, (answer["most"], real)
    answer = budget(tek, "--threads", 1000, "--bits", 32, "--stack", "8M", "--no-malloc",
                    "--limit", "3G")
    real = created(narrow, 8 << 20, prefix=["setarch", "i686", "--3gb"])
    assert abs(answer["most"] / real - 1) < 0.03, (answer["most"], real)


def test_locked_threads_end_at_rlimit_memlock(tek, creates, as_nobody):
    limit = 8 << 20
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] not in (resource.RLIM_INFINITY, limit):
        pytest.skip("RLIMIT_MEMLOCK is lower here")
    set_limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))}
    answer = budget(tek, "--threads", 1000, "--stack", "256K", "--memlock", "--no-malloc", "--base",
                    "0", prefix=as_nobody, **set_limit)
    assert answer["in_the_way"] == "memlock"
    real = created(creates, 256 << 10, lock=True, limit=(resource.RLIMIT_MEMLOCK, limit),
                   prefix=as_nobody)
    assert abs(answer["most"] - real) <= 1, (answer["most"], real)


def test_the_limits_of_this_shell_count(tek):
    limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (2 * GIB,) * 2)}
    answer = budget(tek, "--threads", 1000, "--stack", "8M", "--rlimit-as", **limited)
    assert (answer["fits"], answer["in_the_way"]) == (False, "rlimit-as")
    assert {help_["how"] for help_ in answer["help"]} >= {"tek run --stack auto"}
    assert budget(tek, "--threads", 100, "--stack", "auto", "--arena-max", "1", "--rlimit-as",
                  **limited)["fits"]


def test_a_running_process_is_judged_by_its_own_limits(tek, waiting):
    limit = (GIB, GIB)
    with subprocess.Popen([waiting], stdout=subprocess.PIPE,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                limit)) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            answer = budget(tek, "--threads", 1000, "--stack", "8M", "--no-malloc", "--pid",
                            process.pid)
        finally:
            process.kill()
    assert (answer["in_the_way"], answer["most"]) == ("rlimit-as", 127)


def test_the_answer_for_a_person_names_what_is_in_the_way_and_what_would_help(tek):
    ended = tek("stack", "budget", "--threads", 1000, "--stack", "8M", "--limit", "1G")
    assert ended.returncode == 1
    assert "1000 threads with stacks of 8.0M do not fit" in ended.stdout
    assert "First in the way: addresses, of --limit" in ended.stdout
    assert "tek run --stack auto --arena-max 1: " in ended.stdout
    assert "limit: smaller stacks, or a higher --limit\n" in ended.stdout
    assert "\x1b" not in ended.stdout
    ended = tek("stack", "budget", "--threads", 10, "--stack", "64K")
    assert ended.returncode == 0 and "What would help" not in ended.stdout


@pytest.mark.parametrize("bad", [
    [], ["--threads=0"], ["--threads=x"], ["--threads=5", "--stack=0"],
    ["--threads=5", "--stack=8MB"],
    ["--threads=5", "--limit=-1"], ["--threads=5", "--bits=16"], ["--threads=5", "--pid=0"],
    ["--threads=5", "--pid=1", "--base=1M"], ["--threads=5", "--arena-max=0"]], ids=" ".join)
def test_what_cannot_be_meant_is_misuse(tek, bad):
    assert tek("stack", "budget", *bad).returncode == 2


def test_a_process_that_is_not_there_is_an_error(tek):
    ended = tek("stack", "budget", "--threads", 1, "--pid", 2**22 + 1)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "cannot look at process" in ended.stderr
