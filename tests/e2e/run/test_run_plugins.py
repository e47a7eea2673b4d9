# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs run under TEK that open libraries: by the directories of the caller's file, and with
RTLD_DEEPBIND."""
import os
import shutil
import subprocess

import pytest

from conftest import PATIENCE

pytestmark = pytest.mark.spread

# A library that shares a mutex and a block of memory with its program, and has a function of the
# same name.
PLUGIN = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
const char *which(void) { return "the library's"; }
const char *asked(void) { return which(); }
void *make(void) { return strcpy(malloc(100000), "made by the library"); }
void drop(void *block) { free(block); }
int lock(pthread_mutex_t *mutex) { return pthread_mutex_lock(mutex); }
int unlock(pthread_mutex_t *mutex) { return pthread_mutex_unlock(mutex); }
"""
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *library;
static long counter;
const char *which(void) { return "the program's"; }
static void *count(void *argument)
{
	int (*lock)(pthread_mutex_t *) = dlsym(library, "lock");
	int (*unlock)(pthread_mutex_t *) = dlsym(library, "unlock");
	for (int i = 0; i < 20000; i++) {
		(i % 2 ? lock : pthread_mutex_lock)(&mutex);
		counter++;
		(i % 2 ? pthread_mutex_unlock : unlock)(&mutex);
	}
	return argument;
}
int main(int argc, char **argv)
{
	pthread_t threads[3];
	library = dlopen(argv[1], RTLD_NOW | (argc > 2 ? RTLD_DEEPBIND : 0));
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 3;
	void *(*make)(void) = dlsym(library, "make");
	void (*drop)(void *) = dlsym(library, "drop");
	const char *(*asked)(void) = dlsym(library, "asked");
	for (int i = 0; i < 100; i++) {
		free(make());
		drop(malloc(100 + (size_t)i * 1000));
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, count, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%ld %s\n", counter, asked());
	return 0;
}
"""


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(PROGRAM, "cc", "-w", "-rdynamic", "-pthread",
                     "-Wl,--enable-new-dtags,-rpath,$ORIGIN/plugins")


@pytest.fixture(scope="session")
def plugin(open_directory, program, compile_c):
    directory = open_directory / "plugins"
    directory.mkdir()
    return compile_c(PLUGIN, "cc", "-shared", "-fPIC").rename(directory / "libplugin.so")


def run(open_build, program, *arguments):
    ended = subprocess.run([str(open_build / "bin" / "tek"), "run", *map(str, arguments)],
                           stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                           timeout=60 * PATIENCE, cwd="/",
                           env={**os.environ, "LD_LIBRARY_PATH": ""})
    if "apt-get" in ended.stderr and "install" in ended.stderr:
        pytest.skip(ended.stderr)
    return ended


REPLACING = [["--alloc", "tlsf"], ["--alloc", "pool=16M"], ["--alloc", "mimalloc"],
             ["--alloc", "jemalloc"],
             ["--alloc", "tcmalloc"], ["--lock", "park"], ["--model", "m:1"],
             ["--model", "m:n", "--workers", "2"],
             ["--model", "m:1", "--alloc", "tlsf"]]


@pytest.mark.parametrize("mode", REPLACING, ids=" ".join)
def test_a_library_does_not_bind_past_replaced_functions(open_build, program, plugin, mode):
    ended = run(open_build, program, *mode, "--", program, plugin, "deep")
    assert (ended.returncode, ended.stdout) == (0, "60000 the program's\n"), ended.stderr
    info = [line for line in ended.stderr.splitlines() if "RTLD_DEEPBIND" in line]
    assert (len(info) == 1
            and "libplugin.so is loaded without RTLD_DEEPBIND" in info[0]), ended.stderr


@pytest.mark.parametrize("mode", [[], ["--critical", "work"], ["--stack", "auto"],
                                  ["--alloc", "glibc"]], ids=" ".join)
def test_where_none_are_replaced_it_binds_as_it_asked(open_build, program, plugin, mode):
    ended = run(open_build, program, *mode, "--", program, plugin, "deep")
    assert (ended.returncode, ended.stdout) == (0, "60000 the library's\n"), ended.stderr
    assert "RTLD_DEEPBIND" not in ended.stderr


@pytest.mark.parametrize("mode", [[], *REPLACING], ids=" ".join)
@pytest.mark.parametrize("name", ["libplugin.so", "$ORIGIN/plugins/libplugin.so"])
def test_a_library_is_found_in_the_directories_of_its_opener(open_build, program, plugin,
                                                             mode, name):
    ended = run(open_build, program, *mode, "--", program, name)
    assert (ended.returncode, ended.stdout) == (0, "60000 the program's\n"), ended.stderr


# Variables in the block that each thread has from its start.
IN_BLOCK = r"""
static __thread volatile int value __attribute__((tls_model("initial-exec"))) = 42;
int get(void) { return value; }
"""
OPENS_LATE = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
static sem_t go, done;
static int (*get)(void);
static void *wait_and_read(void *argument)
{
	sem_wait(&go);
	printf("%d ", get());
	sem_post(&done);
	return argument;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&thread, NULL, wait_and_read, NULL);
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 3;
	get = (int (*)(void))dlsym(library, "get");
	printf("%d ", get());
	sem_post(&go);
	sem_wait(&done);
	pthread_join(thread, NULL);
	printf("%s\n", dlerror() ? "an error" : "");
	return argc * 0;
}
"""


@pytest.mark.parametrize("mode", [[], ["--model", "m:1"], ["--model", "m:n", "--workers", "2"]],
                         ids=" ".join)
@pytest.mark.parametrize("tags", ["enable-new-dtags", "disable-new-dtags"])
@pytest.mark.parametrize("name",
                         ["libblock.so", "$ORIGIN/late/libblock.so", "{directory}/libblock.so"])
def test_variables_of_a_library_that_is_opened_late_are_there_in_threads_that_are(
        open_build, open_directory, compile_c,
                                                                                  mode, tags, name):
    directory = open_directory / "late"
    if not directory.exists():
        directory.mkdir()
        compile_c(IN_BLOCK, "cc", "-shared", "-fPIC").rename(directory / "libblock.so")
    program = compile_c(OPENS_LATE, "cc", "-w", "-pthread", f"-Wl,--{tags},-rpath,$ORIGIN/late")
    ended = run(open_build, program, *mode, "--", program, name.format(directory=directory))
    assert (ended.returncode, ended.stdout) == (0, "42 42 \n"), ended.stderr


NAMED = 'const char *asked(void) { return "%s"; }'
ASKS = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 3;
	printf("%s\n", ((const char *(*)(void))dlsym(library, "asked"))());
	return argc * 0;
}
"""


@pytest.mark.parametrize("mode", [["--model", "m:1"], ["--model", "m:n", "--workers", "2"]],
                         ids=" ".join)
def test_a_library_is_the_variant_that_the_loader_prefers(open_build, open_directory,
                                                          compile_c, mode):
    directory = open_directory / "variants"
    if not directory.exists():
        directory.mkdir()
        compile_c(NAMED % "usual", "cc", "-shared", "-fPIC").rename(directory / "libvariant.so")
        preferred = compile_c(NAMED % "preferred", "cc", "-shared", "-fPIC")
        for variant in ("x86-64-v2", "power9", "z13"):
            (directory / "glibc-hwcaps" / variant).mkdir(parents=True)
            shutil.copy(preferred, directory / "glibc-hwcaps" / variant / "libvariant.so")
    program = compile_c(ASKS, "cc", "-w", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/variants")
    alone = subprocess.run([program, "libvariant.so"], capture_output=True, text=True, check=True)
    if alone.stdout != "preferred\n":
        pytest.skip("the loader here prefers no variant")
    ended = run(open_build, program, *mode, "--", program, "libvariant.so")
    assert (ended.returncode, ended.stdout) == (0, "preferred\n"), ended.stderr


# A second C library: its functions use thread-local variables of its own.
OPENS_C_LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
static sem_t go;
static long (*number)(const char *, char **, int);
static void *wait_and_read(void *argument)
{
	sem_wait(&go);
	return (void *)number(argument, NULL, 10);
}
static void *open_and_read(void *name)
{
	if (dlmopen(LM_ID_NEWLM, "libnone.so", RTLD_NOW) || !strstr(dlerror(), "libnone.so"))
		return NULL;
	void *library = dlmopen(LM_ID_NEWLM, name, RTLD_NOW);
	number = library ? (long (*)(const char *, char **, int))dlsym(library, "strtol") : NULL;
	return (void *)(number ? number("7", NULL, 10) : 0);
}
int main(int argc, char **argv)
{
	pthread_t before, opener, after;
	void *results[3];
	sem_init(&go, 0, 0);
	pthread_create(&before, NULL, wait_and_read, " 42");
	if (argc > 1 && pthread_create(&opener, NULL, open_and_read, LIBC_SO) == 0)
		pthread_join(opener, &results[0]);
	else
		results[0] = open_and_read(LIBC_SO);
	if (!results[0])
		return fprintf(stderr, "%s\n", dlerror()), 3;
	pthread_create(&after, NULL, wait_and_read, "\t43");
	sem_post(&go);
	sem_post(&go);
	pthread_join(before, &results[1]);
	pthread_join(after, &results[2]);
	printf("%ld %ld %ld %ld\n", (long)results[0], number("8", NULL, 10), (long)results[1],
	       (long)results[2]);
	return argv[0] == NULL;
}
"""


@pytest.mark.parametrize("mode", [[], *REPLACING], ids=" ".join)
@pytest.mark.parametrize("opener", [[], ["thread"]], ids=["first", "other"])
def test_a_second_c_library_works_in_all_threads(open_build, compile_c, mode, opener):
    program = compile_c(OPENS_C_LIBRARY, "cc", "-w", "-pthread")
    ended = run(open_build, program, *mode, "--", program, *opener)
    assert (ended.returncode, ended.stdout) == (0, "7 8 42 43\n"), ended.stderr
