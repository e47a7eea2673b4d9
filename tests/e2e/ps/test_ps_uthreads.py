# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek ps, top and explain show the user-level threads of programs under tek run --model."""
import contextlib
import json
import os
import pathlib
import platform
import re
import signal
import subprocess

import pytest

from conftest import BUILD, children_of, eventually, needs

TEK = str(BUILD / "bin" / "tek")
MODELS = {"m:1": ["--model", "m:1"], "m:n": ["--model", "m:n", "--workers", "2"]}

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t begun, never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, free_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_t first;
static volatile int stop;

static __attribute__((noinline)) int use_up(int kib)
{
	volatile char bytes[1024];
	memset((char *)bytes, 1, sizeof(bytes));
	return kib ? use_up(kib - 1) + bytes[5] : bytes[7];
}

static void *wait_for_ever(void *name)
{
	if (name)
		pthread_setname_np(pthread_self(), name);
	use_up(name && strcmp(name, "deep") == 0 ? 300 : 1);
	sem_post(&begun);
	pause();
	return NULL;
}

static void *spin(void *name)
{
	pthread_setname_np(pthread_self(), name);
	sem_post(&begun);
	while (!stop)
		;
	return NULL;
}

static void *wait_for(void *name)
{
	static int ends[2];
	char byte;

	pthread_setname_np(pthread_self(), name);
	sem_post(&begun);
	if (strcmp(name, "mutex") == 0)
		pthread_mutex_lock(&mutex);
	else if (strcmp(name, "cond") == 0)
		pthread_mutex_lock(&free_mutex), pthread_cond_wait(&cond, &free_mutex);
	else if (strcmp(name, "rwlock") == 0)
		pthread_rwlock_rdlock(&rwlock);
	else if (strcmp(name, "barrier") == 0)
		pthread_barrier_wait(&barrier);
	else if (strcmp(name, "semaphore") == 0)
		sem_wait(&never);
	else if (strcmp(name, "join") == 0)
		pthread_join(first, NULL);
	else if (strcmp(name, "file") == 0 && pipe(ends) == 0)
		(void)!read(ends[0], &byte, 1);
	else if (strcmp(name, "sleep") == 0)
		sleep(100);
	return NULL;
}

static void *end_at_once(void *argument)
{
	return argument;
}

static void start(void *(*routine)(void *), size_t stack, const char *name)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	if (pthread_create(&thread, &attr, routine, (void *)name))
		abort();
	sem_wait(&begun);
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
	sem_init(&begun, 0, 0);
	if (strcmp(what, "few") == 0) {
		start(wait_for_ever, 0, "deep");
		start(wait_for_ever, 256 << 10, "small");
		start(spin, 0, "busy");
		start(wait_for_ever, 0, NULL);
	} else if (strcmp(what, "everything") == 0) {
		const char *const names[] = {"mutex",     "cond", "rwlock", "barrier",
		                             "semaphore", "join", "file",   "sleep"};
		first = pthread_self();
		sem_init(&never, 0, 0);
		pthread_barrier_init(&barrier, NULL, 2);
		pthread_mutex_lock(&mutex);
		pthread_rwlock_wrlock(&rwlock);
		for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			start(wait_for, 0, names[i]);
	} else if (strcmp(what, "deep") == 0) {
		start(wait_for_ever, 0, "deep");
		return 0;
	} else if (strcmp(what, "fork") == 0) {
		start(wait_for_ever, 0, "parent's");
		pid_t child = fork();
		if (child == 0) {
			start(wait_for_ever, 0, "child's");
			say("ready");
			pause();
		}
		waitpid(child, NULL, 0);
	} else if (strcmp(what, "exec") == 0) {
		start(wait_for_ever, 0, "before");
		execl("/bin/sleep", "sleep", "60", NULL);
	} else if (strcmp(what, "end") == 0) {
		pthread_t threads[3];
		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, end_at_once, NULL);
		start(wait_for_ever, 0, "stays");
		pthread_join(threads[0], NULL);
	} else if (strcmp(what, "named") == 0) {
		pthread_t thread;
		struct sched_param param = {.sched_priority = 7};
		pthread_create(&thread, NULL, wait_for_ever, "first");
		sem_wait(&begun);
		pthread_setname_np(thread, "second");
		pthread_setschedparam(thread, SCHED_FIFO, &param);
	} else {
		for (int i = atoi(what); i > 0; i--)
			start(wait_for_ever, 16 << 10, NULL);
	}
	say("ready");
	pause();
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    needs("gcc")
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    found = BUILD / "lib" / "libtek-uthread.so"
    assert found.exists(), f"{found} is missing: run `make build`, or set TEK_BUILD"
    directory = tmp_path_factory.mktemp("uthreads")
    (directory / "uthreads.c").write_text(PROGRAM)
    binary = directory / "uthreads"
    subprocess.run(["gcc", "-O1", "-pthread", "-o", binary, directory / "uthreads.c"], check=True)
    return binary


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@contextlib.contextmanager
def started(program, model, what):
    """The program under tek run, ready: the pid of its own process."""
    process = subprocess.Popen([TEK, "run", *model, "--", program, what],
                               stdout=subprocess.PIPE, start_new_session=True)
    try:
        if what != "exec":
            assert process.stdout.readline() == b"ready\n"
        yield eventually(lambda: children_of(process.pid))[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ps(pid, *arguments):
    ended = subprocess.run([TEK, "ps", "--json", "--pid", str(pid), *arguments],
                           capture_output=True, text=True, check=True, timeout=60)
    assert ended.stderr == ""
    return json.loads(ended.stdout)["threads"]


def by_name(threads):
    return {thread["name"]: thread for thread in threads}


def test_user_level_threads_are_shown_with_number_worker_state_and_stack(program, model):
    with started(program, model, "few") as pid:
        everyone = ps(pid)
        users = [thread for thread in everyone if thread["user"]]
        kernels = [thread for thread in everyone if not thread["user"]]
        assert [user["number"] for user in users] == [1, 2, 3, 4, 5]
        tids = {thread["tid"] for thread in kernels}
        assert pid in tids and all(thread["number"] is None for thread in kernels)
        for user in users:
            assert user["pid"] == pid and user["program"] == "uthreads" and user["tid"] is None
            assert user["tracked"] and user["worker_tid"] in tids
            assert user["worker"] in (range(2) if "m:n" in model else range(1))
            assert user["cpu_ns"] is None and user["group"] is None
        named = by_name(users)
        assert named["deep"]["state"] == "S" and named["busy"]["state"] == "R"
        assert named["deep"]["function"] == "wait_for_ever" and named["busy"]["function"] == "spin"
        assert named["deep"]["call_site"].startswith("start+")
        # The last one has no name: it has the first thread's, which is also what it reads itself.
        assert users[4]["name"] == users[0]["name"] == "uthreads"
        assert 300 << 10 < named["deep"]["peak_bytes"] <= named["deep"]["bound_bytes"] < 400 << 10
        assert named["small"]["peak_bytes"] < 64 << 10
        assert 256 << 10 <= named["small"]["stack_bytes"] < 384 << 10
        assert named["deep"]["stack_bytes"] >= 1 << 20
        names = {"uthreads", "tek-monitor",
                 "tek-signals"} | ({"tek-worker"} if "m:n" in model else set())
        eventually(lambda: {each["name"] for each in ps(pid, "--no-uthreads")} == names)


def test_the_table_for_people_names_them_and_their_workers(program, model):
    with started(program, model, "few") as pid:
        text = subprocess.run([TEK, "ps", "--pid", str(pid)], capture_output=True, text=True,
                              check=True, timeout=60).stdout
        lines = text.splitlines()
        assert lines[0].split()[:4] == ["PID", "TID", "WORKER", "PROGRAM"]
        deep = next(line.split() for line in lines if " deep " in line)
        assert deep[0] == str(pid) and re.fullmatch(r"u\d+", deep[1]) and deep[2] in "01"
        only = ps(pid, "--uthreads")
        assert len(only) == 5 and all(thread["user"] for thread in only)
        assert not any(thread["user"] for thread in ps(pid, "--no-uthreads"))
        tree = subprocess.run([TEK, "ps", "--tree", "--pid", str(pid), "-o", "tid,name"],
                              capture_output=True, text=True, check=True, timeout=60).stdout
        assert re.search(r"u1 +[|`]- uthreads\n +u2 +[| ]  [|`]- deep", tree), tree


def test_what_each_of_them_waits_for_is_shown(program, model):
    with started(program, model, "everything") as pid:
        everything = {"mutex", "cond", "rwlock", "barrier", "semaphore", "join", "file", "sleep"}

        def seen():
            threads = by_name(ps(pid, "--uthreads"))
            return {name: threads[name]["waits"] for name in everything} | {
                "itself": threads["uthreads"]["waits"]}
        assert eventually(lambda: (now := seen()) == dict(zip(everything, everything)) | {
            "itself": "signal"} and now)
        assert all(thread["waits"] is None for thread in ps(pid, "--no-uthreads"))
        text = subprocess.run([TEK, "ps", "--pid", str(pid)], capture_output=True, text=True,
                              check=True, timeout=60).stdout
        heads, *rows = [line.split() for line in text.splitlines()]
        assert heads[heads.index("STATE") + 1] == "WAITS"
        # In a row without a role there is `-`, so words are columns.
        assert next(row for row in rows if "rwlock" in row)[heads.index("WAITS")] == "rwlock"
        number = by_name(ps(pid, "--uthreads"))["cond"]["number"]
        info = subprocess.run([TEK, "explain", f"{pid}/u{number}"], capture_output=True, text=True,
                              check=True, timeout=60).stdout
        assert "It waits for a signal of a condition variable." in " ".join(info.split())
    with started(program, model, "few") as pid:
        busy = by_name(ps(pid, "--uthreads"))["busy"]
        assert (busy["state"], busy["waits"]) == ("R", None)


def test_roles_that_rules_give_by_name_are_shown(program, model):
    roles = ["--role", "deep=goes down", "--role", "second=renamed", "--role", "uthreads=the first"]
    with started(program, [*model, *roles], "few") as pid:
        named = by_name(ps(pid, "--uthreads"))
        assert (named["deep"]["role"], named["busy"]["role"]) == ("goes down", None)
        first = next(user for user in ps(pid, "--uthreads") if user["number"] == 1)
        assert first["role"] == "the first"
        assert [user["name"] for user in ps(pid, "--role", "goes*")] == ["deep"]
    with started(program, [*model, *roles], "named") as pid:
        assert by_name(ps(pid, "--uthreads"))["second"]["role"] == "renamed"


def test_a_stack_gets_the_size_that_kernel_threads_of_its_kind_needed(program, model, tmp_path):
    profiles = ["--stack-profiles", tmp_path]
    subprocess.run([TEK, "run", "--stack", "report", *profiles, "--", program, "deep"], check=True,
                   capture_output=True, timeout=60)
    assert list(tmp_path.glob("*.stack"))
    with started(program, [*model, "--stack", "auto", *profiles], "few") as pid:
        fitted = by_name(ps(pid, "--uthreads"))
    with started(program, model, "few") as pid:
        usual = by_name(ps(pid, "--uthreads"))
    assert 400 << 10 < fitted["deep"]["stack_bytes"] < 1 << 20 < usual["deep"]["stack_bytes"]
    # There are no data on spin, and a size that the program chose stays.
    for name in ("busy", "small"):
        assert fitted[name]["stack_bytes"] == usual[name]["stack_bytes"]
    assert fitted["deep"]["peak_bytes"] == pytest.approx(usual["deep"]["peak_bytes"], abs=16384)


def test_a_thread_that_has_ended_is_not_shown_joined_or_not(program, model):
    with started(program, model, "end") as pid:
        eventually(lambda: [user["number"] for user in ps(pid, "--uthreads")] == [1, 5])


def test_a_name_and_a_priority_that_another_thread_set_are_shown(program, model):
    with started(program, model, "named") as pid:
        named = by_name(ps(pid, "--uthreads"))
        assert "first" not in named
        assert (named["second"]["policy"], named["second"]["priority"]) == ("fifo", 7)


def test_the_child_of_fork_has_a_table_of_its_own(program, model):
    with started(program, model, "fork") as pid:
        (child,) = children_of(pid)
        assert set(by_name(ps(pid, "--uthreads"))) == {"uthreads", "parent's"}
        assert set(by_name(ps(child, "--uthreads"))) == {"uthreads", "child's"}


def test_a_program_that_is_replaced_leaves_no_threads_behind(program, model):
    with started(program, model, "exec") as pid:
        eventually(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        assert not any(thread["user"] for thread in ps(pid))


def test_a_killed_program_leaves_nothing(program, model, tmp_path):
    run_directory = tmp_path / "run"
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen([TEK, "run", *model, "--", program, "few"], stdout=subprocess.PIPE,
                          env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        (pid,) = children_of(process.pid)
        assert ps(pid, "--uthreads")
        os.kill(pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    # os.walk() skips entries that other processes remove meanwhile.
    tables = [name for base in (run_directory, "/run/tek", tmp_path)
              for _, _, names in os.walk(base) for name in names if name.startswith(f"{pid}.table")]
    assert tables == []


def test_five_thousand_threads_are_shown(program, model):
    with started(program, model, "5000") as pid:
        numbers = [user["number"] for user in ps(pid, "--uthreads", "-o", "number")]
        assert numbers == list(range(1, 5002))


def test_more_threads_than_slots_are_counted(program):
    with started(program, MODELS["m:1"], "33000") as pid:
        assert len(ps(pid, "--uthreads", "-o", "number")) == 32768
        tables = list(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).glob("tek-*/run-*"))
        tables += pathlib.Path("/run/tek").glob("run-*")
        (table,) = [path for run in tables for path in run.glob(f"{pid}.table")]
        info = json.loads(subprocess.run([TEK, "debug", "table", "--json", table], check=True,
                                         capture_output=True, text=True, timeout=60).stdout)
        assert (info["threads"], info["lost"]) == (32768, 33001 - 32768)


def test_top_shows_them_with_their_worker(program, model):
    with started(program, model, "few") as pid:
        info = json.loads(subprocess.run(
            [TEK, "top", "--once", "--json", "--interval", "200ms"], check=True,
            capture_output=True, text=True, timeout=60).stdout)
        own = [thread for thread in info["threads"] if thread["pid"] == pid]
        busy = by_name(own)["busy"]
        assert busy["tid"] is None and busy["worker"] is not None and busy["cpu_percent"] is None


def test_a_user_level_thread_is_explained_and_so_is_its_carrier(program, model):
    def explain(which):
        return subprocess.run([TEK, "explain", which], capture_output=True, text=True, check=True,
                              timeout=60).stdout

    with started(program, model, "few") as pid:
        named = by_name(ps(pid, "--uthreads"))
        deep = named["deep"]
        text = explain(f"{pid}/u{deep['number']}")
        assert f"deep [u2] is a user-level thread of uthreads [{pid}]" in text
        assert "It runs wait_for_ever." in text and "created by [u1], at start+" in text
        assert f"thread {deep['worker_tid']} of the kernel carries" in text
        carrier = explain(str(deep["worker_tid"]))
        assert (f"It carries worker {deep['worker']} of its program's 5 user-level threads"
                in carrier)
        ended = subprocess.run([TEK, "explain", f"{pid}/99"], capture_output=True, text=True,
                               check=False, timeout=60)
        assert ended.returncode == 1 and "no user-level thread 99" in ended.stderr
