# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stacks that TEK measures and fits, and stacks that it does not change: real programs."""
import json
import os
import re
import resource
import subprocess
import sys
import threading

import pytest

from conftest import BUILD, eventually
from paths import PROGRAMS

SOURCE = (PROGRAMS / "stack_sizes.c").read_text()
KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(SOURCE, "gcc", "-O1", "-pthread")


def kinds_in(profiles):
    """The kinds in the profiles of all programs."""
    lines = [line for file in profiles.glob("*.stack") for line in file.read_text().splitlines()]
    kinds = [dict(field.split("=", 1) for field in line.split()[1:])
             for line in lines if line.startswith("kind ")]
    return [{key: int(value) if value.isdigit() else value for key, value in kind.items()}
            for kind in kinds]


@pytest.fixture
def learnt(tmp_path):
    """The measured kinds, by label."""
    def read():
        return {kind["label"]: kind for kind in kinds_in(tmp_path / "profiles")}

    return read


@pytest.fixture
def command(tmp_path):
    """tek run with profiles of its own."""
    def command(stack, *more):
        return [str(BUILD / "bin" / "tek"), "run", "--no-rules", "--stack", stack,
                "--stack-profiles",
                str(tmp_path / "profiles"), *map(str, more)]

    return command


@pytest.fixture
def run(command, program):
    """Runs the program to its end."""
    def run(stack, *arguments, options=(), program=program, status=3, **more):
        ended = subprocess.run([*command(stack, *options), "--", program, *map(str, arguments)],
                               timeout=60,
                               capture_output=True, text=True, check=False, **more)
        assert ended.returncode == status, ended.stderr
        return ended

    return run


def stack_of(ended):
    """Size and guard of the stack in the program's output."""
    return tuple(map(int, re.search(r"stack (\d+) guard (\d+)", ended.stdout).groups()))


def default_size():
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if limit == resource.RLIM_INFINITY:
        pytest.skip("threads have no usual size where the limit is none")
    return limit


@pytest.mark.parametrize("attributes, size, auto, override", [
    ("none", None, "fitted", "fitted"),
    ("noguard", None, "fitted", "fitted"),
    ("size=262144", 256 * KIB, "left", "fitted"),
    # Only the C library knows the rest of the changed defaults.
    ("defaults=1048576", MIB, "left", "left"),
    ("memory=1048576", MIB, "left", "left"),
])
def test_sizes_that_the_program_chose_count(run, learnt, attributes, size, auto, override):
    size = size or default_size()
    first = stack_of(run("report", 1, 20, attributes))
    assert first[0] == size
    for stack, expected in (("report", "left"), ("auto", auto), ("auto,override", override)):
        own = stack_of(run(stack, 1, 20, attributes))
        if expected == "left":
            assert own == first
        else:
            assert learnt()["name:worker"]["bound"] < own[0] < 128 * KIB < size
            assert own[1] >= os.sysconf("SC_PAGE_SIZE")
    kind = learnt()["name:worker"]
    assert kind["threads"] == 4 and 20 * KIB < kind["peak"] <= kind["bound"] < 36 * KIB


def test_attributes_without_guard_get_one_that_works(command, compile_c):
    program = compile_c((PROGRAMS / "stack_depth.c").read_text(), "gcc", "-O1", "-pthread",
                        "-DNO_GUARD")
    outcomes = [subprocess.run([*command("auto"), "--", program, *arguments], capture_output=True,
                               text=True,
                               timeout=60, check=False).returncode
                for arguments in (["1"], ["1"], ["100"])]
    assert outcomes == [3, 3, -11]


def test_where_a_fitted_stack_cannot_be_had_the_programs_own_attributes_count(run, tmp_path):
    run("report", 1, 20)
    file, = (tmp_path / "profiles").glob("*.stack")
    file.write_text(file.read_text().replace(" overflow=0 overflows=0",
                                             f" overflow={512 * MIB} overflows=1"))
    assert stack_of(run("auto", 1, 20))[0] == 4 * default_size()
    assert stack_of(run("auto", 1, 20, "none", "limited"))[0] == default_size()


def test_margin_and_floor_are_what_was_asked_for(run, learnt):
    run("report", 1, 200)
    bound = learnt()["name:worker"]["bound"]
    for stack, options, expected in (
            ("auto", [], 1.5 * bound), ("tight", [], 1.08 * bound),
            ("auto", ["--stack-margin", "3"], 3 * bound),
            ("tight", ["--stack-floor", "1M"], MIB)):
        size = stack_of(run(stack, 1, 200, options=options))[0]
        assert expected <= size < expected + 2 * os.sysconf("SC_PAGE_SIZE"), (stack, options)


@pytest.mark.parametrize("threads", [1, 2, 5, 15])
def test_growth_is_learnt_from_run_to_run_however_few_threads_there_are(run, learnt, threads):
    """Each run is another process, and the kind is settled after more than 16 threads."""
    while not learnt() or learnt()["name:worker"]["threads"] < 20:
        run("auto", threads, 10)
    for kib in range(15, 46, 5):
        ended = run("auto", threads, kib)
        assert "and used 0" not in ended.stderr
        assert kib * KIB < learnt()["name:worker"]["peak"] < (kib + 12) * KIB
    # This is more than its stack was before.
    run("auto", threads, 90)


def test_a_stack_that_is_nearly_full_is_reported_while_the_program_runs_once_per_kind(
        command, program):
    with subprocess.Popen([*command("report"), "--", program, "3", "230", "size=262144", "sleep",
                           "hungry"],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tek:
        info = tek.stderr.readline()  # the program waits for input
        _, rest = tek.communicate("x\n", timeout=60)
    assert re.search(r"thread hungry of program\d+ \[\d+\] has used [\d.]+K( to [\d.]+K)? of its "
                     r"stack of 256K, "
                     r"which is nearly all", info), info
    assert "nearly all" not in rest and tek.returncode == 3


@pytest.mark.parametrize("end", ["_exit", "SYS_exit", "sleep"])
def test_threads_and_programs_that_end_in_any_way_are_learnt_from(run, learnt, end):
    run("report", 3, 100, "none", end, input="x\n")
    kind = learnt()["name:worker"]
    assert kind["threads"] == 3 and 100 * KIB < kind["peak"] <= kind["bound"] < 120 * KIB


def test_a_program_that_is_killed_later_is_learnt_from(command, program, learnt):
    with subprocess.Popen([*command("report"), "--", program, "3", "230", "size=262144", "later"],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tek:
        assert "nearly all" in tek.stderr.readline()
        tek.communicate("x\n", timeout=60)
    assert tek.returncode == -9
    assert 230 * KIB < learnt()["name:worker"]["peak"] < 256 * KIB


@pytest.mark.parametrize("how", ["fork", "exec", "become"])
def test_children_and_what_they_become_are_learnt_from(run, learnt, how):
    run("report", 3, 20, "none", how)
    kinds = learnt()
    assert (kinds["name:worker"]["threads"], kinds["name:in-child"]["threads"]) == (3, 3)
    assert kinds["name:worker"]["function"] == kinds["name:in-child"]["function"]
    second = run("auto", 3, 20, "none", how)
    assert len(re.findall(r"stack (\d+) ", second.stdout)) == 2
    assert all(int(size) < 128 * KIB for size in re.findall(r"stack (\d+) ", second.stdout))


def test_python_with_50_threads_is_learnt_and_fitted(command, tmp_path):
    code = """
import threading
there = threading.Barrier(51)
def work(): there.wait()
threads = [threading.Thread(target=work) for _ in range(50)]
for thread in threads: thread.start()
there.wait()
for thread in threads: thread.join()
print("well")
"""
    for run in range(2):
        ended = subprocess.run([*command("auto"), "--", sys.executable, "-c", code],
                               capture_output=True,
                               text=True, timeout=60, check=False)
        assert (ended.stdout, ended.returncode) == ("well\n", 0)
        info = re.search(r"stacks: (\d+) threads? of \d+ kinds? had ([\d.]+)([KMG]) ", ended.stderr)
        if run == 0:
            assert int(info[1]) == 50
        each = float(info[2]) * {"K": KIB, "M": MIB, "G": 1 << 30}[info[3]] / int(info[1])
        assert each < 256 * KIB or run == 0
    assert sum(kind["threads"] for kind in kinds_in(tmp_path / "profiles")) > 50


def two(text):
    """The two threads, once their largest use is known."""
    rows = [row for row in json.loads(text)["threads"] if row["name"] == "half"]
    return len(rows) == 2 and all(row["peak_bytes"] > 128 * KIB for row in rows) and rows


@pytest.mark.parametrize("options, zone", [
    ([], "normal"), (["--stack-zones", "60%-90%"], "low"), (["--rules"], "high"),
    (["--rules", "--stack-zones", "60%-90%"], "low"),
], ids=["usual", "option", "file", "option-and-file"])
def test_zones_are_reported_of_a_running_program_by_the_thresholds_that_were_set(
        tek, command, program, tmp_path, options, zone):
    rules = tmp_path / "zones.toml"
    rules.write_text('[stack]\nlow = "10%"\nhigh = "40%"\n')
    if "--rules" in options:
        options = ["--rules", rules, *options[1:]]
    more = command("report")
    more.remove("--no-rules")
    with subprocess.Popen([*more, *map(str, options), "--", program, "2", "128", "size=262144",
                           "sleep", "half"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            # It prints this once all have used their stacks.
            assert process.stdout.readline().startswith("stack 262144 ")
            # The first look may be too early.
            rows = eventually(lambda: two(tek("ps", "--json", "-o",
                                               "name,stack,peak,bound,zone").stdout))
        finally:
            process.communicate("x\n", timeout=60)
    for row in rows:
        assert row["stack_bytes"] == 256 * KIB and row["zone"] == zone, row
        assert row["peak_bytes"] <= row["bound_bytes"] < 150 * KIB


def test_of_a_program_that_locks_its_memory_far_less_is_locked(run, learnt):
    with open("/proc/meminfo", encoding="ascii") as file:
        if int(re.search(r"MemAvailable: +(\d+)", file.read())[1]) < 3 * MIB:
            pytest.skip("100 stacks of 8 MiB do not fit into memory")
    if os.geteuid() != 0:
        pytest.skip("needs root, to lock so much")
    locked = []
    for _ in range(2):
        ended = run("auto", 100, 20, "none", "locked")
        locked.append(int(re.search(r"VmLck:\s+(\d+)", ended.stdout)[1]))
        kind = learnt()["name:worker"]
        assert 20 * KIB < kind["peak"] <= kind["bound"] < 36 * KIB
    assert locked[0] > 100 * default_size() // KIB
    # TEK gives no thread a malloc arena.
    assert locked[1] < 40 * KIB and locked[0] > 10 * locked[1]


# The thread that uses 200 KiB comes when many threads of its kind are known.
LOCKED_LATE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

static __attribute__((noinline)) int use(int depth)
{
	volatile char frame[1000];

	frame[0] = (char)depth;
	return depth > 0 ? use(depth - 1) + frame[0] : 0;
}

static void *work(void *kib)
{
	pthread_setname_np(pthread_self(), "worker");
	use((int)(intptr_t)kib);
	return NULL;
}

int main(void)
{
	pthread_t thread;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 77;
	for (int i = 0; i < 40; i++)
		if (pthread_create(&thread, NULL, work, (void *)(intptr_t)(i == 35 ? 200 : 20)) ||
		    pthread_join(thread, NULL))
			return 6;
	return 3;
}
"""


def test_where_memory_is_locked_each_thread_is_measured(run, compile_c, learnt):
    if os.geteuid() != 0:
        pytest.skip("needs root, to lock so much")
    run("auto", program=compile_c(LOCKED_LATE, "cc", "-O1", "-pthread"))
    kind = learnt()["name:worker"]
    assert kind["threads"] == 40 and 200 * KIB < kind["peak"] <= kind["bound"] < 240 * KIB


@pytest.mark.parametrize("sanitizer", ["thread", "address"])
def test_sanitized_programs_are_left_alone(run, compile_c, tmp_path, sanitizer):
    sanitized = compile_c(SOURCE, "gcc", "-O1", "-pthread", f"-fsanitize={sanitizer}")
    plain = subprocess.run([sanitized, "3", "20"], capture_output=True, text=True, timeout=60,
                           check=False)
    assert plain.returncode == 3
    for _ in range(2):
        ended = run("auto", 3, 20, program=sanitized)
        assert ended.stdout == plain.stdout
    assert not kinds_in(tmp_path / "profiles")


def test_a_32_bit_program_is_learnt_and_fitted(run, compile_c, library_32, learnt):
    small = compile_c(SOURCE, "gcc", "-m32", "-O1", "-pthread")
    assert stack_of(run("auto", 3, 20, program=small))[0] == default_size()
    kind = learnt()["name:worker"]
    assert kind["threads"] == 3 and 20 * KIB < kind["peak"] <= kind["bound"] < 36 * KIB
    assert stack_of(run("auto", 3, 20, program=small)) == (pytest.approx(76 * KIB, abs=16 * KIB),
                                                           4096)


def test_of_runs_at_the_same_time_no_kind_is_lost(run, learnt):
    # Fewer threads than the number after which only samples are measured.
    names = [chr(ord("a") + n) * 3 for n in range(14)]
    for pair in zip(names[::2], names[1::2]):
        runs = [threading.Thread(target=run, args=("auto", 1, 20, "none", "ended", name))
                for name in pair]
        for one in runs:
            one.start()
        for one in runs:
            one.join()
    # Those without label have measurements before they had one; there are none.
    threads = {label: kind["threads"] for label, kind in learnt().items() if label != "-"}
    assert threads == {f"name:{name}": 1 for name in names}


def test_advice_in_c_gives_the_thread_that_size(run, tek, compile_c, tmp_path):
    run("report", 3, 200)
    profiles = tmp_path / "profiles"
    advice = tek("stack", "advice", "--c", "--profiles", profiles, "--profile",
                 *profiles.glob("*.stack"))
    assert advice.returncode == 0, advice.stderr
    function, = re.findall(r"static inline int (\w+)\(", advice.stdout)
    size, = re.findall(r"pthread_attr_setstacksize\(attr, \(size_t\)(\d+)\)", advice.stdout)
    header = tmp_path / "stacks.h"
    header.write_text(advice.stdout)
    # The header includes pthread.h before SOURCE defines _GNU_SOURCE.
    advised = compile_c(SOURCE, "gcc", "-O1", "-pthread", "-D_GNU_SOURCE=", "-include", str(header),
                        f"-DADVICE={function}")
    ended = subprocess.run([advised, "3", "200"], capture_output=True, text=True, timeout=60,
                           check=False)
    assert ended.returncode == 3 and stack_of(ended)[0] == int(size) < 400 * KIB
