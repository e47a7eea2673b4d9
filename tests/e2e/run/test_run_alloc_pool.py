# SPDX-License-Identifier: MIT OR Apache-2.0
"""libtek-alloc.so: bounded time, and a pool that is in memory."""
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, complaint_of_compiler, needs
from paths import TOP

TEK = str(BUILD / "bin" / "tek")


def outcome(command, **options):
    options.setdefault("timeout", 120)
    ended = subprocess.run(command, capture_output=True, check=False, **options)
    return ended.returncode, ended.stdout, ended.stderr


ALLOCATES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	char *blocks[1000];
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 1000; i++) {
			if (!(blocks[i] = malloc(i * 7)) || (unsigned long)blocks[i] % 16)
				return 1;
			memset(blocks[i], i, i * 7);
		}
		for (int i = 0; i < 1000; i++)
			free(blocks[i * 37 % 1000]);
	}
	static volatile size_t much = 100 << 20;
	puts(malloc(much) ? "much" : "no more");
}
"""


@pytest.mark.parametrize("bits", [[], ["-m32"]], ids=["64 bits", "32 bits"])
def test_a_pool_is_all_there_is_and_tlsf_grows(compile_c, bits, request):
    if bits:
        request.getfixturevalue("library_32")
    program = compile_c(ALLOCATES, "cc", *bits)
    assert outcome([TEK, "run", "--alloc", "tlsf", "--", program], text=True) == (0, "much\n", "")
    status, out, err = outcome([TEK, "run", "--alloc", "pool=8M", "--", program], text=True)
    assert (status, out) == (0, "no more\n")
    assert err.count("the pool of 8M is used up") == 1


FAULTS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
static long faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}
static char *blocks[2000];
static unsigned int seed = 1;
static void work(int steps)
{
	for (int i = 0; i < steps; i++) {
		seed = seed * 1664525u + 1013904223u;
		char **block = &blocks[(seed >> 8) % 2000];
		size_t bytes = (seed >> 20) % (i % 10 ? 500 : 40000);
		free(*block);
		*block = malloc(bytes + 1);
		memset(*block, i, bytes + 1);
	}
}
int main(void)
{
	memset(blocks, 0, sizeof(blocks));
	faults();
	work(10); /* the functions themselves are paged in */
	long before = faults();
	work(100000);
	printf("%ld\n", faults() - before);
	fflush(stdout);
}
"""


@pytest.mark.parametrize("compiler",
                         [["cc"], ["g++", "-x", "c++", "-fpermissive", "-w", "-Wl,--no-as-needed"]],
                         ids=["C", "C++, whose library allocates first"])
def test_the_kernel_changes_no_page_table_once_a_program_with_a_pool_runs(compile_c, compiler):
    program = compile_c(FAULTS, needs(compiler[0]), *compiler[1:], "-O1", "-Wl,-z,now")

    def faults(name):
        status, out, err = outcome([TEK, "run", "--alloc", name, "--", program], text=True)
        assert status == 0, err
        return int(out)

    assert faults("tlsf") > 100
    # The kernel may move a page in between; then its next use faults.
    assert 0 in (faults("pool=64M") for _ in range(3))


def test_a_pool_is_locked_or_the_failure_is_reported(compile_c, as_nobody, open_build):
    program = compile_c('#include <stdio.h>\nint main(void) { char line[200]; FILE *f = '
                        'fopen("/proc/self/status", "r"); while (fgets(line, 200, f)) if (line[2] '
                        '== '
                        "'L' && line[3] == 'c') puts(line); return 0; }", "cc")
    command = [str(open_build / "bin" / "tek"), "run", "--alloc", "pool=32M", "--", program]
    status, out, err = outcome(command, text=True)
    if "not locked" not in err:
        assert int(re.search(r"VmLck:\s+(\d+) kB", out)[1]) >= 32 * 1024
    limited = ["sh", "-c", 'ulimit -l 64 && exec "$@"', "sh"]
    status, out, err = outcome([*as_nobody, *limited, *command], text=True)
    assert status == 0 and "present but not locked" in err and "ulimit -l" in err


# Only measured() is counted; the argument sets the number of blocks that the heap has before.
BOUNDED = r"""
#include "alloc/tlsf.h"
#include <stdio.h>
#include <stdlib.h>
static struct tek_tlsf heap;
static char memory[64 << 20];
static void *kept[200000];
__attribute__((noinline)) void measured(unsigned int seed)
{
	void *blocks[16];
	for (int i = 0; i < 16; i++) {
		seed = seed * 1664525u + 1013904223u;
		blocks[i] = tek_alloc__tlsf_allocate_aligned(&heap, (size_t)16 << (seed >> 29),
							     (seed >> 12) % 5000);
	}
	for (int i = 0; i < 16; i++)
		tek_alloc__tlsf_free(&heap, blocks[i * 7 % 16]);
}
int main(int argc, char **argv)
{
	unsigned int seed = 1, count = atoi(argv[argc - 1]);
	tek_alloc__tlsf_add(&heap, memory, sizeof(memory));
	for (unsigned int i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		if (!(kept[i] = tek_alloc__tlsf_allocate(&heap, (seed >> 16) % 400)))
			return 1;
	}
	for (unsigned int i = 0; i < count; i += 2) /* thousands of holes, of all sizes */
		tek_alloc__tlsf_free(&heap, kept[i]);
	for (unsigned int i = 0; i < 50; i++)
		measured(i);
}
"""


@pytest.fixture(scope="session")
def bounded(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bounded")
    command = ["cc", "-std=gnu17", "-O2", "-g", f"-I{TOP / 'lib'}",
               str(TOP / "lib" / "alloc" / "tlsf.c")]
    program = directory / "bounded"
    assert not complaint_of_compiler(BOUNDED, command, program)
    return program


def instructions(program, blocks, directory):
    """The cost of the measured calls, by valgrind: it counts, whatever load the machine has."""
    counted = directory / f"counted.{blocks}"
    subprocess.run([needs("valgrind"), "--tool=callgrind", "--collect-atstart=no",
                    "--toggle-collect=measured",
                    f"--callgrind-out-file={counted}", str(program), str(blocks)],
                   check=True, timeout=280, capture_output=True)
    return int(re.search(r"^(?:summary|totals): (\d+)", counted.read_text(), re.MULTILINE)[1])


def test_an_operation_takes_as_many_instructions_in_a_full_heap_as_in_an_empty_one(bounded,
                                                                                   tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    empty, some, many = (instructions(bounded, blocks, tmp_path) for blocks in (0, 100, 200000))
    calls = 50 * 32
    assert max(empty, some, many) / calls < 250
    assert max(some, many) < 1.3 * empty
