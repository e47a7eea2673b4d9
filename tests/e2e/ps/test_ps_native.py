# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek ps shows the threads of programs that use libtek-uthread-native.so."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, INCLUDE, children_of, eventually, needs

TEK = str(BUILD / "bin" / "tek")
ENGINES = ["workers=1,preempt=off", "workers=1", "workers=2"]

PROGRAM = r"""
#include <tek/uthread.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static tek_uthread_semaphore_t never;
static tek_uthread_mutex_t mutex;
static atomic_int stop;

static void *wait_for_ever(void *unused)
{
	tek_uthread_semaphore_wait(&never);
	return unused;
}

static void *lock(void *unused)
{
	tek_uthread_mutex_lock(&mutex);
	return unused;
}

static void *give_way(void *unused)
{
	while (!atomic_load(&stop))
		tek_uthread_yield();
	return unused;
}

static void *end_at_once(void *unused)
{
	return unused;
}

static tek_uthread_t start(void *(*routine)(void *), const char *name)
{
	struct tek_uthread_attributes attributes = {.name = name};
	tek_uthread_t thread;

	if (tek_uthread_create(&thread, &attributes, routine, NULL))
		abort();
	return thread;
}

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *what = argv[1];

	(void)argc;
	alarm(120);
	tek_uthread_semaphore_init(&never, 0);
	tek_uthread_mutex_lock(&mutex);
	start(wait_for_ever, "patient");
	start(lock, "locker");
	for (int i = 0; i < 100; i++)
		tek_uthread_join(start(end_at_once, "short"), NULL);
	if (strcmp(what, "few") == 0) {
		start(give_way, "giver");
	} else if (strcmp(what, "many") == 0) {
		for (int i = 0; i < 40000; i++)
			start(wait_for_ever, NULL);
	} else if (strcmp(what, "fork") == 0) {
		tek_uthread_sleep(1000000);
		pid_t child = fork();
		if (child == 0) {
			start(wait_for_ever, "child's");
			tek_uthread_sleep(1000000);
			say("ready");
			tek_uthread_sleep(100000000000);
		}
		waitpid(child, NULL, 0);
	}
	tek_uthread_sleep(1000000);
	if (strcmp(what, "exec") == 0)
		execl("/bin/sleep", "sleep", "60", NULL);
	say("ready");
	tek_uthread_sleep(100000000000);
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    needs("gcc")
    assert (BUILD / "lib" / "libtek-uthread-native.so").exists()
    directory = tmp_path_factory.mktemp("native")
    (directory / "native.c").write_text(PROGRAM)
    binary = directory / "native"
    subprocess.run(["gcc", "-O1", f"-I{INCLUDE}", "-o", binary, directory / "native.c",
                    f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-ltek-uthread-native"],
                   check=True)
    return binary


@contextlib.contextmanager
def started(program, what, engine="workers=1", prefix=()):
    """The program, ready: its pid."""
    process = subprocess.Popen([*prefix, program, what], stdout=subprocess.PIPE,
                               start_new_session=True, env={**os.environ, "TEK_UTHREAD": engine})
    try:
        if what != "exec":
            assert process.stdout.readline() == b"ready\n"
        yield eventually(lambda: children_of(process.pid))[0] if prefix else process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def uthreads(pid, *arguments):
    ended = subprocess.run([TEK, "ps", "--json", "--uthreads", "--pid", str(pid), *arguments],
                           capture_output=True, text=True, timeout=60)
    return json.loads(ended.stdout)["threads"] if ended.returncode == 0 else []


def by_name(threads):
    return {thread["name"]: thread for thread in threads}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("prefix", [(), (TEK, "run", "--")], ids=["alone", "tek-run"])
def test_threads_that_live_on_are_shown_with_worker_and_what_they_wait_for(program, engine, prefix):
    with started(program, "few", engine, prefix) as pid:
        expected = {"native": "sleep", "patient": "semaphore", "locker": "mutex", "giver": None}

        def all_wait():
            named = by_name(uthreads(pid))
            return {name: thread["waits"] for name, thread in named.items()} == expected and named

        named = eventually(all_wait)
        assert [named[name]["number"] for name in ("native", "patient", "locker")] == [1, 2, 3]
        kernels = {int(tid) for tid in os.listdir(f"/proc/{pid}/task")}
        for thread in named.values():
            assert thread["worker"] in range(2) and thread["worker_tid"] in kernels
        assert named["patient"]["function"] == "wait_for_ever"
        assert 60 << 10 < named["patient"]["stack_bytes"] <= 68 << 10
        assert named["patient"]["peak_bytes"] < 64 << 10


def test_more_threads_than_there_is_room_for_do_no_harm(program):
    with started(program, "many") as pid:
        assert len(uthreads(pid, "-o", "number")) == 32768


def test_the_child_of_fork_has_a_table_of_its_own(program):
    with started(program, "fork", "workers=2") as pid:
        (child,) = children_of(pid)
        # The first thread has no name: it has that of the kernel thread that forked.
        assert set(by_name(uthreads(child))) - {"native", "tek-worker"} == {"child's"}
        assert len(uthreads(child)) == 2
        assert {"native", "patient", "locker"} <= set(by_name(uthreads(pid)))


def test_a_program_that_is_replaced_leaves_no_threads_behind(program):
    with started(program, "exec") as pid:
        eventually(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        assert uthreads(pid) == []


def test_a_program_that_ends_leaves_no_table(program, tmp_path):
    environment = {**os.environ, "TEK_RUN_DIR": str(tmp_path), "TEK_UTHREAD": "workers=1"}
    with subprocess.Popen([program, "end"], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        assert [path.name for path in tmp_path.iterdir()] == [f"{process.pid}.native.table"]
        process.kill()
    with subprocess.Popen([program, "end"], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        # The table of the one before is gone.
        assert [path.name for path in tmp_path.iterdir()] == [f"{process.pid}.native.table"]
        process.kill()
