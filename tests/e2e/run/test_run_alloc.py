# SPDX-License-Identifier: MIT OR Apache-2.0
"""Unmodified programs run with other allocators: same results."""
import functools
import os
import pathlib
import platform
import re
import subprocess
import sys

import pytest
from conftest import BUILD, eventually, listens_at, needs

pytestmark = pytest.mark.spread

TEK = str(BUILD / "bin" / "tek")

FILES = {
    "glibc": None,
    "mimalloc": "libmimalloc.so",
    "jemalloc": "libjemalloc.so",
    "tcmalloc": "libtcmalloc",
    "tlsf": "libtek-alloc.so",
    "pool=128M": "libtek-alloc.so",
}

# Prefixes of their names: each release of Debian has its own names.
PACKAGES = {"mimalloc": "libmimalloc", "jemalloc": "libjemalloc2",
            "tcmalloc": "libtcmalloc-minimal4"}

MODELS = {"1:1": [], "m:1": ["--model", "m:1", "--quantum", "1ms"],
          "m:n": ["--model", "m:n", "--workers", "2", "--quantum", "1ms"]}


def outcome(command, **options):
    options.setdefault("timeout", 120)
    ended = subprocess.run(command, capture_output=True, check=False, **options)
    return ended.returncode, ended.stdout, ended.stderr


@functools.cache
def plain(*command):
    """The result of a program without TEK, the same each time."""
    return outcome(command)


def maps_of(*options):
    """The files that a program has under `tek run` with these options."""
    status, out, err = outcome([TEK, "run", *options, "--", "cat", "/proc/self/maps"], text=True)
    assert status == 0, err
    return out


@pytest.fixture(params=FILES)
def alloc(request):
    """The option for an allocator that is installed."""
    name = request.param
    status, _, err = outcome([TEK, "run", "--alloc", name, "--", "true"], text=True)
    if status and name in PACKAGES:
        assert re.search(rf"apt-get install {PACKAGES[name]}|have no package", err), err
        pytest.skip(err)
    assert status == 0, err
    return ["--alloc", name]


@pytest.fixture(params=MODELS)
def model(request):
    """The options for kernel threads or user-level threads."""
    if request.param != "1:1" and platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    return MODELS[request.param]


def test_the_allocator_that_was_asked_for_is_in_the_program_and_behind_libtek(alloc):
    maps = maps_of(*alloc)
    for name in {file for file in FILES.values() if file}:
        assert (name in maps) == (name == FILES[alloc[1]])
    _, out, _ = outcome([TEK, "run", *alloc, "--", "sh", "-c", "echo $LD_PRELOAD"], text=True)
    assert out.strip().split(":")[0].endswith("/libtek.so")


def test_python_with_threads_computes_the_same(alloc, model):
    program = """
import threading
results = [None] * 20
def work(n):
    lists = {}
    for i in range(3000):
        lists[i] = [str(i * n)] * (i % 50)
    results[n] = sum(len(lists.pop(i)) for i in list(lists)) + n
threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results)
raise SystemExit(7)
"""
    command = [sys.executable, "-c", program]
    assert outcome([TEK, "run", *model, *alloc, "--", *command]) == plain(*command)


def test_xz_with_two_threads_compresses_to_the_same_bytes(data, alloc, model):
    command = [needs("xz"), "-0", "-T2", "-c", str(data)]
    assert outcome([TEK, "run", *model, *alloc, "--", *command]) == plain(*command)


def test_pigz_compresses_to_the_same_bytes(data, alloc):
    command = [needs("pigz"), "-1", "-n", "-c", "-p", "4", str(data)]
    assert outcome([TEK, "run", *alloc, "--", *command]) == plain(*command)


def test_redis_answers(alloc, tmp_path):
    path = tmp_path / "redis.sock"
    server = subprocess.Popen(
        [TEK, "run", *alloc, "--", needs("redis-server"), "--port", "0", "--unixsocket", str(path),
         "--save", "",
         "--dir", str(tmp_path), "--io-threads", "2"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    client = [needs("redis-cli"), "-s", str(path)]
    try:
        eventually(lambda: listens_at(path))
        for number in range(3):
            value = "x" * 10 ** (2 * number)
            assert outcome([*client, "-x", "set", f"key{number}"],
                           input=value.encode())[1] == b"OK\n"
            assert outcome([*client, "get", f"key{number}"], text=True)[1] == value + "\n"
        outcome([*client, "flushall"])
        outcome([*client, "shutdown", "nosave"])
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()
        server.wait()


# Functions that only jemalloc has. As jemalloc(3) allows, free() gets their blocks, and they get
# those of malloc().
MALLOCX = r"""
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *mallocx(size_t, int);
void *rallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int);
size_t sallocx(const void *, int);
size_t nallocx(size_t, int);
void dallocx(void *, int);
void sdallocx(void *, size_t, int);
enum { ALIGN_4096 = 12, ZERO = 0x40 };

static void check(int holds, const char *what)
{
	if (!holds) {
		puts(what);
		exit(1);
	}
}

int main(void)
{
	for (size_t size = 1; size < 5000000; size = size * 3 + 1) {
		char *block = mallocx(size, ZERO);
		check(block && malloc_usable_size(block) >= size && sallocx(block, 0) >= size,
		      "usable");
		for (size_t i = 0; i < malloc_usable_size(block); i++)
			check(block[i] == 0, "zero");
		memset(block, 1, malloc_usable_size(block));
		size_t had = malloc_usable_size(block);
		block = rallocx(block, 2 * had, ZERO);
		for (size_t i = 0; i < sallocx(block, 0); i++)
			check(block[i] == (i < had), "rallocx");
		check(xallocx(block, size, 0, 0) >= size, "xallocx");
		free(block);

		block = mallocx(size, ALIGN_4096);
		check((uintptr_t)block % 4096 == 0, "aligned");
		memset(block, 2, size);
		block = rallocx(block, size + 100, ALIGN_4096);
		check((uintptr_t)block % 4096 == 0 && block[0] == 2 && block[size - 1] == 2,
		      "aligned again");
		check(nallocx(size, 0) >= size, "nallocx");
		block = realloc(block, size + 5000);
		check(block[size - 1] == 2, "realloc");
		dallocx(block, 0);
		sdallocx(malloc(size), size, 0);
	}
	puts("all");
	return 0;
}
"""


def test_a_program_that_calls_jemalloc_by_its_own_functions_has_one_allocator(alloc, compile_c):
    jemalloc = list(pathlib.Path("/usr/lib").glob(f"{platform.machine()}*/libjemalloc.so.2"))
    if not jemalloc:
        pytest.skip("needs libjemalloc2")
    program = compile_c(MALLOCX, "cc", "-Wl,--no-as-needed", str(jemalloc[0]))
    status, out, err = outcome([TEK, "run", *alloc, "--", program], text=True)
    assert (status, out) == (0, "all\n"), err
    assert ("with its own allocator" in err) == (alloc[1] in ("mimalloc", "tcmalloc"))


ALIGNED = r"""
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
void *mallocx(size_t, int) __attribute__((weak));
void *rallocx(void *, size_t, int) __attribute__((weak));
enum { ALIGN_1_GB = 30, ZERO = 0x40 };
int main(void)
{
	struct rusage used;
	char *block = mallocx(100, ALIGN_1_GB | ZERO);
	if (!block || block[0] || block[99])
		return 1;
	memset(block, 1, 100);
	block = rallocx(block, 5000, ALIGN_1_GB | ZERO);
	if (!block || block[99] != 1 || block[4999])
		return 2;
	getrusage(RUSAGE_SELF, &used);
	puts(used.ru_maxrss < 100000 ? "untouched" : "touched");
	return 0;
}
"""


def test_a_zeroed_block_with_a_large_alignment_takes_little_memory(tek, compile_c):
    program = compile_c(ALIGNED, "gcc", "-fPIE", "-pie")
    ended = tek("run", "--alloc", "tlsf", "--", program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "untouched\n", "")


CXX = r"""
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>
struct alignas(ALIGNMENT) wide { char bytes[ALIGNMENT]; };
int main(int argc, char **)
{
	std::vector<std::thread> threads;
	std::mutex lock;
	std::map<std::string, std::unique_ptr<wide>> all;
	for (int n = 0; n < 8; n++)
		threads.emplace_back([&, n] {
			for (int i = 0; i < 2000; i++) {
				auto one = std::make_unique<wide>();
				if (reinterpret_cast<unsigned long>(one.get()) % ALIGNMENT)
					std::abort();
				std::string name = std::to_string(n * 10000 + i % 500);
				name += std::string(i % 90, 'x');
				std::lock_guard<std::mutex> guard(lock);
				all[name] = std::move(one);
			}
		});
	for (auto &thread : threads)
		thread.join();
	if (argc > 1)
	try {
		static volatile unsigned long huge = ~0ul / 2;
		std::vector<char> none(huge - 1000);
		return 1;
	} catch (const std::exception &) {
	}
	std::printf("%zu\n", all.size());
}
"""


@pytest.fixture(scope="module")
def cxx_programs(tmp_path_factory):
    """The program by the alignment of its allocations."""
    directory = tmp_path_factory.mktemp("cxx")
    source = directory / "program.cpp"
    source.write_text(CXX)
    for alignment in (64, 256):
        built = subprocess.run([needs("g++"), "-std=c++17", "-O1", "-pthread",
                                f"-DALIGNMENT={alignment}", source,
                                "-o", directory / str(alignment)], timeout=120, capture_output=True,
                               text=True,
                               check=False)
        assert built.returncode == 0, built.stderr
    return {alignment: directory / str(alignment) for alignment in (64, 256)}


def test_a_program_of_cxx_gets_aligned_memory_and_bad_alloc(cxx_programs, alloc, model):
    command = [cxx_programs[256], "throw"]
    if "mimalloc" in alloc:
        # Debian's 2.0.9 assumes that aligned_alloc(256, 256) is aligned anyhow, and aborts where
        # operator new should throw.
        command = [cxx_programs[64]]
    expected = plain(*command)
    assert expected[0] == 0
    assert outcome([TEK, "run", *model, *alloc, "--", *command]) == expected


def test_an_allocator_that_is_not_installed_is_named_with_its_package(compile_c):
    program = compile_c("int main(void) { return 0; }", "cc", "-m32")
    status, _, err = outcome([TEK, "run", "--alloc", "mimalloc", "--", program], text=True)
    if status == 0:
        pytest.skip("mimalloc is installed for i386")
    if "word size" in err:
        pytest.skip("the library for 32-bit programs is not built (gcc-multilib)")
    assert status == 2 and re.search(r"apt-get install libmimalloc[\d.]+:i386$", err), err


def test_a_child_in_another_allocators_run_has_the_inner_one():
    inner = [TEK, "run", "--alloc", "tlsf", "--", "cat", "/proc/self/maps"]
    status, out, err = outcome([TEK, "run", "--alloc", "pool=4M", "--", *inner], text=True)
    assert status == 0, err
    assert "libtek-alloc.so" in out
    inner[3] = "glibc"
    status, out, err = outcome([TEK, "run", "--alloc", "tlsf", "--", *inner], text=True)
    assert (status, "libtek-alloc.so" in out) == (0, False), err


def test_programs_that_cannot_have_libtek_do_not_get_the_allocator_either(compile_c):
    program = compile_c("int main(void) { return 0; }", "musl-gcc")
    command = [TEK, "run", "--alloc", "tlsf", "--", "sh", "-c", f"{program} && echo ran"]
    status, out, err = outcome(command, text=True)
    assert (status, out) == (0, "ran\n"), err


@pytest.mark.parametrize("wrong",
                         ["malloc", "TLSF", "pool", "pool=", "pool=1", "pool=64m", "pool=1T", ""])
def test_what_is_no_allocator_is_refused_and_nothing_runs(tek, wrong):
    refused = tek("run", "--alloc", wrong, "--", "echo", "ran")
    assert (refused.returncode, refused.stdout) == (2, "")
    if not wrong:
        return
    refused = tek("run", "--", "echo", "ran", env={**os.environ, "TEK_ALLOC": wrong})
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pool=SIZE" in refused.stderr


def test_the_library_alone_reports_what_it_does_not_understand_and_works(open_build):
    environment = {**os.environ, "LD_PRELOAD": str(open_build / "lib" / "libtek-alloc.so"),
                   "TEK_ALLOC": "pool=x"}
    status, out, err = outcome(["cat", "/proc/self/maps"], env=environment, text=True)
    assert (status, "libtek-alloc.so" in out) == (0, True)
    assert err.count("TEK_ALLOC is not understood and ignored: pool=x") == 1


def test_a_pool_that_a_32_bit_program_cannot_have_is_refused(tek, compile_c):
    program = compile_c('#include <stdio.h>\nint main(void) { puts("ran"); }', "cc", "-m32")
    ran = tek("run", "--alloc", "pool=2G", "--", program)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "1G at most" in ran.stderr, ran.stderr


def test_a_program_with_threadsanitizer_keeps_its_own_allocator(tek, compile_c, alloc):
    program = compile_c('#include <stdio.h>\nint main(void) { puts("ran"); }', "gcc",
                        "-fsanitize=thread")
    direct = tek("run", *alloc, program)
    by_shell = tek("run", *alloc, "sh", "-c", f"{program}; true")
    assert direct.stdout == by_shell.stdout == "ran\n", (direct, by_shell)
    if alloc != ["--alloc", "glibc"]:
        assert "it runs, but with its own allocator" in direct.stderr
        assert "is built with ThreadSanitizer" in by_shell.stderr


FUTEXES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
/* An allocator that never frees, with a lock of its own. It must not be entered again. */
static _Alignas(4096) char memory[256 << 20];
static size_t used;
static atomic_uint lock;
static __thread int inside __attribute__((tls_model("initial-exec")));
void *aligned_alloc(size_t alignment, size_t bytes)
{
	if (inside) {
		static const char text[] = "entered again\n";
		write(2, text, sizeof(text) - 1);
		_exit(9);
	}
	inside = 1;
	while (atomic_exchange(&lock, 2) != 0)
		syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	for (volatile int i = 0; i < 2000; i++)
		;
	size_t at = (used + alignment - 1) / alignment * alignment;
	used = at + bytes;
	atomic_store(&lock, 0);
	syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	inside = 0;
	return used <= sizeof(memory) ? memory + at : NULL;
}
void *malloc(size_t bytes)
{
	size_t *block = aligned_alloc(16, bytes + 16);
	return block ? *block = bytes, block + 2 : NULL;
}
void *calloc(size_t count, size_t bytes)
{
	return malloc(count * bytes); /* it was never used before */
}
void *realloc(void *old, size_t bytes)
{
	void *new = malloc(bytes);
	if (old && new)
		memcpy(new, old, ((size_t *)old)[-2] < bytes ? ((size_t *)old)[-2] : bytes);
	return new;
}
void free(void *block)
{
	(void)block;
}
#define THREADS 24
static void *work(void *argument)
{
	for (int i = 0; i < 2000; i++)
		if (!malloc(32))
			return argument;
	return NULL;
}
int main(void)
{
	pthread_t threads[THREADS];
	void *failed, *any = NULL;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, &threads[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		any = failed ? failed : any;
	}
	puts(any ? "no memory" : "all right");
}
"""


@pytest.mark.parametrize("preempt", [[], ["--preempt", "off"]], ids=["preempted", "cooperative"])
@pytest.mark.parametrize("workers", ["1", "2", "4"])
def test_an_allocator_that_waits_by_futex_is_not_entered_again(compile_c, workers, preempt):
    program = compile_c(FUTEXES, "gcc", "-pthread")
    ended = outcome([TEK, "run", "--model", "m:n", "--workers", workers, *preempt, "--", program])
    assert ended[:2] == (0, b"all right\n"), ended
