# SPDX-License-Identifier: MIT OR Apache-2.0
"""libtek-alloc.so in programs that fork, grow, and misuse it."""
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import BUILD

TEK = str(BUILD / "bin" / "tek")


def outcome(command, **options):
    options.setdefault("timeout", 120)
    ended = subprocess.run(command, capture_output=True, check=False, **options)
    return ended.returncode, ended.stdout, ended.stderr


GROWS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
int main(void)
{
	char *block = NULL;
	for (size_t bytes = 1 << 20; bytes <= (size_t)300 << 20; bytes += 1 << 20) {
		block = realloc(block, bytes);
		if (!block)
			return 1;
		memset(block + bytes - (1 << 20), (int)(bytes >> 20), 1 << 20);
	}
	for (size_t i = 1; i <= 300; i++)
		if (block[i * (1 << 20) - 1] != (char)i)
			return 2;
	free(block);
	/* Zero, and nobody has to write that. */
	static volatile size_t much = (size_t)1 << 30;
	block = (char *)calloc(1, much);
	if (!block || block[much / 2])
		return 3;
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", usage.ru_maxrss / 1024);
}
"""


def test_a_block_that_grows_and_zeroed_memory_take_no_more_than_they_have(compile_c):
    status, out, err = outcome([TEK, "run", "--alloc", "tlsf", "--", compile_c(GROWS, "cc", "-O1")],
                               text=True)
    assert (status, err) == (0, "")
    assert int(out) < 350


FORK_HANDLERS = r"""
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void take(void) { pthread_mutex_lock(&lock); free(malloc(70)); }
static void give(void) { free(malloc(300)); pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void start(void) { pthread_atfork(take, give, give); }
void work_under_the_lock(void)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 20; i++)
		free(malloc(i * 50));
	pthread_mutex_unlock(&lock);
}
"""

FORKS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void work_under_the_lock(void);
static void *work(void *unused)
{
	for (;;)
		work_under_the_lock();
	return unused;
}
int main(void)
{
	pthread_t threads[3];
	alarm(60);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 500; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			alarm(60);
			work_under_the_lock();
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			return 1;
	}
	return 0;
}
"""


@pytest.mark.parametrize("name", ["glibc", "tlsf", "pool=16M"])
def test_a_library_whose_fork_handlers_wait_for_one_that_allocates_does_not_hang(compile_c, name):
    library = compile_c(FORK_HANDLERS, "cc", "-shared", "-fPIC", "-pthread")
    program = compile_c(FORKS, "cc", "-pthread", "-Wl,--no-as-needed", str(library))
    assert outcome([TEK, "run", "--alloc", name, "--", program]) == (0, b"", b"")


IN_HANDLER = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int forks, failed;
static void churn(int times)
{
	static char *blocks[64];
	for (int i = 0; i < times; i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = (char *)malloc(i * 37 % 3000);
	}
}
static volatile pid_t child = 1;
static void handler(int number)
{
	if (child == 0 || forks++ >= 200)
		return;
	child = fork();
	if (child == 0) {
		/* Goes on where the parent was interrupted. */
		free(malloc(100));
		return;
	}
	int status = 0;
	waitpid(child, &status, 0);
	if (status)
		failed = status;
}
int main(void)
{
	struct itimerval often = {{0, 500}, {0, 500}};
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
	while (child && forks < 200)
		churn(500);
	churn(100000);
	return failed ? 1 : 0;
}
"""


@pytest.mark.parametrize("name", ["tlsf", "pool=16M"])
def test_a_child_that_a_signal_handler_forked_goes_on_with_what_was_interrupted(compile_c, name):
    program = compile_c(IN_HANDLER, "cc", "-O1")
    assert outcome([TEK, "run", "--alloc", name, "--", program]) == (0, b"", b"")


MISUSES = r"""
#include <stdlib.h>
#include <string.h>
static char area[4096] __attribute__((aligned(64)));
int main(int argc, char **argv)
{
	char *volatile block = (char *)malloc(100), *volatile other = (char *)malloc(100);
	char *volatile third = (char *)malloc(100);
	switch (argv[argc - 1][0]) {
	case 'f': free(area + 64); break;
	case 'r': block = (char *)realloc(area + 64, 5000); break;
	case 't': free(block); free(block); break;
	case 'w':
		free(block);
		free(third);
		memset(block, 0x40, 16);
		block = (char *)malloc(100);
		free(other);
		break;
	}
	return block != other;
}
"""


@pytest.mark.parametrize("name", ["tlsf", "pool=16M"])
@pytest.mark.parametrize("misuse, line",
                         [("f", "tek: free(0x"), ("r", "tek: realloc(0x"), ("t", "tek: free(0x"),
                          ("w", "the heap is damaged")])
def test_memory_that_the_program_does_not_have_ends_it_with_a_line(compile_c, name, misuse, line):
    program = compile_c(MISUSES, "cc", "-O0", "-w")
    status, out, err = outcome([TEK, "run", "--alloc", name, "--", program, misuse], text=True)
    assert (status, out) == (-signal.SIGABRT, ""), err
    assert err.count("\n") == 1 and line in err


def test_a_pool_larger_than_memory_is_refused_before_the_system_runs_out_of_it():
    available = int(re.search(r"MemAvailable:\s+(\d+) kB",
                              pathlib.Path("/proc/meminfo").read_text())[1])
    size = f"pool={available // 1024 + 4096}M"
    status, out, err = outcome([TEK, "run", "--alloc", size, "--", "echo", "ran"], text=True)
    assert (status, out) == (0, "ran\n")
    assert "no memory for a pool" in err
