# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek run --place: the CPU and policy of each thread of an unmodified program."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import BUILD
from paths import PROGRAMS

ALLOWED = sorted(os.sched_getaffinity(0))

# Threads that wait, some more than there are CPUs, until their standard input ends. So does the
# program that they execute.
CROWD = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *live(void *unused)
{
	pause();
	return unused;
}

int main(void)
{
	pthread_t thread;
	alarm(60);
	for (int i = 1; i < 7; i++)
		pthread_create(&thread, NULL, live, NULL);
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}
"""

COUNTS = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	cpu_set_t set;
	sched_getaffinity(0, sizeof(set), &set);
	printf("%d %ld\n", CPU_COUNT(&set), sysconf(_SC_NPROCESSORS_ONLN));
}
"""

# For up to a second no other program runs on a CPU.
real_time_load = pytest.mark.alone("real-time load")
GCC = ("gcc", "-O1", "-Wall", "-pthread")


@pytest.fixture(scope="session")
def crowd(compile_c):
    return compile_c(CROWD, *GCC)


@pytest.fixture(scope="session")
def two_cpus():
    if len(ALLOWED) < 2:
        pytest.skip("needs two CPUs")
    return ALLOWED[:2]


def real_time_is_allowed():
    # In a child: this process might have no right to restore its policy.
    script = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    return subprocess.run(["python3", "-c", script], capture_output=True, timeout=60,
                          check=False).returncode == 0


def needs_real_time():
    if not real_time_is_allowed():
        pytest.skip("needs leave to use real-time policies")


def threads_of(pid):
    """CPUs and policy of each thread, in the order in which they were created."""
    tasks = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]  # not sorted: tids wrap around
    return [(sorted(os.sched_getaffinity(tid)),
             os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK)
            for tid in tasks]


class Running:
    """A program under tek run, until the end of the block."""

    def __init__(self, *command):
        self.command = [str(BUILD / "bin" / "tek"), "run", "--no-rules", *map(str, command)]

    def __enter__(self):
        self.tek = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        assert self.tek.stdout.readline() == "ready\n"
        children = pathlib.Path(f"/proc/{self.tek.pid}/task/{self.tek.pid}/children").read_text()
        self.pid = int(children.split()[0])
        return self

    def __exit__(self, *unused):
        _, self.seen = self.tek.communicate("", timeout=60)
        assert self.tek.returncode == 0, self.seen


def cpus_of(running):
    return [cpus for cpus, _ in threads_of(running.pid)]


def test_threads_are_dealt_to_the_cpus_of_a_list_round_robin(crowd, two_cpus):
    one, other = two_cpus
    with Running("--place", f"cores={other},{one}", crowd) as running:
        threads = threads_of(running.pid)
    assert [cpus for cpus, _ in threads] == [[other], [one]] * 3 + [[other]]
    assert {policy for _, policy in threads} == {os.SCHED_OTHER}
    assert running.seen == ""


@pytest.mark.parametrize("how", ["spread", "compact"])
def test_each_cpu_gets_a_thread_before_one_gets_two(crowd, how):
    with Running("--place", how, crowd) as running:
        dealt = [cpu for cpu, in cpus_of(running)]
    first = dealt[:len(ALLOWED)]
    assert len(set(first)) == len(first) and set(first) <= set(ALLOWED)
    assert dealt[len(ALLOWED):] == dealt[:len(dealt) - len(ALLOWED)]


def test_spread_takes_another_core_each_time_as_lscpu_counts_them(crowd):
    if shutil.which("lscpu") is None:
        pytest.skip("needs lscpu")
    listed = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET"], capture_output=True, text=True,
                            timeout=60,
                            check=True).stdout
    rows = [line.split(",") for line in listed.splitlines() if not line.startswith("#")]
    cores = {int(cpu): (socket, core) for cpu, core, socket in rows if int(cpu) in ALLOWED}
    count = min(len(set(cores.values())), 7)
    with Running("--place", "spread", crowd) as running:
        dealt = [cpu for cpu, in cpus_of(running)]
    assert len({cores[cpu] for cpu in dealt[:count]}) == count


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


def test_placement_from_the_environment_that_makes_no_sense_is_refused(tek):
    ran = tek("run", "echo", "ran", env={**os.environ, "TEK_PLACE": "rtfifo,everywhere"})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "TEK_PLACE is rtfifo,everywhere" in ran.stderr


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


def test_a_program_that_counts_cpus_finds_all_of_them(tek, compile_c):
    program = compile_c(COUNTS, *GCC)
    plain = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout
    assert tek("run", "--no-rules", "--place", "spread", program).stdout == plain


def test_programs_of_one_run_go_on_with_the_next_cpu(two_cpus):
    one, other = two_cpus
    # The shell has the first CPU, and so has a program that replaces it.
    script = "cat /proc/self/status; exec cat /proc/self/status"
    command = [str(BUILD / "bin" / "tek"), "run", "--no-rules", "--place", f"cores={one},{other}",
               "sh", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert re.findall(r"Cpus_allowed_list:\t(\S+)", ran.stdout) == [str(other), str(one)]


@pytest.mark.parametrize("model", ["m:1", "m:n"])
def test_with_user_level_threads_the_workers_are_placed(tek, compile_c, model, two_cpus):
    if not (BUILD / "lib" / "libtek-uthread.so").exists():
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    program = compile_c(r"""
        #define _GNU_SOURCE
        #include <sched.h>
        #include <stdio.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void)
        {
        	cpu_set_t set;
        	CPU_ZERO(&set);
        	syscall(SYS_sched_getaffinity, 0, sizeof(set), &set);
        	printf("%d %d\n", CPU_COUNT(&set), CPU_ISSET(CPU, &set));
        }""", *GCC, f"-DCPU={two_cpus[1]}")
    ran = tek("run", "--no-rules", "--model", model, "--place", f"cores={two_cpus[1]}", program)
    assert (ran.stdout, ran.stderr) == ("1 1\n", "")
    refused = tek("run", "--model", model, "--place", "rtfifo", program)
    assert refused.returncode == 2 and "--sched fifo" in refused.stderr


# The affinity that a program reads, that of programs that it starts in three ways, and the CPUs on
# which it runs itself.
STARTS = r"""
import os, subprocess
grep = ["/usr/bin/grep", "-h", "Cpus_allowed_list", "/proc/self/status"]
subprocess.run(grep, env={})
os.waitpid(os.posix_spawn(grep[0], grep, {}), 0)
os.system("unset LD_PRELOAD; exec " + " ".join(grep))
os.sched_setaffinity(0, os.sched_getaffinity(0))
print(len(os.sched_getaffinity(0)), flush=True)
print(open("/proc/thread-self/status").read().split("Cpus_allowed_list:\t")[1].split()[0])
"""


@pytest.mark.parametrize("pinned", [["--place", "spread"], ["--pin"]], ids=" ".join)
@pytest.mark.parametrize("model", ["m:1", "m:n"])
def test_placed_workers_are_hidden_from_the_program_and_from_what_it_starts(tek, model, pinned,
                                                                            two_cpus):
    if not (BUILD / "lib" / "libtek-uthread.so").exists():
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    plain = subprocess.run(["python3", "-c", STARTS], capture_output=True, text=True, timeout=60,
                           check=True)
    *started, own = plain.stdout.splitlines()
    ran = tek("run", "--no-rules", "--model", model, *pinned, "python3", "-c", STARTS)
    assert ran.stderr == "" and ran.stdout.splitlines()[:-1] == started, ran
    assert ran.stdout.splitlines()[-1] in map(str, ALLOWED) and own not in map(str, ALLOWED), ran


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


def test_cpus_of_the_environment_that_cannot_be_used_are_named(tek):
    ran = tek("run", "--no-rules", "echo", "ran",
              env={**os.environ, "TEK_PLACE": f"cpus={ALLOWED[0]}:1023"})
    assert ran.stdout == "ran\n"
    assert f"TEK_PLACE is cpus={ALLOWED[0]}:1023: of these 1023 cannot be used" in ran.stderr


def test_what_cannot_be_is_refused_before_anything_runs(tek, tmp_path):
    trace = tmp_path / "ran"
    for how in ["cores=1023", "cores=", "everywhere", "rtfifo=50", "spread,compact"]:
        ran = tek("run", "--place", how, "touch", trace)
        assert ran.returncode == 2 and ran.stderr, how
    assert "may use" in tek("run", "--place", "cores=1023", "true").stderr
    assert not trace.exists()


def test_explain_shows_where_a_thread_may_run(tek, crowd, two_cpus):
    with Running("--place", f"cores={two_cpus[1]}", crowd) as running:
        info = tek("explain", running.pid).stdout
    assert f"It may run on CPU {two_cpus[1]}." in info


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


SEEN = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
static void *tell(void *unused)
{
	pthread_attr_t attr;
	cpu_set_t of_attr, of_thread;
	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getaffinity_np(&attr, sizeof(of_attr), &of_attr);
	pthread_getaffinity_np(pthread_self(), sizeof(of_thread), &of_thread);
	printf("%d %d\n", CPU_COUNT(&of_attr), CPU_EQUAL(&of_attr, &of_thread));
	pthread_attr_destroy(&attr);
	return unused;
}
int main(void)
{
	pthread_t thread;
	tell(NULL);
	pthread_create(&thread, NULL, tell, NULL);
	pthread_join(thread, NULL);
	return 0;
}
"""


@pytest.mark.parametrize("mode", [[], ["--model", "m:1"], ["--model", "m:n"]], ids=" ".join)
def test_the_attributes_of_a_placed_thread_show_no_binding_of_ours(tek, compile_c, mode):
    ran = tek("run", "--no-rules", *mode, "--place", "spread", compile_c(SEEN, *GCC))
    assert ran.stdout == f"{len(ALLOWED)} 1\n" * 2, ran.stderr
