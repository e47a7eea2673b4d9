# SPDX-License-Identifier: MIT OR Apache-2.0
"""Common parts of the end-to-end tests: the built command and library, and small programs."""
import functools
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time
import traceback

import pytest

BUILD = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve()
# Prefix of a program, in a session of its own: other load of the machine must not change the
# behaviour of its threads. Only users with the right to raise priorities have its effect.
FIRST = ["sh", "-c",
         "echo -10 2>/dev/null >/proc/self/autogroup; renice -n -10 $$ >/dev/null 2>&1; "
         'exec "$@"', "first"]
# The same for a program that takes all CPUs, and so must be alone.
ALL = [word.replace("-10", "-20") for word in FIRST]
# Factor of all timeouts. Guests of the kernel lab are emulated, several at a time.
PATIENCE = float(os.environ.get("TEK_TEST_PATIENCE", "1"))
INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"

# Threads by name that each burn 0.1 s of CPU time, then act by the last argument. One named runaway
# burns until it is no longer real-time, or 1 s: its budget guard may lose its CPU for a while.
THREADS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static sem_t burnt;

static long cpu_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void burn(long milliseconds)
{
	for (long end = cpu_time() + milliseconds; cpu_time() < end;)
		;
}

static int is_real_time(void)
{
	return (syscall(SYS_sched_getscheduler, 0) & 0xff) == 2;
}

static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	if (strcmp(name, "runaway") == 0)
		for (int i = 0; i < 1000 && is_real_time(); i++)
			burn(1);
	else
		burn(100);
	if (strcmp(name, "stay") == 0) {
		sem_post(&burnt);
		pause();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[16];
	const char *then = argv[argc - 1];
	sem_init(&burnt, 0, 0);
	for (int i = 1; i < argc - 1; i++)
		pthread_create(&threads[i], NULL, work, argv[i]);
	for (int i = 1; i < argc - 1; i++)
		if (strcmp(argv[i], "stay") != 0)
			pthread_join(threads[i], NULL);
		else
			sem_wait(&burnt);
	if (strcmp(then, "killed") == 0) {
		usleep(200000);
		raise(SIGKILL);
	}
	return atoi(then);
}
"""

# Threads by name that wait; one named spin burns CPU time instead, one named busy 0.5 s before.
WAITING = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t named;

static void *live(void *name)
{
	struct timespec used = {0};
	pthread_setname_np(pthread_self(), name);
	pthread_barrier_wait(&named);
	while (strcmp(name, "spin") == 0)
		;
	while (strcmp(name, "busy") == 0 && used.tv_sec * 1000 + used.tv_nsec / 1000000 < 500)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	alarm(60);
	pthread_barrier_init(&named, NULL, argc);
	for (int i = 1; i < argc; i++)
		pthread_create(&thread, NULL, live, argv[i]);
	pthread_barrier_wait(&named);
	puts("ready");
	fflush(stdout);
	pause();
}
"""

# A program that every fully installed compiler builds.
EMPTY = """
#include <stdio.h>
int main(void) { return 0; }
"""


def pytest_configure(config):
    for mark in ("alone(thing, ...): never runs beside a test that names one of these things; "
                 "alone(): never runs beside any test",
                 "spread: these tests may run beside each other"):
        config.addinivalue_line("markers", f"{mark} (tools/checks/pytest_share.py)")


def everybody_can_enter(directory):
    return all(path.stat().st_mode & 0o001 for path in (directory, *directory.parents))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A few MB that compress somewhat, the same in every run."""
    path = tmp_path_factory.mktemp("data") / "data"
    generator = random.Random(1)
    path.write_bytes(b"".join(b"%d %x\n" % (n, generator.getrandbits(64)) for n in range(150000)))
    return path


@pytest.fixture(scope="session")
def open_build(open_directory):
    """The build, or a copy of it where another user could not access the build."""
    for needed in (BUILD / "bin" / "tek", BUILD / "lib" / "libtek.so"):
        assert needed.exists(), f"{needed} is missing: run `make build`, or set TEK_BUILD"
    if everybody_can_enter(BUILD):
        return BUILD
    copy = open_directory / "build"
    shutil.copytree(BUILD / "bin", copy / "bin")
    for lib in ("lib/libtek.so", "lib/libtek-profile.so", "lib/libtek-uthread.so",
                "lib/libtek-rtfifo.so", "lib/libtek-alloc.so",
                "lib/libtek-libm-musl.so", "lib32/libtek.so", "lib32/libtek-rtfifo.so",
                "lib32/libtek-alloc.so"):
        # With the links that have names with a version.
        for file in (BUILD / lib).parent.glob((BUILD / lib).name + "*"):
            if not file.is_dir():
                (copy / lib).parent.mkdir(exist_ok=True)
                shutil.copy(file, copy / pathlib.Path(lib).parent, follow_symlinks=False)
    return copy


@pytest.fixture
def library_32(open_build):
    """The library for 32-bit programs."""
    library = open_build / "lib32" / "libtek.so"
    if not library.exists():
        pytest.skip("the library for 32-bit programs is not built (gcc-multilib)")
    return library


@pytest.fixture(autouse=True)
def user_rules(tmp_path_factory, monkeypatch):
    """The user's rules directory, empty: that of the user of the tests must not count."""
    config = tmp_path_factory.mktemp("config")
    (config / "tek").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    return config / "tek"


@pytest.fixture(scope="session")
def tek(open_build):
    """Runs build/bin/tek with its output captured."""
    command = open_build / "bin" / "tek"

    def run(*arguments, **options):
        options.setdefault("timeout", 120 * PATIENCE)
        prefix = options.pop("prefix", [])
        return subprocess.run(
            [*prefix, str(command), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def open_directory():
    """A directory that every user can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="tek-test-") as directory:
        os.chmod(directory, 0o755)
        yield pathlib.Path(directory)


@pytest.fixture(scope="session")
def compile_c(open_directory):
    """Builds a C program, once; skips the test where nothing can be built with the same command."""

    @functools.cache
    def build(source, *command):
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        number = len(list(open_directory.iterdir()))
        program = open_directory / f"program{number}"
        complaint = complaint_of_compiler(source, command, program)
        if complaint and complaint_of_compiler(EMPTY, command, open_directory / f"empty{number}"):
            pytest.skip(f"{' '.join(command)} cannot build here: {complaint.splitlines()[-1]}")
        # The program is at fault: the test must not count as one that cannot run here.
        if complaint:
            pytest.fail(f"{' '.join(command)} does not build this program:\n{complaint}")
        return program

    return build


def complaint_of_compiler(source, command, program):
    """Builds a program; returns the compiler's messages if it fails."""
    file = program.with_suffix(".c")
    file.write_text(source)
    built = subprocess.run([*command, str(file), "-o", str(program)], capture_output=True,
                           text=True,
                           timeout=60, check=False)
    return built.returncode != 0 and (built.stderr or f"exit status {built.returncode}")


@pytest.fixture(scope="session")
def threads(compile_c):
    """The program THREADS."""
    return compile_c(THREADS, "cc", "-pthread")


@pytest.fixture(scope="session")
def waiting(compile_c):
    """The program WAITING."""
    return compile_c(WAITING, "cc", "-pthread")


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory):
    from servers import MariaDb  # here, because it imports this file
    return MariaDb(tmp_path_factory.mktemp("mariadb"))


def eventually(find, seconds=60):
    """Polls `find` until it returns a true value, and returns that. The machine may be busy."""
    end = time.monotonic() + seconds * PATIENCE
    while not (found := find()):
        assert time.monotonic() < end, f"it did not come about: {caller()}"
        time.sleep(0.02)
    return found


def caller():
    """The file and the line that called the caller of this function: reports of CI are short."""
    place = traceback.extract_stack(limit=3)[0]
    return f"{os.path.basename(place.filename)}:{place.lineno}: {place.line}"


def listens_at(path):
    """Whether a program waits for clients at this path: the file exists a moment earlier."""
    accepts = 0x10000  # __SO_ACCEPTCON
    sockets = [line.split(maxsplit=7) for line in read("/proc/net/unix").splitlines()[1:]]
    return any(socket[7:] == [str(path)] and int(socket[3], 16) & accepts for socket in sockets)


def read(path):
    """A file of /proc; empty where its thread has ended."""
    try:
        return pathlib.Path(path).read_text(errors="surrogateescape")
    except OSError:
        return ""


def names_of(pid):
    """The names of a process's threads by tid, from the kernel, in order of creation."""
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    names = {int(tid): read(f"/proc/{pid}/task/{tid}/comm").rstrip("\n") for tid in tids}
    return {tid: name for tid, name in names.items() if name}


def tids_by_name(pid, names):
    """Waits until a process has threads of these names; returns their tids."""
    def there():
        found = {}
        # In order of creation: the guard begins with the name of the thread that started it.
        for tid, name in names_of(pid).items():
            found.setdefault(name, tid)
        return set(names) <= set(found) and found

    return eventually(there)


def child_of(pid):
    """The one child of `tek run`."""
    return int(eventually(lambda: read(f"/proc/{pid}/task/{pid}/children").split())[0])


def children_of(pid):
    """The children of all kernel threads of a process, not only of the first."""
    return [int(child) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for child in read(path).split()]


@pytest.fixture
def as_nobody():
    """A command prefix that drops all privileges."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
            "--inh-caps=-all"]


def needs(program):
    """The path of a program; skips the test where it is missing."""
    # The PATH of a user without privilege may lack /sbin.
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def can_be_real_time():
    """Whether this process may use SCHED_RR."""
    try:
        old = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
        os.sched_setscheduler(0, old, os.sched_param(0))
    except OSError:
        return False
    return True


@pytest.fixture
def real_time():
    """For tests in which threads must become time-critical."""
    if not can_be_real_time():
        pytest.skip("this user may not use real-time priorities")
