# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek profile: where the time of a program's threads goes."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from paths import PROGRAMS

PARTS = ["work", "serial", "sync", "file", "allocator", "delay", "idle", "other"]

# Works for ever in a second thread, and the first one waits for it.
ENDLESS = r"""
#include <pthread.h>
#include <stdio.h>
static volatile unsigned long sink;
static void *spin(void *unused) { for (;;) sink++; return unused; }
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, spin, NULL);
	puts("ready");
	fflush(stdout);
	pthread_join(thread, NULL);
}
"""

# An end that no destructor sees; or another program in the place of this one; or a child.
ENDS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void locks(int count)
{
	while (count-- > 0) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
}
int main(int argc, char **argv)
{
	locks(100);
	if (argc == 1)
		_exit(7);
	if (strcmp(argv[1], "exec") == 0) {
		locks(900);
		execl(argv[0], argv[0], (char *)NULL);
	}
	if (fork() == 0) {
		locks(23);
		exit(0);
	}
	wait(NULL);
	return 0;
}
"""

# Threads that hand each other a lock with a condition, and are cancelled at last.
HANDING = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn, turns[2];
static void give_back(void *unused) { (void)unused; pthread_mutex_unlock(&lock); }
static void *hand(void *number)
{
	long me = (long)number;
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(give_back, NULL);
	for (;;) {
		while (turn != me)
			pthread_cond_wait(&turned, &lock);
		turns[me]++;
		turn = !me;
		pthread_cond_signal(&turned);
		if (turns[me] == 2000)
			pthread_cond_wait(&turned, &lock);
	}
	pthread_cleanup_pop(1);
	return NULL;
}
int main(void)
{
	pthread_t threads[2];
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, hand, (void *)i);
	for (int done = 0; !done; usleep(1000)) {
		pthread_mutex_lock(&lock);
		done = turns[0] >= 2000 && turns[1] >= 1999;
		pthread_mutex_unlock(&lock);
	}
	for (int i = 0; i < 2; i++) {
		pthread_cancel(threads[i]);
		pthread_join(threads[i], NULL);
	}
	return 0;
}
"""


# A read that a signal handler jumps out of, after as many ns as it prints; then many threads with
# children, and signals all the time.
JUMPING = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static sigjmp_buf before;
static struct timespec begun, over;
static void jump(int number) { (void)number; siglongjmp(before, 1); }
static void nothing(int number) { (void)number; (void)!write(-1, "", 1); }
static void *run(void *number)
{
	for (int i = 0; i < 100; i++) {
		void *block = malloc(100);
		FILE *file = fopen("/dev/null", "w");
		fprintf(file, "%d", i);
		fclose(file);
		free(block);
		if (i % 50 == 0) {
			pid_t child = fork();
			if (child == 0)
				_exit(0);
			waitpid(child, NULL, 0);
		}
	}
	if ((long)number & 1)
		pthread_exit(NULL);
	return NULL;
}
int main(void)
{
	struct itimerval often = {{0, 2000}, {0, 2000}};
	pthread_t threads[8];
	int pipes[2];
	if (pipe(pipes) != 0)
		return 1;
	signal(SIGALRM, jump);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	if (sigsetjmp(before, 1) == 0) {
		char byte;
		ualarm(100000, 0);
		(void)!read(pipes[0], &byte, 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &over);
	signal(SIGPROF, nothing);
	setitimer(ITIMER_PROF, &often, NULL);
	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("done %ld\n",
	       (over.tv_sec - begun.tv_sec) * 1000000000 + over.tv_nsec - begun.tv_nsec);
	return 0;
}
"""

# A thread that waits until the process ends, which its creator has named once it waits.
FOR_EVER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int waits;
static void *wait_here(void *unused)
{
	pthread_mutex_lock(&lock);
	waits = 1;
	for (;;)
		pthread_cond_wait(&turned, &lock);
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, wait_here, NULL);
	for (int seen = 0; !seen; usleep(1000)) {
		pthread_mutex_lock(&lock);
		seen = waits;
		pthread_mutex_unlock(&lock);
	}
	usleep(20000);
	pthread_setname_np(thread, "waits");
	usleep(100000);
	return 0;
}
"""

# A thread that only adds, for about a millisecond.
ADDS = r"""
#include <pthread.h>
static volatile double sum;
static void *add(void *unused)
{
	for (int i = 0; i < 400000; i++)
		sum += 1.5;
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, add, NULL);
	pthread_join(thread, NULL);
	return 0;
}
"""


@pytest.fixture(scope="session")
def shares(compile_c):
    return compile_c((PROGRAMS / "profile_shares.c").read_text(), "cc", "-O1", "-pthread")


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


def test_shares_that_a_program_measured_itself_are_found(profile, shares):
    for _ in range(3):
        [process], result = profile(shares, 2, 300)
        assert_sums(process)
        own = [list(map(int, line.split())) for line in result.stdout.splitlines()]
        workers = [thread for thread in process["threads"] if thread["role"].startswith("run")]
        assert len(workers) == len(own) == 2
        counted, delay = [0, 0, 0], 0
        for thread in workers:
            parts = thread["parts"]
            delay += parts["delay"]
            counted[0] += parts["work"] + parts["serial"]
            counted[1] += parts["file"]
            counted[2] += parts["allocator"]
        seen = [sum(column) for column in zip(*own)]
        # bench/ measures how near it is; here other programs may be busy, too.
        most = 0.12 + min(0.02 * delay / sum(counted), 0.25)
        if all(abs(one / sum(counted) - other / sum(seen)) < most
               for one, other in zip(counted, seen)):
            return
    raise AssertionError((counted, seen))


def test_a_lock_that_was_waited_for_is_named_with_its_place(profile, shares):
    [process], _ = profile(shares, 3, 100)
    gate = next(entry for entry in process["objects"] if entry["name"] == "gate")
    assert gate["kind"] == "mutex" and gate["count"] == 4  # the first thread has it, too
    # A thread has it for 25 ms of CPU time while other threads wait for it.
    assert gate["contended"] == 3 and gate["wait_ns"] > 10_000_000
    assert gate["sites"][0]["name"].startswith("run+")
    assert gate["hold_mean_ns"] > 10_000_000
    barrier = next(entry for entry in process["objects"] if entry["kind"] == "barrier")
    assert barrier["count"] == 3
    path = process["critical_path"]
    assert abs(path["length_ns"] - process["wall_ns"]) < 0.02 * process["wall_ns"] + 1_000_000
    assert path["roles"][0][0] == "run"


def test_the_program_is_not_disturbed_and_its_end_is_passed_on(tek, compile_c):
    ends = compile_c(ENDS, "cc", "-pthread")
    result = tek("profile", "--", ends)
    assert result.returncode == 7 and result.stdout == ""
    assert "WHERE THE THREADS' TIME WENT" in result.stderr
    result = tek("profile", "--", "sh", "-c", "echo out; echo err >&2")
    assert result.stdout == "out\n" and result.stderr.startswith("err\n")
    assert all(len(line) <= 80 for line in result.stderr.splitlines())
    assert "\x1b" not in result.stderr


def test_an_end_without_destructors_loses_nothing(profile, compile_c):
    [process], _ = profile(compile_c(ENDS, "cc", "-pthread"))
    [main] = process["threads"]
    assert main["locks"] == 100
    assert_sums(process)


def test_the_program_that_a_process_becomes_is_reported(profile, compile_c):
    processes, result = profile(compile_c(ENDS, "cc", "-pthread"), "exec")
    assert result.returncode == 7
    assert processes[-1]["threads"][0]["locks"] == 100
    # The report on the program before comes first, where its time was long enough.
    before, behind = profile("sh", "-c",
                             "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exec sleep 0.1")[0]
    assert before["became_another"] and before["ended"] and not behind["became_another"]
    assert behind["program"].rsplit("/", 1)[-1] != before["program"].rsplit("/", 1)[-1]


@pytest.mark.parametrize("options", [[], ["--follow"]])
@pytest.mark.parametrize("command", [["musl-gcc"], ["cc", "-fsanitize=address"], ["cc", "-m32"]])
def test_a_program_that_cannot_have_the_library_runs_without_it(tek, compile_c, command, options):
    program = compile_c('extern int puts(const char *); int main(void) { puts("ran"); return 0; }',
                        *command)
    # From a fork, by posix_spawn(), and in the place of the first program.
    starts = ["sh", "-c", f"{program}; true"], ["python3", "-c",
                                                f"import os; os.waitpid(os.posix_spawn('{program}',"
              f" ['{program}'], os.environ), 0)"], ["env", program]
    for start in starts:
        result = tek("profile", *options, "--", *start)
        assert (result.returncode, result.stdout) == (0, "ran\n"), (start, result.stderr)
        assert "ld.so" not in result.stderr and "rror" not in result.stderr


def test_a_wait_without_an_end_is_reported(profile, compile_c):
    [process], result = profile(compile_c(FOR_EVER, "cc", "-pthread"))
    assert result.returncode == 0 and process["still_waiting"] == 1
    turned = next(entry for entry in process["objects"] if entry["kind"] == "cond")
    assert turned["name"] == "turned" and turned["wait_ns"] > 50_000_000
    # Another thread named it; it never reads its own name.
    assert process["threads"][1]["name"] == "waits"


def test_a_short_life_of_work_is_work(profile, compile_c):
    for _ in range(3):
        [process], _ = profile(compile_c(ADDS, "cc", "-O1", "-pthread"))
        assert_sums(process)
        parts = process["threads"][1]["parts"]
        if parts["other"] < 0.05 * process["threads"][1]["life_ns"]:
            return
    raise AssertionError(process["threads"][1])


def test_a_thread_that_loses_its_cpu_was_delayed(profile, compile_c):
    program = compile_c(ADDS, "cc", "-O1", "-pthread")
    cpu = str(min(os.sched_getaffinity(0)))
    burn = ["taskset", "-c", cpu, "timeout", "60", "sh", "-c", "while :; do :; done"]
    hogs = [subprocess.Popen(burn) for _ in range(3)]
    try:
        threads = [profile("taskset", "-c", cpu, program)[0][-1]["threads"][1] for _ in range(10)]
    finally:
        for hog in hogs:
            hog.terminate()
            hog.wait()
    lives = sum(thread["life_ns"] for thread in threads)
    # Each thread needs 1 ms or less, and waits for some ms.
    assert sum(thread["parts"]["delay"] for thread in threads) > 0.2 * lives
    assert sum(thread["parts"]["other"] for thread in threads) < 0.1 * lives


def test_helpers_of_tek_are_no_threads_of_the_program(tek, open_build, compile_c, tmp_path):
    file = tmp_path / "profile.json"
    result = tek("run", "--stack", "report", "--", open_build / "bin" / "tek", "profile", "--json",
                 file, "--",
                 compile_c(FOR_EVER, "cc", "-pthread"))
    assert result.returncode == 0
    [process] = json.loads(file.read_text())["processes"]
    assert [thread["name"] for thread in process["threads"]
            if thread["name"].startswith("tek-")] == []


def test_the_two_outputs_are_distinguished(tek):
    result = tek("profile", "--json", "-", "--", "sh", "-c", "echo own")
    own, rest = result.stdout.split("\n", 1)
    assert own == "own" and json.loads(rest)["schema"] == 1
    assert tek("profile", "--json", "same", "-o", "same", "--", "true").returncode == 2
    result = tek("profile", "--model", "foo", "--", "true")
    assert result.returncode == 2 and "m:n" in result.stderr


def test_children_are_reported_where_that_is_asked_for(profile, compile_c):
    ends = compile_c(ENDS, "cc", "-pthread")
    [alone], _ = profile(ends, "fork")
    assert alone["threads"][0]["parts"]["idle"] > 0
    parent, child = profile(ends, "fork", options=["--follow"])[0]
    assert [alone["threads"][0]["locks"], parent["threads"][0]["locks"]] == [100, 100]
    assert child["threads"][0]["locks"] == 23


def test_cancelled_waits_are_waits(profile, compile_c):
    [process], result = profile(compile_c(HANDING, "cc", "-pthread", "-fexceptions"))
    assert result.returncode == 0
    assert_sums(process)
    cond = next(entry for entry in process["objects"] if entry["kind"] == "cond")
    assert cond["name"] == "turned" and cond["count"] >= 1999
    hands = [thread for thread in process["threads"] if thread["role"] == "hand"]
    assert len(hands) == 2


def test_jumps_signals_and_forks_of_threads_do_no_harm(profile, compile_c):
    [process], result = profile(compile_c(JUMPING, "cc", "-pthread"))
    done, left_after = result.stdout.split()
    assert (result.returncode, done) == (0, "done")
    assert_sums(process)
    main = process["threads"][0]
    # The read is over since the jump: later time is no time in files.
    rest = main["life_ns"] - int(left_after)
    assert main["parts"]["sync"] > 0 and main["parts"]["file"] < int(left_after) + 0.5 * rest
    assert len(process["threads"]) == 9


def profile_of_killed(command, file, number):
    """The profile of a program that has run for a while before it, or tek, gets that signal."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as tek:
        try:
            assert tek.stdout.readline() == "ready\n"
            time.sleep(0.6)
            if number == signal.SIGINT:
                tek.send_signal(number)
            else:
                children = pathlib.Path(
                    f"/proc/{tek.pid}/task/{tek.pid}/children").read_text().split()
                os.kill(int(children[0]), number)
            _, seen = tek.communicate(timeout=60)
        finally:
            tek.kill()
    assert tek.returncode == -number, seen
    [process] = json.loads(file.read_text())["processes"]
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_never_ends_is_reported_when_it_is_killed(open_build, compile_c, tmp_path,
                                                                 number):
    file = tmp_path / "profile.json"
    command = [open_build / "bin" / "tek", "profile", "--json", file, "--",
               compile_c(ENDLESS, "cc", "-pthread")]
    for _ in range(3):
        process = profile_of_killed(command, file, number)
        assert not process["ended"]
        assert_sums(process)
        spin, main = (next(thread for thread in process["threads"] if thread["role"] == role)
                      for role in ("spin", "main"))
        parts = spin["parts"]
        assert parts["work"] + parts["serial"] + parts["delay"] > 0.9 * (
            spin["life_ns"] - parts["other"])
        # Other is time that the machine's host took away, if anything.
        if parts["other"] < 0.1 * spin["life_ns"] and main["parts"]["sync"] > 0.5 * main["life_ns"]:
            return
    raise AssertionError((spin, main))


def test_folded_stacks_can_be_added_up(tek, shares, tmp_path):
    file = tmp_path / "folded"
    assert tek("profile", "--folded", file, "--", shares, 2, 50).returncode == 0
    lines = [line.rsplit(" ", 1) for line in file.read_text().splitlines()]
    assert any(";sync;mutex gate;run+" in stack for stack, _ in lines)
    assert all(int(us) > 0 and stack.count(";") >= 3 for stack, us in lines)


def test_what_cannot_be_profiled_is_refused_with_the_reason(tek, compile_c):
    result = tek("profile", "--", compile_c("int main(void) { return 0; }", "cc", "-static"))
    assert result.returncode == 125 and "statically linked: it cannot be profiled" in result.stderr
    result = tek("profile", "--model", "m:1", "--", "true")
    assert result.returncode == 2 and "kernel threads" in result.stderr
    result = tek("profile", "--", "/no/such/program")
    assert result.returncode == 127
    result = tek("profile", "-o", "/no/such/directory/file", "--", "true")
    assert result.returncode == 125 and "/no/such/directory/file" in result.stderr
    environment = dict(os.environ, LD_PRELOAD="libtek-uthread.so")
    assert tek("profile", "--", "true", env=environment).returncode == 125


@pytest.mark.parametrize("command", [
    ["python3", "-c",
     "import threading as t; l = t.Lock(); x = [t.Thread(target=lambda: sum(range(10**6)))"
                      " for _ in range(4)]; [i.start() for i in x]; [i.join() for i in x]; "
                      "print('done')"],
    ["sh", "-c", "seq 200000 | sort -n --parallel=2 -S 1M | tail -1 >/dev/null; echo done"],
    ["ls", "-lR", "/usr/share/doc/libc6"],
])
def test_programs_of_other_projects_run_as_they_do_without(tek, command):
    plain = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                           timeout=60).stdout
    result = tek("profile", "--follow", "--", *command)
    assert result.returncode == 0 and result.stdout == plain
    assert "WHERE THE THREADS' TIME WENT" in result.stderr
