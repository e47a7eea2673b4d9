# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the kernel refuses timers, programs are told that threads are not interrupted, and run."""
import os
import platform
import resource
import subprocess

import pytest

from conftest import BUILD

LIBRARY = BUILD / "lib" / "libtek-uthread.so"

# Three threads that meet at a lock and in a pipe; then one is sent a signal while another one waits for it.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2], sum;
static sem_t handled;

static void handle(int number)
{
	(void)number;
	sem_post(&handled);
}

static void *work(void *argument)
{
	char byte = 0;
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&lock);
		sum++;
		pthread_mutex_unlock(&lock);
		if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
			return NULL;
	}
	return argument;
}

int main(void)
{
	pthread_t threads[3];

	if (pipe(ends))
		return 2;
	sem_init(&handled, 0, 0);
	signal(SIGUSR1, handle);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	kill(getpid(), SIGUSR1);
	while (sem_wait(&handled) != 0)
		;
	printf("%d\n", sum);
	return 0;
}
"""

# Runs a program for which timer_create(2) fails with EPERM.
FILTER = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_timer_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(lines) / sizeof(lines[0]), lines};

	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 77;
	setenv("LD_PRELOAD", argv[1], 1);
	execv(argv[2], argv + 2);
	return 78;
}
""".replace("#include <stddef.h>", "#include <stddef.h>\n#include <stdlib.h>")


@pytest.fixture(scope="session", autouse=True)
def library():
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: run `make build`")


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(PROGRAM, "cc", "-O1", "-pthread")


def run(command, options, **further):
    environment = {**os.environ, "TEK_UTHREAD": options, **further.pop("env", {})}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60,
                           check=False, **further)
    assert (ended.returncode, ended.stdout) == (0, "300\n"), ended.stderr
    return ended.stderr.splitlines()


def without_pending_signals():
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))


@pytest.mark.parametrize("options", ["workers=1", "workers=2", "workers=2,preempt=klt"])
def test_a_limit_of_waiting_signals_is_named_once(program, options):
    (line,) = run([program], options, env={"LD_PRELOAD": str(LIBRARY)},
                  preexec_fn=without_pending_signals)
    assert line.startswith("tek: ") and "user-level threads are not preempted: timer_create: " in line
    assert f"`prlimit --pid {os.getpid()} --sigpending=65536:65536`" in line


@pytest.mark.parametrize("options", ["workers=1", "workers=2"])
def test_a_filter_of_system_calls_is_named_once(program, compile_c, options):
    wrapper = compile_c(FILTER, "cc")
    (line,) = run([wrapper, LIBRARY, program], options)
    assert "user-level threads are not preempted: timer_create: Operation not permitted" in line
    assert "seccomp" in line


@pytest.mark.parametrize("refused", [False, True])
def test_nothing_is_said_where_nothing_is_refused_or_wanted(program, refused):
    assert run([program], "workers=2,preempt=off" if refused else "workers=2",
               env={"LD_PRELOAD": str(LIBRARY)},
               preexec_fn=without_pending_signals if refused else None) == []
