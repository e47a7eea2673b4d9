# SPDX-License-Identifier: MIT OR Apache-2.0
"""Unmodified programs run with other locks, with the same results."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, needs
from paths import PROGRAMS
from test_run_model import outcome, plain, plain_memcached, serve_memcached

pytestmark = pytest.mark.spread

TEK = str(BUILD / "bin" / "tek")

LOCKS = {
    "k42": ["--lock", "k42", "--rwlock", "pf", "--barrier", "central"],
    "auto": ["--lock", "auto", "--rwlock", "park", "--barrier", "auto"],
    "park": ["--lock", "park", "--rwlock", "park", "--barrier", "block"],
}
# In a FIFO queue of spinning threads, all wait for the next one, even while it is preempted. So a
# program with such locks gets no more threads than CPUs, or little work if it has more threads.
MOST_THREADS = {"k42": len(os.sched_getaffinity(0))}
SIZES = {"k42": 20, "auto": 500, "park": 500}


@pytest.fixture(params=LOCKS)
def lock(request):
    return request.param


@pytest.fixture
def prefix(lock):
    return [TEK, "run", *LOCKS[lock], "--"]


@pytest.fixture
def at_most(lock):
    """So many threads, or as many as a lock supports."""
    return lambda threads: min(threads, MOST_THREADS.get(lock, threads))


def without_crowd(errors):
    """Removes the warning, which a program with little use of its locks gets as well."""
    return re.sub(r"^tek: --\w+ \w+ is slow with more threads \(\d+\) than CPUs .*\n", "", errors,
                  count=1)


def assert_same(prefix, *command):
    status, output, errors = outcome([*prefix, *command], timeout=280)
    assert (status, output, without_crowd(errors.decode()).encode()) == plain(*command)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(b"".join(b"%d %d\n" % (n, n * n) for n in range(100_000)))
    return path


def test_pigz_compresses_to_the_same_bytes(prefix, at_most, text):
    assert_same(prefix, needs("pigz"), "-n", "-c", "-p", str(at_most(3)), str(text))


def test_xz_compresses_to_the_same_bytes(prefix, at_most, text):
    assert_same(prefix, needs("xz"), f"-T{at_most(2)}", "-0", "--block-size=256KiB", "-c",
                str(text))


PYTHON = """
import queue, sys, threading
items, counted, total = queue.Queue(3), threading.Condition(), 0
def work():
    global total
    while (item := items.get()) is not None:
        with counted:
            total += item
            counted.notify_all()
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
for thread in threads: thread.start()
for number in range(int(sys.argv[1])): items.put(number)
with counted:
    counted.wait_for(lambda: total == sum(range(int(sys.argv[1]))))
for _ in threads: items.put(None)
for thread in threads: thread.join()
print(total)
"""


def test_threads_of_python_pass_numbers_on(prefix, lock, at_most):
    workers = max(1, at_most(4) - 1)  # beside the first thread
    assert_same(prefix, sys.executable, "-c", PYTHON, str(SIZES[lock]), str(workers))


@pytest.fixture(scope="session")
def sync_cxx(tmp_path_factory):
    program = tmp_path_factory.mktemp("sync") / "sync_cxx"
    subprocess.run([needs("g++"), "-std=gnu++17", "-O2", PROGRAMS / "sync_cxx.cpp", "-o", program,
                    "-pthread"],
                   check=True, timeout=120)
    return str(program)


@pytest.mark.parametrize("model", [[], ["--model", "m:n", "--workers", "2"]], ids=["1:1", "m:n"])
def test_what_cxx_has_for_threads_works(sync_cxx, lock, at_most, model):
    pairs = max(1, at_most(6) // 2)
    assert_same([TEK, "run", *LOCKS[lock], *model, "--"], sync_cxx, str(SIZES[lock]), str(pairs))


def test_memcached_answers_its_clients_the_same(prefix, at_most, tmp_path):
    *served, errors = serve_memcached(prefix, tmp_path, at_most(4))
    assert (*served, without_crowd(errors)) == plain_memcached()


def test_mariadb_serves_sysbench_the_same(prefix, at_most, mariadb):
    assert mariadb.serve(prefix, at_most(16)) == mariadb.plain


# ---- the command ----

def test_a_lock_of_no_kind_starts_nothing():
    status, out, err = outcome([TEK, "run", "--lock", "lottery", "--", "echo", "ran"])
    assert (status, out) == (2, b"")
    assert b"k42" in err and b"auto" in err


def test_spins_alone_start_nothing():
    status, out, err = outcome([TEK, "run", "--spin", "3", "--", "echo", "ran"])
    assert (status, out) == (2, b"")
    assert b"give --lock" in err


def test_the_locks_come_before_the_engine():
    command = ["sh", "-c", "echo $LD_PRELOAD $TEK_SYNC"]
    _, out, _ = outcome([TEK, "run", "--model", "m:1", "--lock", "tp", "--spin", "7", "--",
                         *command])
    preloaded, variable = out.decode().split()
    names = [pathlib.Path(path).name for path in preloaded.split(":")]
    assert names == ["libtek-sync.so", "libtek-uthread.so"]
    assert variable == "lock=tp,spin=7"


def test_auto_reports_what_it_chose_if_a_report_is_wanted():
    _, out, err = outcome([TEK, "run", "--lock", "auto", "--report", "--", sys.executable, "-c",
                           PYTHON, "100", "3"])
    assert out == b"4950\n"
    assert b"that auto chose for: " in err


CONTENDED = r"""
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

static void *hold(void *unused)
{
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&queue_lock);
		usleep(1000);
		pthread_mutex_unlock(&queue_lock);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hold, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""


@pytest.mark.parametrize("options, name",
                         [(["-g"], "queue_lock"), (["-s"], "at 0x[0-9a-f]+ of contended")])
def test_a_report_names_the_locks_that_auto_had_sleep(tmp_path, options, name):
    """Also for a program that has closed its standard error, as xz does."""
    (tmp_path / "contended.c").write_text(CONTENDED.replace("return 0;", "return close(2);"))
    program = tmp_path / "contended"
    subprocess.run([needs("gcc"), *options, "-pthread", "-o", program, tmp_path / "contended.c"],
                   check=True)
    report = tmp_path / "report"
    _, _, err = outcome([TEK, "run", "--lock", "auto", "--report", "--report-json", str(report),
                         "--", str(program)],
                        text=True)
    assert re.search(f"tek:   lock {name}: (sleeps|spins again); went to sleeping [0-9]+ time",
                     err), err
    locks, = json.loads(report.read_text())["locks"]
    assert locks["program"] == "contended" and re.fullmatch(name, locks["locks"][0]["name"]), locks


def test_the_environment_alone_chooses_locks_and_is_read_as_strictly():
    with_variable = {**os.environ, "TEK_SYNC": "lock=auto,report=1"}
    _, out, err = outcome([TEK, "run", "--", sys.executable, "-c", PYTHON, "100", "3"],
                          env=with_variable)
    assert out == b"4950\n" and b"that auto chose for: " in err
    status, out, err = outcome([TEK, "run", "--", "echo", "ran"],
                               env={**os.environ, "TEK_SYNC": "lock=lottery"})
    assert (status, out) == (2, b"") and b"TEK_SYNC is lock=lottery" in err


def test_without_its_library_nothing_runs(tmp_path, open_build):
    shutil.copy(open_build / "lib" / "libtek.so", tmp_path)
    environment = {**os.environ, "TEK_LIBRARY": str(tmp_path / "libtek.so")}
    for options in (["--lock", "k42"], ["--alloc", "tlsf"], ["--place", "rtfifo"],
                    ["--libm", "musl"]):
        status, out, err = outcome([TEK, "run", *options, "--", "echo", "ran"], env=environment,
                                   text=True)
        assert (status, out) == (125, "") and "is not installed" in err, options


def test_a_program_of_another_word_size_goes_without_and_that_is_reported(compile_c, library_32):
    program = compile_c("int main(void) { return 0; }", "gcc", "-m32")
    status, _, err = outcome([TEK, "run", "--lock", "k42", "--", program], text=True)
    assert status == 0 and err.count("another word size than TEK's locks") == 1, err
    status, _, err = outcome([TEK, "run", "--lock", "k42", "--", "sh", "-c",
                              f"{program}; {program}"], text=True)
    name = pathlib.Path(program).name
    assert (status == 0
            and err == f"tek: {name} is of another word size: it runs without libtek-sync.so\n")


# Has so many threads at the same time, none of which takes a lock.
CROWD = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *wait_for_all(void *argument)
{
	usleep(20000);
	return argument;
}
int main(int argc, char **argv)
{
	pthread_t threads[16];
	const int count = atoi(argv[1]);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < count; i++)
			pthread_create(&threads[i], NULL, wait_for_all, NULL);
		for (int i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
	}
	return argc != 2;
}
"""


def crowd(tek, compile_c, option, kind, threads):
    """The warnings for a program with so many threads beside the first one, on one CPU."""
    cpu = min(os.sched_getaffinity(0))
    ended = tek("run", option, kind, "--", compile_c(CROWD, "cc", "-pthread"), str(threads),
                prefix=["taskset", "-c", str(cpu)])
    assert ended.returncode == 0, ended.stderr
    return ended.stderr.splitlines()


@pytest.mark.parametrize("option, kind, cure", [
    ("--lock", "k42", "auto"), ("--lock", "mcs", "auto"), ("--lock", "ticket", "auto"),
    ("--lock", "ticket-pb", "auto"),
    ("--barrier", "central", "auto"), ("--barrier", "dissemination", "auto"),
    ("--rwlock", "pf", "park")])
def test_more_threads_than_cpus_are_reported_with_the_cure_where_each_needs_a_cpu(
        tek, compile_c, option, kind, cure):
    assert crowd(tek, compile_c, option, kind, 3) == [
        f"tek: {option} {kind} is slow with more threads (2) than CPUs (1): use {option} {cure}"]
    assert crowd(tek, compile_c, option, kind, 1) == [] # and the first one, which waits


@pytest.mark.parametrize("option, kind", [("--lock", "auto"), ("--lock", "park"), ("--lock", "tas"),
                                          ("--rwlock", "park"),
                                          ("--barrier", "auto"), ("--barrier", "block")])
def test_no_word_of_them_where_they_may_wait(tek, compile_c, option, kind):
    assert crowd(tek, compile_c, option, kind, 3) == []
