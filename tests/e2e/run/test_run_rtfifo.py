# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek run --place rtfifo: all threads are SCHED_FIFO, for a share of the time at most."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BUILD
from paths import PROGRAMS
from placed import (ALLOWED, GCC, Running, crowd, needs_real_time, real_time_is_allowed,
                    threads_of, two_cpus)

assert crowd and two_cpus  # which pytest finds by their names

# For up to a second no other program runs on a CPU.
real_time_load = pytest.mark.alone("real-time load")


def test_rtfifo_makes_all_threads_sched_fifo(crowd, two_cpus):
    needs_real_time()
    with Running("--place", f"rtfifo=2,cores={two_cpus[0]},{two_cpus[1]}", crowd) as running:
        threads = threads_of(running.pid)
        priority = os.sched_getparam(running.pid).sched_priority
    assert [cpus for cpus, _ in threads] == [[two_cpus[0]], [two_cpus[1]]] * 3 + [[two_cpus[0]]]
    assert {policy for _, policy in threads} == {os.SCHED_FIFO}
    assert priority == 2 and running.seen == ""


def test_where_real_time_is_not_allowed_it_reports_that_once_and_places_all_the_same(
        crowd, two_cpus):
    # Root keeps its capabilities through setpriv and prlimit by default: this drops the one that
    # matters.
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    prefix = ["prlimit", "--rtprio=0:0", "setpriv", "--bounding-set=-sys_nice",
              "--inh-caps=-sys_nice"]
    running = Running("--place", "rtfifo", "--", crowd)
    running.command = [*prefix, *running.command]
    if os.geteuid() != 0:
        running.command = running.command[1:] if real_time_is_allowed() else running.command[4:]
    with running:
        threads = threads_of(running.pid)
    assert [cpus for cpus, _ in threads] == [[ALLOWED[i % len(ALLOWED)]] for i in range(7)]
    assert {policy for _, policy in threads} == {os.SCHED_OTHER}
    assert running.seen.count("SCHED_FIFO is not allowed") == 1, running.seen
    assert "tek doctor" in running.seen


POLICY = r"""
#include <sched.h>
#include <stdio.h>

int main(void)
{
	printf("%d\n", sched_getscheduler(0) & 0xff);
}
"""


@pytest.mark.parametrize("before", ["", "taskset -c {}"])
def test_what_replaces_a_program_under_rtfifo_is_an_ordinary_one_wherever_it_may_run(tek, compile_c,
                                                                                     before):
    needs_real_time()
    if shutil.which("taskset") is None:
        pytest.skip("needs taskset")
    program = compile_c(POLICY, "gcc", "-static")
    ran = tek("run", "--no-rules", "--place", "rtfifo", "sh", "-c",
              f"exec {before.format(ALLOWED[-1])} {program}")
    assert ran.stdout == f"{os.SCHED_OTHER}\n"


@real_time_load
def test_a_spin_lock_whose_holder_waits_for_the_same_cpu_is_got(tek, compile_c):
    needs_real_time()
    program = compile_c((PROGRAMS / "spin_holder.c").read_text(), *GCC)
    ran = tek("run", "--no-rules", "--place", f"rtfifo,cores={ALLOWED[0]}", program)
    assert (ran.returncode, ran.stdout) == (0, "done 2\n"), ran


@real_time_load
@pytest.mark.parametrize("written", ["rtfifo,cores={}", "rtfifo=1,cpus={}"])
def test_placement_from_the_environment_brings_that_spin_lock_too(tek, compile_c, written):
    needs_real_time()
    program = compile_c((PROGRAMS / "spin_holder.c").read_text(), *GCC)
    environment = {**os.environ, "TEK_PLACE": written.format(ALLOWED[0])}
    ran = tek("run", "--no-rules", program, env=environment)
    assert (ran.returncode, ran.stdout) == (0, "done 2\n"), ran


@real_time_load
def test_a_32_bit_program_has_that_spin_lock_too(tek, compile_c, library_32):
    needs_real_time()
    assert library_32.with_name("libtek-rtfifo.so").exists()
    program = compile_c((PROGRAMS / "spin_holder.c").read_text(), *GCC, "-m32")
    direct = tek("run", "--no-rules", "--place", f"rtfifo,cores={ALLOWED[0]}", program)
    by_shell = tek("run", "--no-rules", "--place", f"rtfifo,cores={ALLOWED[0]}", "sh", "-c",
                   f"{program}; true")
    for ran in (direct, by_shell):
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done 2\n", ""), ran


@real_time_load
def test_the_spin_lock_of_the_c_library_would_hold_it_up_for_ever(compile_c, open_build):
    """The reason for the test above: the kernel ends this one after a second of real-time load."""
    needs_real_time()
    program = compile_c((PROGRAMS / "spin_holder.c").read_text(), *GCC)
    environment = {**os.environ, "LD_PRELOAD": str(open_build / "lib" / "libtek.so"),
                   "TEK_PLACE": f"rtfifo,cpus={ALLOWED[0]}"}
    ran = subprocess.run([program], env=environment, capture_output=True, timeout=60, check=False)
    assert ran.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


def test_a_program_does_not_see_the_flag_with_which_it_was_made_real_time(tek, compile_c):
    needs_real_time()
    program = compile_c(r"""
        #include <pthread.h>
        #include <sched.h>
        #include <stdio.h>
        int main(void)
        {
        	struct sched_param param;
        	int policy;
        	pthread_getschedparam(pthread_self(), &policy, &param);
        	printf("%d %d\n", policy, sched_getscheduler(0));
        }""", *GCC)
    assert tek("run", "--no-rules", "--place", "rtfifo", program).stdout == "1 1\n"


# One thread spins for so many seconds; the other one counts how many it had itself on the same CPU.
def policies_of(pid):
    """The policies of a process's threads; a thread that has just ended has none."""
    policies = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            policies.append(os.sched_getscheduler(int(tid)) & 0xff)
    return policies


SPINS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static volatile int stop;
static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
static void *spin(void *argument)
{
	double end = now(CLOCK_MONOTONIC) + *(double *)argument;
	while (!stop && now(CLOCK_MONOTONIC) < end)
		;
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t threads[2];
	double seconds = argc > 1 ? atof(argv[1]) : 4;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, spin, &seconds);
	if (argc > 2) { /* a daemon, that goes on when its parent ends */
		printf("%d\n", (int)getpid());
		fflush(stdout);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""


@real_time_load
def test_threads_that_spin_under_rtfifo_are_ordinary_ones_for_a_share_of_the_time(compile_c):
    needs_real_time()
    run = subprocess.Popen([BUILD / "bin" / "tek", "run", "--no-rules", "--budget", "100ms/400ms",
                            "--place",
                            f"rtfifo,cores={ALLOWED[0]}", compile_c(SPINS, *GCC), "4", "tells"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(run.stdout.readline())
    policies = []
    while run.poll() is None and len(policies) < 1000:
        try:
            policies += policies_of(pid)
        except OSError:
            break
        time.sleep(0.02)
    seen = run.communicate(timeout=60)[1]
    # Without a budget all of them are SCHED_FIFO.
    share = policies.count(os.SCHED_FIFO) / len(policies)
    assert 0 < share < 0.7, seen
    assert seen.count("--place rtfifo: threads used") == 1 and "--budget" in seen


@real_time_load
@pytest.mark.parametrize("end", ["by itself", signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_real_time_when_tek_run_has_ended(compile_c, end):
    needs_real_time()
    program = compile_c(SPINS, *GCC)
    # The shell is the program; its background process spins, and starts threads and programs later.
    script = f"{program} 20 daemon & {'sleep 1' if end == 'by itself' else 'sleep 30'}"
    run = subprocess.Popen([BUILD / "bin" / "tek", "run", "--no-rules", "--place",
                            f"rtfifo=2,cores={ALLOWED[0]}", "sh",
                            "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(run.stdout.readline())
    try:
        assert os.SCHED_FIFO in policies_of(pid)
        if end != "by itself":
            run.send_signal(end)
        run.wait(30)
        for _ in range(100):
            policies = policies_of(pid)
            if os.SCHED_FIFO not in policies or end != signal.SIGKILL:
                break
            time.sleep(0.05)
        assert len(policies) == 3 and set(policies) == {os.SCHED_OTHER}
    finally:
        os.kill(pid, signal.SIGKILL)


LATER = r"""
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *show(void *file)
{
	fprintf(file, "%d ", sched_getscheduler(0) & 0xff);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	FILE *file = fopen(argv[1], "a");
	if (argc == 2 && fork())
		return sleep(1), 0;
	for (int i = 0; i < 6000 && argc == 2 && access(argv[1], X_OK); i++)
		usleep(10000);
	show(file);
	pthread_create(&thread, NULL, show, file);
	pthread_join(thread, NULL);
	fflush(file);
	if (argc == 2 && fork() == 0) {
		show(file);
		fflush(file);
		return execl(argv[0], argv[0], argv[1], "again", NULL);
	}
	fflush(file);
	return sleep(1) * 0;
}
"""


@real_time_load
def test_what_goes_on_makes_no_thread_real_time_later(compile_c, tmp_path):
    needs_real_time()
    file = tmp_path / "shown"
    file.touch(mode=0o600)
    # A process that goes on keeps its files open.
    subprocess.run([BUILD / "bin" / "tek", "run", "--no-rules", "--place",
                    f"rtfifo,cores={ALLOWED[0]}",
                    compile_c(LATER, *GCC), file], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=60,
                   check=True)
    file.chmod(0o700)
    for _ in range(200):
        if len(file.read_text().split()) == 5:
            break
        time.sleep(0.05)
    assert file.read_text().split() == [str(os.SCHED_OTHER)] * 5
