# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many threads with one start routine, of which one needs much stack: the functions of a runtime's
threads, and their names, distinguish their kinds, so that the other threads keep small stacks."""
import platform
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD

pytestmark = pytest.mark.spread

KIB = 1 << 10
MIB = 1 << 20
THREADS = 64
DEEP = 1200 * KIB

# The common part of all C programs here: threads call shallow() and deep().
COMMON = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
enum { THREADS = 64 };
static __attribute__((noinline)) int use(size_t bytes)
{
	volatile char *memory = __builtin_alloca(bytes);
	for (size_t i = 0; i < bytes; i += 512)
		memory[i] = 1;
	return memory[bytes / 2];
}
static void *shallow(void *unused) { (void)unused; return (void *)(intptr_t)(use(4000) & 0); }
static void *deep(void *unused) { (void)unused; return (void *)(intptr_t)(use(1200 << 10) & 0); }
typedef void *function(void *);
static function *of(int i) { return i == 40 ? deep : shallow; }
"""

GLIB = COMMON + """
struct thread;
extern struct thread *g_thread_new(const char *name, function *run, void *data);
extern void *g_thread_join(struct thread *thread);
int main(void)
{
	struct thread *threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = g_thread_new("same", of(i), NULL);
	for (int i = 0; i < THREADS; i++)
		g_thread_join(threads[i]);
	return 0;
}
"""

# One pool for each of two functions.
GLIB_POOL = COMMON + """
struct pool;
extern struct pool *g_thread_pool_new(void (*run)(void *, void *), void *data, int most,
                                      int exclusive, void *error);
extern int g_thread_pool_push(struct pool *pool, void *data, void *error);
extern void g_thread_pool_free(struct pool *pool, int immediate, int wait);
static void run_shallow(void *data, void *user) { (void)user; shallow(data); }
static void run_deep(void *data, void *user) { (void)user; deep(data); }
int main(void)
{
	struct pool *many = g_thread_pool_new(run_shallow, NULL, THREADS - 1, 1, NULL);
	struct pool *one = g_thread_pool_new(run_deep, NULL, 1, 1, NULL);
	for (int i = 0; i < THREADS; i++)
		g_thread_pool_push(i == 40 ? one : many, (void *)1, NULL);
	g_thread_pool_free(many, 0, 1);
	g_thread_pool_free(one, 0, 1);
	usleep(100000); /* their threads end later */
	return 0;
}
"""

OPENMP = COMMON + """
#include <omp.h>
int main(void)
{
	int sum = 0;
	#pragma omp parallel num_threads(2)
	if (omp_get_thread_num())
		deep(NULL);
	/* These need more threads than there are, whose first function this is. */
	#pragma omp parallel num_threads(THREADS)
	{
		shallow(NULL);
		#pragma omp atomic
		sum++;
	}
	return sum != THREADS;
}
"""

RUST = """
use std::hint::black_box;
#[inline(never)]
fn shallow() { let bytes = [1u8; 4000]; black_box(&bytes); }
#[inline(never)]
fn deep() { let bytes = [1u8; 1200 << 10]; black_box(&bytes); }
fn main() {
    let threads: Vec<_> = (0..64)
        .map(|i| {
            let size = std::thread::Builder::new();
            if i == 40 {
                size.spawn(deep_closure(i)).unwrap()
            } else {
                size.spawn(move || { shallow(); black_box(i); }).unwrap()
            }
        })
        .collect();
    for thread in threads { thread.join().unwrap(); }
}
fn deep_closure(i: i32) -> impl FnOnce() + Send + 'static { move || { deep(); black_box(i); } }
"""

# TEK's knowledge of Qt: the file's name, and the layout of objects with virtual functions.
QT_LIBRARY = """
#include <pthread.h>
struct QObject {
	virtual void a(); virtual void b(); virtual void c();
	virtual ~QObject();
	virtual void e(); virtual void f(); virtual void g(); virtual void h(); virtual void i();
	virtual void j(); virtual void k();
	void *d = nullptr;
};
struct QThread : QObject {
	virtual void run();
	void start();
	void wait();
	pthread_t handle;
};
"""
QT_BODY = QT_LIBRARY + """
void QObject::a() {} void QObject::b() {} void QObject::c() {} QObject::~QObject() {}
void QObject::e() {} void QObject::f() {} void QObject::g() {} void QObject::h() {}
void QObject::i() {} void QObject::j() {} void QObject::k() {}
void QThread::run() {}
static void *begin(void *thread) { static_cast<QThread *>(thread)->run(); return nullptr; }
void QThread::start() { pthread_create(&handle, nullptr, begin, this); }
void QThread::wait() { pthread_join(handle, nullptr); }
"""
QT = COMMON + QT_LIBRARY + """
struct Shallow : QThread { void run() override { shallow(nullptr); } };
struct Deep : QThread { void run() override { deep(nullptr); } };
int main()
{
	QThread *threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		threads[i] = i == 40 ? static_cast<QThread *>(new Deep) : new Shallow;
		threads[i]->start();
	}
	for (QThread *thread : threads)
		thread->wait();
}
"""

PYTHON = """
import ctypes, sys, threading
use = ctypes.CDLL(sys.argv[1])
class Shallow(threading.Thread):
    def run(self): use.shallow(None)
class Deep(threading.Thread):
    def run(self): use.deep(None)
threads = [Deep() if i == 40 else Shallow() for i in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

# The same without classes.  WHAT: targets, or names.
PYTHON_TARGETS = """
import ctypes, sys, threading
use = ctypes.CDLL(sys.argv[1])
def shallow_work(): use.shallow(None)
def deep_work(): use.deep(None)
def work(deep): use.deep(None) if deep else use.shallow(None)
if sys.argv[2] == "targets":
    threads = [threading.Thread(target=deep_work if i == 40 else shallow_work) for i in range(64)]
else:
    threads = [threading.Thread(target=work, args=[i == 40],
                                name=f"{'deep' if i == 40 else 'shallow'}_work-{i}")
               for i in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

# A pool of C: the name is the purpose of a thread. HOW: set by itself or by its creator, before or
# after it runs.
NAMES = COMMON + """
static pthread_barrier_t created;
static int by_creator;
static void *run(void *value)
{
	const int number = (int)(intptr_t)value;
	char name[16];
	snprintf(name, sizeof(name), number == 40 ? "deep" : "worker-%d", number);
	if (by_creator)
		pthread_barrier_wait(&created);
	else if (number % 2)
		pthread_setname_np(pthread_self(), name);
	else
		prctl(PR_SET_NAME, name);
	return of(number)(NULL);
}
int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	char name[16];
	by_creator = argc > 1 && strcmp(argv[1], "creator") == 0;
	pthread_barrier_init(&created, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
		snprintf(name, sizeof(name), i == 40 ? "deep" : "worker-%d", i);
		if (by_creator)
			pthread_setname_np(threads[i], name);
	}
	if (by_creator)
		pthread_barrier_wait(&created);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""


@pytest.fixture
def tuned(tmp_path):
    """Runs a program under the Stack Tuner, with profiles of its own."""
    profiles = tmp_path / "profiles"

    def run(*command, stack="auto", status=0):
        ended = subprocess.run([str(BUILD / "bin" / "tek"), "run", "--no-rules", "--stack", stack,
                                "--stack-profiles",
                                str(profiles), "--", *map(str, command)], capture_output=True,
                               text=True, timeout=60,
                               check=False)
        assert ended.returncode == status, ended.stderr
        return ended.stderr

    run.profiles = profiles
    return run


def kinds_in(profiles):
    lines = [line for file in profiles.glob("*.stack") for line in file.read_text().splitlines()]
    return [dict(field.split("=", 1) for field in line.split()[1:]) for line in lines
            if line.startswith("kind ")]


def had(info):
    """Parses the closing line: threads and bytes of stack."""
    threads, size, unit = re.search(r"tek: stacks: (\d+) threads? of \d+ kinds? had "
                                    r"([\d.]+)([KMG])", info).groups()
    return int(threads), float(size) * {"K": KIB, "M": MIB, "G": 1024 * MIB}[unit]


def check(tuned, *command, threads=THREADS, runs=4):
    """From the second run on, the deep one keeps its stack, and the other threads do not get it."""
    tuned(*command)
    for _ in range(runs):
        count, bytes_ = had(tuned(*command))
        assert count == threads
        assert DEEP < bytes_ < 16 * MIB
    deep = [kind for kind in kinds_in(tuned.profiles) if int(kind["peak"]) > DEEP]
    assert [int(kind["threads"]) for kind in deep] == [runs + 1], kinds_in(tuned.profiles)
    return kinds_in(tuned.profiles)


@pytest.mark.parametrize("source", [GLIB, GLIB_POOL], ids=["threads", "pools"])
def test_threads_of_glib_are_of_the_kind_of_their_function(tuned, compile_c, source):
    program = compile_c(source, "gcc", "-O1", "-pthread", "-Wl,--no-as-needed",
                        "-l:libglib-2.0.so.0")
    kinds = check(tuned, program)
    assert any("deep" in kind["symbol"] for kind in kinds)


def test_threads_of_openmp_are_of_the_kind_of_their_first_function(tuned, compile_c):
    program = compile_c(OPENMP, "gcc", "-O1", "-pthread", "-fopenmp")
    check(tuned, program, threads=THREADS - 1)


def need_answers_about_memory():
    """In unknown files TEK reads an argument only if the kernel reports that it is memory."""
    if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (5, 14):
        pytest.skip("needs madvise(MADV_POPULATE_READ) of Linux 5.14")


def test_threads_of_rust_are_of_the_kind_of_their_closure(tuned, tmp_path):
    need_answers_about_memory()
    if not shutil.which("rustc"):
        pytest.skip("needs rustc")
    (tmp_path / "main.rs").write_text(RUST)
    for level in ("0", "2"):
        program = tmp_path / f"rust{level}"
        subprocess.run(["rustc", "-C", f"opt-level={level}", "-o", program, tmp_path / "main.rs"],
                       check=True, timeout=120)
        # The standard library chooses a size: TEK changes it only if the user allows it.
        tuned(program, stack="auto,override")
        count, bytes_ = had(tuned(program, stack="auto,override"))
        assert count == THREADS and DEEP < bytes_ < 16 * MIB


def test_threads_of_qt_are_of_the_kind_of_their_class(tuned, compile_c, tmp_path):
    (tmp_path / "qt.cpp").write_text(QT_BODY)
    (tmp_path / "main.cpp").write_text(QT)
    library = tmp_path / "libQt6Core.so.6"
    subprocess.run(["g++", "-O1", "-fPIC", "-shared", "-pthread", "-o", library,
                    tmp_path / "qt.cpp"], check=True,
                   timeout=120)
    subprocess.run(["g++", "-O1", "-fpermissive", "-w", "-pthread", "-o", tmp_path / "qt",
                    tmp_path / "main.cpp",
                    f"-L{tmp_path}", "-l:libQt6Core.so.6", f"-Wl,-rpath,{tmp_path}"], check=True,
                   timeout=120)
    kinds = check(tuned, tmp_path / "qt")
    assert any("Deep::run" in kind["symbol"] for kind in kinds)


def test_threads_of_python_are_of_the_kind_of_their_class(tuned, tmp_path):
    need_answers_about_memory()
    source = tmp_path / "use.c"
    source.write_text(COMMON.replace("static void *", "void *"))
    library = tmp_path / "use.so"
    subprocess.run(["gcc", "-O1", "-w", "-fPIC", "-shared", "-o", library, source], check=True,
                   timeout=120)
    kinds = check(tuned, sys.executable, "-c", PYTHON, library)
    assert {"name:Deep", "name:Shallow"} <= {kind["label"] for kind in kinds}


@pytest.mark.parametrize("what", ["targets", "names"])
def test_threads_of_python_without_a_class_are_of_the_kind_of_their_target_or_name(tuned,
                                                                                   tmp_path, what):
    need_answers_about_memory()
    if sys.version_info < (3, 11):
        pytest.skip("needs Python 3.11, whose objects TEK knows")
    source = tmp_path / "use.c"
    source.write_text(COMMON.replace("static void *", "void *"))
    library = tmp_path / "use.so"
    subprocess.run(["gcc", "-O1", "-w", "-fPIC", "-shared", "-o", library, source], check=True,
                   timeout=120)
    kinds = check(tuned, sys.executable, "-c", PYTHON_TARGETS, library, what)
    labels = {kind["label"] for kind in kinds}
    assert {"name:deep_work", "name:shallow_work"} <= labels or {"name:deep_work-#",
                                                                 "name:shallow_work-#"} <= labels


@pytest.mark.parametrize("how", ["itself", "creator"])
def test_names_that_come_later_distinguish_kinds(tuned, compile_c, how):
    kinds = check(tuned, compile_c(NAMES, "gcc", "-O1", "-pthread"), how, runs=12)
    threads = {kind["label"]: int(kind["threads"]) for kind in kinds}
    assert threads["name:worker-#"] == 13 * (THREADS - 1) and threads["name:deep"] == 13
