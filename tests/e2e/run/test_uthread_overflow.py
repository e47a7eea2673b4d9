# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user-level thread that runs out of its stack is named; then all goes on as without TEK."""
import os
import platform
import re
import signal
import subprocess

import pytest

from conftest import BUILD, INCLUDE

LIBRARY = BUILD / "lib" / "libtek-uthread.so"

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static sigjmp_buf recovery;
static volatile int *volatile nowhere;
static char alternate[65536];

int recurse_for_ever(volatile int depth)
{
	return depth ? recurse_for_ever(depth + 1) + depth : 0;
}

static int is_on_alternate_stack(void)
{
	stack_t stack;
	return sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK);
}

static void end_well(int number, siginfo_t *info, void *context)
{
	(void)context;
	int right = number == SIGSEGV && info->si_code > 0 && info->si_addr;
	_exit(right && is_on_alternate_stack() ? 7 : 8);
}

static void recover(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	if (info->si_addr || is_on_alternate_stack())
		_exit(9);
	siglongjmp(recovery, 1);
}

static void handle(void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO}, old;

	sigaction(SIGSEGV, &action, &old);
	if (old.sa_handler != SIG_DFL)
		_exit(10);
	sigaction(SIGSEGV, NULL, &old);
	if (old.sa_sigaction != handler || (old.sa_flags & SA_ONSTACK) != (flags & SA_ONSTACK))
		_exit(11);
}

static void *overflow(void *argument)
{
	pthread_setname_np(pthread_self(), "gas");
	recurse_for_ever(1);
	return argument;
}

static void *crash(void *argument)
{
	*nowhere = 1;
	return argument;
}

static void *crash_thrice(void *argument)
{
	for (volatile int i = 0; i < 3; i++)
		if (sigsetjmp(recovery, 1) == 0)
			crash(argument);
	return argument;
}

int main(int argc, char **argv)
{
	void *(*routine)(void *) = overflow;
	pthread_attr_t attr;
	pthread_t thread;

	if (argc > 1 && strcmp(argv[1], "alternate") == 0) {
		const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
		sigaltstack(&stack, NULL);
		handle(end_well, SA_ONSTACK);
	} else if (argc > 1 && strcmp(argv[1], "own") == 0) {
		handle(end_well, 0);
	} else if (argc > 1 && strcmp(argv[1], "recover") == 0) {
		handle(recover, 0);
		routine = crash_thrice;
	} else if (argc > 1 && strcmp(argv[1], "crash") == 0) {
		routine = crash;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_create(&thread, &attr, routine, NULL);
	pthread_join(thread, NULL);
	return 3;
}
"""

NATIVE = r"""
#include <tek/uthread.h>

int recurse_for_ever(volatile int depth)
{
	return depth ? recurse_for_ever(depth + 1) + depth : 0;
}

static void *overflow(void *argument)
{
	tek_uthread_set_name(tek_uthread_self(), "gas");
	recurse_for_ever(1);
	return argument;
}

int main(void)
{
	tek_uthread_t thread;

	tek_uthread_start("", 0);
	tek_uthread_create(&thread, 0, overflow, 0);
	tek_uthread_join(thread, 0);
	return 3;
}
"""

MODELS = ["workers=1", "workers=1,preempt=off", "workers=2,quantum=200us", "workers=2,preempt=klt"]


@pytest.fixture(scope="session", autouse=True)
def library():
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: run `make build`")


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(PROGRAM, "cc", "-O0", "-pthread")


@pytest.fixture(params=MODELS)
def environment(request):
    return {**os.environ, "LD_PRELOAD": str(LIBRARY), "TEK_UTHREAD": request.param}


def outcome(command, environment=None):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                           env=environment)
    return ended.returncode, ended.stderr


def assert_reported(seen, name="gas", least=128 << 10, most=192 << 10):
    lines = seen.splitlines()
    first = re.fullmatch(rf'tek: \w+\[\d+\]: thread "{name}"\[2\] ran out of its stack of (\d+) '
                         r'bytes',
                         lines[0])
    assert first and least <= int(first[1]) <= most, seen
    assert re.fullmatch(r"tek:   it runs /\S+\+0x\w+", lines[1]), seen
    assert re.fullmatch(r"tek:   #1 /\S+\+0x\w+(, then \d+ more)?", lines[2]), seen
    # One round stands for hundreds.
    assert any(int(more) > 100 for more in re.findall(r"then (\d+) more", seen)), seen


def test_a_thread_that_overflows_is_named_with_its_stack_and_backtrace(program, environment):
    status, seen = outcome([program], environment)
    assert status == -signal.SIGSEGV
    assert_reported(seen)


def test_a_handler_on_the_alternate_stack_is_called_after_the_report(program, environment):
    status, seen = outcome([program, "alternate"], environment)
    if "workers=1" in environment["TEK_UTHREAD"]:
        # main() has set the stack of the kernel thread of the one worker.
        assert status == 7
    assert status in (7, -signal.SIGSEGV)
    assert_reported(seen)


def test_a_handler_that_has_no_room_is_not_called_as_without(program, environment):
    assert outcome([program, "own"]) == (-signal.SIGSEGV, "")
    status, seen = outcome([program, "own"], environment)
    assert status == -signal.SIGSEGV
    assert_reported(seen)


def test_other_faults_are_not_reported(program, environment):
    assert outcome([program, "crash"], environment) == (-signal.SIGSEGV, "")


def test_a_handler_of_other_faults_runs_where_it_would_have_run(program, environment):
    assert outcome([program, "recover"]) == (3, "")
    assert outcome([program, "recover"], environment) == (3, "")


def test_tek_run_reports_the_backtrace_in_names(tek, program):
    ended = tek("run", "--model", "m:1", "--", program)
    lines = ended.stderr.splitlines()
    assert ended.returncode == -signal.SIGSEGV
    assert re.fullmatch(r"tek: thread gas \[2\] of \w+ \[\d+\] ran out of its stack of \S+K, which "
                        r"TEK "
                        r"did not choose", lines[0])
    assert re.search(r"#\d recurse_for_ever\+0x\w+, then \d+ more frames", ended.stderr)


def test_a_native_program_gets_the_same_report(compile_c):
    native = BUILD / "lib"
    program = compile_c(NATIVE, "cc", "-O0", f"-I{INCLUDE}", f"-L{native}", f"-Wl,-rpath,{native}",
                        "-Wl,--no-as-needed", "-ltek-uthread-native")
    for options in ("workers=1", "workers=2,preempt=off"):
        status, seen = outcome([program], {**os.environ, "TEK_UTHREAD": options})
        assert status == -signal.SIGSEGV, seen
        assert_reported(seen, least=48 << 10, most=64 << 10)
