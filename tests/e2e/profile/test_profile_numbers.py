# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek profile: programs with time that is easily attributed wrongly, and the report on them."""
import json
import resource

import pytest
from conftest import ALL
from paths import PROGRAMS

PARTS = ["work", "serial", "sync", "file", "allocator", "delay", "idle", "other"]

# A thread that waits in read() while the first one works alone.
READING = r"""
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static int pipes[2];
static void *reads(void *unused)
{
	char byte;
	while (read(pipes[0], &byte, 1) == 1)
		;
	return unused;
}
int main(void)
{
	struct timespec now;
	pthread_t thread;
	if (pipe(pipes) != 0)
		return 1;
	pthread_create(&thread, NULL, reads, NULL);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec == 0 && now.tv_nsec < 300000000);
	close(pipes[1]);
	pthread_join(thread, NULL);
	return 0;
}
"""

STAGES = r"""
#include <thread>
static volatile unsigned long sink;
void reader(int count) { for (int i = 0; i < count; i++) sink += i; }
void compress(int count) { for (int i = 0; i < count; i++) sink += i; }
struct Writer { void go(int count) { for (int i = 0; i < count; i++) sink += i; } };
int main()
{
	Writer writer;
	std::thread a(reader, 500000), b(compress, 500000), c(&Writer::go, &writer, 500000);
	a.join();
	b.join();
	c.join();
}
"""

# So many threads that each wait once for all the other ones; then locks that are not acquired, and
# one that is.
MANY = r"""
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#define THREADS 300
pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER, named = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static void *meet(void *unused)
{
	pthread_barrier_wait(&barrier);
	return unused;
}
static void *want(void *unused)
{
	for (int i = 0; i < 300; i++) {
		struct timespec past = {1, 0};
		pthread_mutex_timedlock(&busy, &past);
	}
	return unused;
}
int main(void)
{
	pthread_t threads[THREADS], last;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], &small, meet, NULL) != 0)
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_lock(&busy);
	pthread_create(&last, NULL, want, NULL);
	pthread_join(last, NULL);
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&named);
		pthread_mutex_unlock(&named);
	}
	return 0;
}
"""

# A child that ends at once, long before its parent.
SHORT_CHILD = r"""
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	if (fork() == 0) {
		if (argc > 1 && strcmp(argv[1], "killed") == 0)
			raise(SIGKILL);
		_exit(0);
	}
	wait(NULL);
	sleep(2);
	return 0;
}
"""

NAMED = r"""
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *run(void *unused)
{
	prctl(PR_SET_NAME, "\033[31mred;x\n");
	usleep(1000);
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, run, NULL);
	pthread_join(thread, NULL);
	return 0;
}
"""

# Puts a FIFO where profiles are.
FIFO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
int main(void)
{
	char *variable = getenv("TEK_PROFILE"), path[4096];
	snprintf(path, sizeof(path), "%s/1-0.profile", strchr(strchr(variable, ':') + 1, ':') + 1);
	return mkfifo(path, 0600);
}
"""


@pytest.fixture
def profile(tek, tmp_path):
    """Runs a program under tek profile; returns its JSON, and the result."""

    def run(*command, options=(), **more):
        file = tmp_path / "profile.json"
        result = tek("profile", "--json", file, *options, "--", *command, **more)
        return json.loads(file.read_text())["processes"], result

    return run


def assert_sums(process):
    lives = sum(thread["life_ns"] for thread in process["threads"])
    assert process["threads_ns"] == lives
    assert abs(sum(process["parts"][part] for part in PARTS) - lives) <= 0.02 * lives
    for thread in process["threads"]:
        assert (abs(sum(thread["parts"].values()) - thread["life_ns"])
                <= 0.02 * thread["life_ns"] + 1000)
        assert thread["life_ns"] <= process["wall_ns"] * 1.001 + 100_000


@pytest.mark.parametrize("what", ["lines", "pieces", "nested", "large", "other"])
def test_time_that_is_easily_taken_for_something_else_is_not(profile, compile_c, what):
    weak = compile_c((PROGRAMS / "profile_weak.c").read_text(), "cc", "-O1")
    for _ in range(3):
        [process], result = profile(weak, what)
        assert_sums(process)
        *shares, all_ns = map(int, result.stdout.split())
        seen = [share / 1000 for share in shares]
        parts = process["threads"][0]["parts"]
        # The program's own clock includes interruptions: on a busy machine the test is repeated.
        counted = [parts[part] / all_ns for part in ["file", "allocator", "other"]]
        differences = [abs(one - other) for one, other in zip(counted, seen)]
        interrupted = parts["delay"] + (parts["other"] if what != "other" else 0)
        if max(differences) <= 0.03 + interrupted / all_ns:
            return
    raise AssertionError((counted, seen, parts))


@pytest.mark.alone()
def test_a_sampler_finds_the_same_shares(profile, compile_c):
    program = compile_c((PROGRAMS / "profile_sampled.c").read_text(), "cc", "-O1", "-pthread")
    for _ in range(3):
        # On a busy machine the threads would mostly wait for a CPU.
        [process], result = profile(program, prefix=ALL, start_new_session=True)
        files, allocator, _, samples = result.stdout.split()
        assert int(samples) > 1000
        threads = [thread["parts"] for thread in process["threads"]
                   if thread["role"].startswith("run")]
        total = {part: sum(parts[part] for parts in threads) for part in PARTS}
        running = total["work"] + total["serial"] + total["file"] + total["allocator"]
        differences = [abs(total["file"] / running - int(files) / 1000),
                       abs(total["allocator"] / running - int(allocator) / 1000)]
        # Chance alone is 1 point. The late samples are left out, and where threads wait for a CPU
        # they are more frequent in one part than in another.
        if max(differences) <= 0.03 + min(0.02 * total["delay"] / running, 0.25):
            return
    raise AssertionError((total, result.stdout))


def test_a_thread_that_waits_in_a_read_leaves_the_other_one_alone(profile, compile_c):
    [process], _ = profile(compile_c(READING, "cc", "-O1", "-pthread"))
    main, reader = (thread["parts"] for thread in process["threads"])
    assert main["serial"] > 0.9 * (main["serial"] + main["work"])
    assert reader["file"] > 0.8 * process["threads"][1]["life_ns"]


def test_threads_of_cpp_are_distinguished_by_what_they_run(profile, compile_c):
    [process], _ = profile(compile_c(STAGES, "c++", "-pthread", "-x", "c++"))
    assert [thread["role"] for thread in process["threads"]] == ["main", "reader", "compress",
                                                                 "Writer::go"]


def test_many_threads_that_wait_once_have_a_critical_path(profile, compile_c):
    [process], _ = profile(compile_c(MANY, "cc", "-pthread"))
    assert process["critical_path"] is not None
    assert process["lost"] == {"threads": 0, "waits": 0, "acquisitions": 0}
    named = next(entry for entry in process["objects"] if entry["name"] == "named")
    assert named["count"] == 1000
    # Ends of threads take no room from locks.
    assert [entry["count"] for entry in process["objects"] if entry["kind"] == "join"] == [301]


@pytest.mark.parametrize("end", ["exits", "killed"])
def test_a_child_has_no_time_behind_its_end(profile, compile_c, end):
    parent, child = profile(compile_c(SHORT_CHILD, "cc"), end, options=["--follow"])[0]
    assert child["wall_ns"] < 1_000_000_000 < parent["wall_ns"]
    assert parent["ended"] and child["ended"] == (end == "exits")


def test_an_exit_that_no_destructor_sees_is_an_end(tek):
    assert "It did not end by itself" not in tek("profile", "--", "sh", "-c",
                                                 "sleep 0.1; true").stderr


def test_names_that_a_program_chose_do_nothing_to_a_terminal(tek, compile_c, tmp_path):
    folded = tmp_path / "folded"
    result = tek("profile", "--all", "--folded", folded, "--", compile_c(NAMED, "cc", "-pthread"))
    assert r"\u{1b}[31mred;x\n" in result.stderr and "\x1b" not in result.stderr
    stacks = [line.rsplit(" ", 1)[0] for line in folded.read_text().splitlines()]
    assert stacks and all(stack.count(";") in (3, 5) for stack in stacks)
    assert any(r"\u{1b}[31mred,x\n" in stack for stack in stacks)


def test_what_lies_beside_the_profiles_is_not_waited_for(tek, compile_c):
    result = tek("profile", "--", compile_c(FIFO, "cc"), timeout=60)
    assert result.returncode == 0
    assert "the profile of process 1: it is no profile" in result.stderr
    assert "WHERE THE THREADS' TIME WENT" in result.stderr


def test_what_can_be_written_is_written_where_something_else_cannot(tek, tmp_path):
    text = tmp_path / "text"
    result = tek("profile", "--json", "/dev/full", "-o", text, "--", "sleep", "0.1")
    assert result.returncode == 125 and "cannot write JSON of the profile" in result.stderr
    assert "WHERE THE THREADS' TIME WENT" in text.read_text()


def test_where_there_is_no_profile_the_program_is_not_reported_as_ended_too_early(tek):
    limit = (1 << 20, 1 << 20)
    result = tek("profile", "--", "sh", "-c", "exit 3",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert result.returncode == 3 and "ulimit -f" in result.stderr
    assert "there is no profile" in result.stderr and "could not make its file" in result.stderr
