# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs run under TEK with a filter that kills them for system calls that no service needs."""
import pathlib
import platform
import re
import subprocess
import sys

import pytest

from conftest import PATIENCE
from paths import PROGRAMS
from test_run_limits import MODES, PROGRAM

ALLOWED = PROGRAMS / "system-service.txt"
NUMBERS = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

# Installs a filter that allows the system calls with these numbers, and executes its other
# arguments.
FILTERED = """
import ctypes, os, struct, sys
LOAD, IS, RETURN = 0x20, 0x15, 0x06
KILL, ALLOW = 0x80000000, 0x7fff0000
X86_64 = 0xc000003e
# Loads the architecture, then the number.
program = [(LOAD, 0, 0, 4), (IS, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
for number in map(int, sys.argv[1].split(",")):
    program += [(IS, 0, 1, number), (RETURN, 0, 0, ALLOW)]
program.append((RETURN, 0, 0, KILL))
code = b"".join(struct.pack("<HBBI", *one) for one in program)
buffer = ctypes.create_string_buffer(code)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
filter = Filter(len(program), ctypes.addressof(buffer))
if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter), 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="session")
def filtered():
    """The command that runs its arguments under the filter."""
    if platform.machine() != "x86_64" or not NUMBERS.exists():
        pytest.skip("the numbers of system calls are known for x86-64, with linux-libc-dev")
    lines = [line for line in ALLOWED.read_text().splitlines() if not line.startswith("#")]
    names = set(" ".join(lines).split())
    numbers = re.findall(r"^#define __NR_(\w+)\s+(\d+)", NUMBERS.read_text(), re.MULTILINE)
    allowed = [number for name, number in numbers if name in names]
    command = [sys.executable, "-c", FILTERED, ",".join(allowed)]
    alone = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if alone.returncode != 0:
        pytest.skip("no program runs under the filter here: "
                    f"{alone.stderr.strip() or alone.returncode}")
    return command


@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_the_system_calls_of_a_service_are_enough(filtered, open_build, compile_c, tmp_path, mode):
    program = compile_c(PROGRAM, "cc", "-pthread")
    command = [*filtered, str(open_build / "bin" / "tek"), "run", *mode, "--", program]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE,
                           text=True, check=False, timeout=60 * PATIENCE,
                           env={"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(tmp_path)})
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr


# The system calls that the C library needs for threads; and all but a call that nothing needs.
TIGHT = """ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(futex), ALLOW(mmap),
	ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(brk),
	ALLOW(rt_sigreturn), ALLOW(rt_sigprocmask), ALLOW(clone), ALLOW(clone3),
	ALLOW(set_robust_list), ALLOW(rseq), ALLOW(newfstatat), ALLOW(clock_nanosleep),
	ALLOW(getrandom), ALLOW(prctl), ALLOW(restart_syscall),"""
LOOSE = """BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_reboot, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),"""

# Makes threads, confines itself to the calls that the C library needs for threads, and makes more.
CONFINES_ITSELF = r"""
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALLOW(call) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static const struct sock_filter steps[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	STEPS
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static void *work(void *argument)
{
	volatile char page[40000];
	prctl(PR_SET_NAME, "work");
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&mutex);
		free(malloc(100 + (size_t)i));
		pthread_mutex_unlock(&mutex);
		free(malloc(100 + (size_t)i));
	}
	memset((void *)page, 1, sizeof(page));
	pthread_barrier_wait(&barrier);
	return argument;
}
static int rounds(int count)
{
	pthread_t threads[4];
	while (count--) {
		for (int i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, work, NULL))
				return 1;
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	return 0;
}
int main(int argc, char **argv)
{
	struct sock_fprog filter = {sizeof(steps) / sizeof(steps[0]), (struct sock_filter *)steps};
	pthread_barrier_init(&barrier, NULL, 4);
	if (rounds(3))
		return 3;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 4;
	if (argc > 1
	    ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter)
	    : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 5;
	if (rounds(3))
		return 6;
	(void)argv;
	puts("all right");
	return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program's filter is for x86-64")
@pytest.mark.parametrize("mode", [mode for mode in MODES if "--model" not in mode] +
                         [["--critical", "work", "--stack", "auto", "--lock", "park", "--alloc",
                           "tlsf"],
                          ["--place", "rtfifo"], ["--lock", "auto", "--report"]], ids=" ".join)
@pytest.mark.parametrize("by", [[], ["seccomp"]], ids=["prctl", "seccomp"])
def test_a_program_that_confines_itself_is_not_killed_for_a_call_of_ours(open_build, compile_c,
                                                                         tmp_path, mode, by):
    program = compile_c(CONFINES_ITSELF.replace("STEPS", TIGHT), "cc", "-pthread")
    alone = subprocess.run([program, *by], capture_output=True, text=True, check=False,
                           timeout=60 * PATIENCE)
    if alone.stdout != "all right\n":
        pytest.skip(f"the C library makes other calls here: {alone.returncode}")
    ended = subprocess.run([str(open_build / "bin" / "tek"), "run", *mode, "--", program, *by],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True,
                           check=False, timeout=60 * PATIENCE,
                           env={"PATH": "/usr/bin:/bin", "TEK_STACK_PROFILES": str(tmp_path)})
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
    info = [line for line in ended.stderr.splitlines() if "seccomp filter" in line]
    assert len(info) == 1 and "goes on without TEK" in info[0], ended.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program's filter is for x86-64")
def test_a_filter_that_kills_for_no_call_of_ours_changes_nothing(open_build, compile_c):
    program = compile_c(CONFINES_ITSELF.replace("STEPS", LOOSE), "cc", "-pthread")
    ended = subprocess.run([str(open_build / "bin" / "tek"), "run", "--", program],
                           stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                           timeout=60 * PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "all right\n", "")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program's filter is for x86-64")
def test_a_program_that_writes_over_its_arguments_and_confines_itself_keeps_its_name(
        open_build, compile_c):
    titled = CONFINES_ITSELF.replace(
        "if (rounds(3))", "memset(argv[0], 'x', strlen(argv[0]));\n\tif (rounds(3))", 1)
    program = compile_c(titled.replace("STEPS", TIGHT), "cc", "-pthread")
    alone = subprocess.run([program], capture_output=True, text=True, check=False,
                           timeout=60 * PATIENCE)
    if alone.stdout != "all right\n":
        pytest.skip(f"the C library makes other calls here: {alone.returncode}")
    ended = subprocess.run([str(open_build / "bin" / "tek"), "run", "--", program],
                           stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                           timeout=60 * PATIENCE)
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
    assert f"a seccomp filter of {program.name} kills" in ended.stderr


# Refuses sched_setaffinity(2) with an error, then shows the CPUs of two threads.
UNPLACEABLE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *count_cpus(void *unused)
{
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	syscall(SYS_sched_getaffinity, 0, sizeof(cpus), &cpus);
	printf("%d\n", CPU_COUNT(&cpus));
	return unused;
}

int main(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(steps) / sizeof(steps[0]), steps};
	pthread_t thread;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 2;
	for (int i = 0; i < 2; i++) {
		if (pthread_create(&thread, NULL, count_cpus, NULL))
			return 3;
		pthread_join(thread, NULL);
	}
	count_cpus(NULL);
	return 0;
}
"""


def test_a_program_whose_filter_refuses_affinities_runs_as_without_places(tek, compile_c):
    program = compile_c(UNPLACEABLE, "cc", "-pthread")
    alone = subprocess.run([program], capture_output=True, text=True, check=True,
                           timeout=60 * PATIENCE)
    if alone.stdout.startswith("1\n"):
        pytest.skip("needs two CPUs")
    ended = tek("run", "--place", "spread", program)
    assert (ended.returncode, ended.stdout) == (0, alone.stdout), ended.stderr
    line, = ended.stderr.splitlines()
    assert "refuses sched_setaffinity" in line
