# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek run --place: the CPU and policy of each thread of an unmodified program."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import BUILD
from placed import ALLOWED, GCC, Running, crowd, threads_of, two_cpus

assert crowd and two_cpus  # which pytest finds by their names

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


def test_placement_from_the_environment_that_makes_no_sense_is_refused(tek):
    ran = tek("run", "echo", "ran", env={**os.environ, "TEK_PLACE": "rtfifo,everywhere"})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "TEK_PLACE is rtfifo,everywhere" in ran.stderr


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
