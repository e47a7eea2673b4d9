# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tek ps` names the threads of real programs while they run, however they were created."""
import fnmatch
import json
import os
import re
import subprocess

import pytest

from conftest import (BUILD, WAITING, can_be_real_time, child_of, eventually, names_of,
                      needs, read)
from paths import PROGRAMS

TEK = str(BUILD / "bin" / "tek")
KERNEL_THREAD = 0x200000  # PF_KTHREAD in the flags of /proc/PID/stat


class Running:
    """A program under `tek run`, which ends when its standard input does."""

    def __init__(self, command, options=()):
        self.run = subprocess.Popen([TEK, "run", *options, "--", *map(str, command)], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        self.pid = child_of(self.run.pid)

    def wait_until_ready(self):
        assert self.run.stdout.readline() == "ready\n", self.run.stderr.read()

    def wait_for_names(self, *patterns):
        """Waits until it has as many threads with such names as there are shell patterns."""
        def there():
            names = list(names_of(self.pid).values())
            return all(len(fnmatch.filter(names, pattern)) >= patterns.count(pattern)
                       for pattern in patterns)

        eventually(there)

    def put(self, line):
        self.run.stdin.write(line + "\n")
        self.run.stdin.flush()

    def end(self):
        """Ends it by the end of its input, or by SIGTERM, which `tek run` passes on."""
        self.run.stdin.close()
        try:
            self.run.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.run.terminate()
            self.run.wait(timeout=60)
        self.run.stdout.close()
        self.run.stderr.close()


@pytest.fixture
def running():
    """Starts programs under `tek run` and ends them."""
    started = []

    def start(*command, options=()):
        started.append(Running(command, options))
        return started[-1]

    yield start
    for program in started:
        program.end()


@pytest.fixture
def ps(tek):
    """The rows of `tek ps` by tid."""
    def rows(*options):
        ended = tek("ps", "--json", *options)
        assert ended.returncode == 0, ended.stderr
        return {row["tid"]: row for row in json.loads(ended.stdout)["threads"]}

    return rows


def check_all_named(ps, pid):
    """Each thread that exists all the time has a row, with its name. Returns the rows."""
    before = names_of(pid)
    rows = ps("--pid", pid)
    after = names_of(pid)
    steady = {tid: name for tid, name in before.items() if after.get(tid) == name}
    assert steady, "the program has ended"
    assert {tid: rows.get(tid, {}).get("name") for tid in steady} == steady
    return {tid: rows[tid] for tid in steady}


def check_functions_known(ps, pid):
    """TEK knows the function of every thread but the first one. Returns the rows.

    The creator of a thread may give it a name before the thread begins: then TEK adopts it, and
    learns its function when it begins.
    """
    def known():
        rows = ps("--pid", pid)
        unknown = {row["name"] for tid, row in rows.items() if tid != pid and not row["function"]}
        # jemalloc calls the C library's pthread_create() past all libraries that interpose it.
        return unknown <= {"jemalloc_bg_thd"} and rows

    return eventually(known)


def test_memcached_has_13_named_threads(ps, running, tmp_path):
    options = ["-u", "root"] if os.geteuid() == 0 else []
    program = running(needs("memcached"), *options, "-t", "8", "-s", tmp_path / "socket")
    program.wait_for_names(*["mc-*"] * 13)
    rows = check_all_named(ps, program.pid)
    assert sum(row["name"].startswith("mc-") for row in rows.values()) == 13
    check_functions_known(ps, program.pid)


def test_redis_has_named_threads_for_its_work_in_the_background(ps, running, tmp_path):
    program = running(needs("redis-server"), "--port", "0", "--unixsocket", tmp_path / "socket",
                      "--save", "", "--dir", tmp_path, "--io-threads", "2")
    # Redis 8 has bio_aof, earlier ones bio_aof_fsync.
    program.wait_for_names("bio_aof*", "bio_close_file", "bio_lazy_free", "io_thd_1")
    check_all_named(ps, program.pid)
    check_functions_known(ps, program.pid)


PYTHON = """
import sys, threading
end = threading.Event()
threads = [threading.Thread(target=end.wait, daemon=True) for _ in range(50)]
for thread in threads: thread.start()
print("ready", flush=True)
sys.stdin.read()
end.set()
"""


def test_python_has_50_threads_of_one_function(ps, running):
    program = running("/usr/bin/python3", "-c", PYTHON)
    program.wait_until_ready()
    assert len(check_all_named(ps, program.pid)) == 51
    rows = check_functions_known(ps, program.pid)
    assert len({row["function"] for tid, row in rows.items() if tid != program.pid}) == 1


NODE = """
const { Worker } = require("worker_threads");
let online = 0;
for (let i = 0; i < 4; i++)
  new Worker("setInterval(() => {}, 1000)", { eval: true })
    .on("online", () => { if (++online == 4) console.log("ready"); });
process.stdin.on("end", () => process.exit(0)).resume();
"""


def test_node_has_workers(ps, running):
    program = running(needs("node"), "-e", NODE)
    program.wait_until_ready()
    rows = check_all_named(ps, program.pid)
    assert len(rows) >= 5
    check_functions_known(ps, program.pid)


def test_java_has_the_threads_that_its_program_named_and_those_of_its_machine(ps, running,
                                                                              tmp_path):
    java, compiler = needs("java"), needs("javac")
    subprocess.run([compiler, "-d", tmp_path, PROGRAMS / "Sleepers.java"], check=True, timeout=60)
    program = running(java, "-cp", tmp_path, "Sleepers")
    program.wait_until_ready()
    program.wait_for_names("sleeper-0", "sleeper-1", "sleeper-2", "sleeper-3", "VM Thread")
    check_all_named(ps, program.pid)
    check_functions_known(ps, program.pid)


def test_go_makes_its_threads_by_raw_clone(ps, running, tmp_path):
    compiler = needs("go")
    program = tmp_path / "sleepers"
    subprocess.run([compiler, "build", "-o", program, PROGRAMS / "sleepers.go"], check=True,
                   timeout=100,
                   env=dict(os.environ, CGO_ENABLED="0", GOCACHE=str(tmp_path / "cache"),
                            GOFLAGS="-mod=mod"))
    go = running(program)
    go.wait_until_ready()
    rows = check_all_named(ps, go.pid)
    assert len(rows) >= 9 and {row["name"] for row in rows.values()} == {"sleepers"}


def test_three_kinds_of_std_thread_run_three_functions(ps, running, compile_c):
    program = running(compile_c((PROGRAMS / "kinds.cpp").read_text(), "g++", "-x", "c++", "-O1",
                                "-D_GNU_SOURCE", "-pthread"))
    program.wait_until_ready()
    program.wait_for_names("pointer", "lambda", "functor")
    rows = check_all_named(ps, program.pid)
    functions = {row["name"]: row["function"] for tid, row in rows.items() if tid != program.pid}
    assert len(set(functions.values())) == 3, functions
    assert "cool_down" in functions["pointer"]
    assert "Defroster" in functions["functor"]
    assert "main" in functions["lambda"]


@pytest.mark.usefixtures("library_32")
def test_the_threads_of_a_32_bit_program_are_known_under_tek(ps, running, compile_c):
    program = running(compile_c(WAITING, "gcc", "-m32", "-pthread"), "heater", "pump",
                      options=["--critical", "heater"])
    program.wait_until_ready()
    program.wait_for_names("heater", "pump")
    rows = check_all_named(ps, program.pid)
    held = {row["name"]: row for row in rows.values()}
    assert "live" in held["heater"]["function"] and "live" in held["pump"]["function"]
    if can_be_real_time():
        assert (held["heater"]["region"], held["pump"]["region"]) == ("fast", "none")


def kernel_threads():
    """Names by tid. The present work of a worker follows its name after - or +."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        head, _, fields = read(f"/proc/{entry}/stat").rpartition(")")
        if fields and int(fields.split()[6]) & KERNEL_THREAD:
            found[int(entry)] = re.split("[-+]", head.partition("(")[2])[0]
    return found


def test_every_kernel_thread_is_named(ps):
    before = kernel_threads()
    rows = ps("--kernel")
    after = kernel_threads()
    steady = {tid: name for tid, name in before.items() if after.get(tid) == name}
    if not steady:
        pytest.skip("needs to see the kernel's threads, not a container")
    assert {tid: re.split("[-+]", rows[tid]["name"])[0] for tid in steady if tid in rows} == steady


def test_threads_that_came_by_no_door_are_there_and_then_gone(ps, running, compile_c):
    program = running(compile_c((PROGRAMS / "births.c").read_text(), "cc", "-O1", "-D_GNU_SOURCE",
                                "-pthread"))
    program.wait_until_ready()
    rows = check_all_named(ps, program.pid)
    # The first, the clone, the timer's, the C library's that creates those, and that of the input.
    assert len(rows) == 5
    assert "timer" in {row["name"] for row in rows.values()}
    program.put("")
    assert program.run.stdout.readline() == "over\n"
    eventually(lambda: len(names_of(program.pid)) <= 2)  # the timer's maker stays
    assert set(ps("--pid", program.pid)) == set(names_of(program.pid))


PYTHON_LOADS_TEK = """
import ctypes, sys, threading
end = threading.Event()
def work(): end.wait()
threads = [threading.Thread(target=work, daemon=True) for _ in range(5)]
for thread in threads: thread.start()
tek = ctypes.CDLL(sys.argv[1])
assert tek.tek_thread_set_group(ctypes.c_ulong(threads[0].ident), 2) == 0
print("ready", flush=True)
sys.stdin.readline()
end.set()
for thread in threads: thread.join()
group = ctypes.c_int()
assert tek.tek_thread_get_group(ctypes.c_ulong(threading.get_ident()), ctypes.byref(group)) == 0
print("over", flush=True)
sys.stdin.read()
"""


def test_threads_older_than_tek_in_their_process_are_there_and_then_gone(ps, tmp_path):
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    with subprocess.Popen(["/usr/bin/python3", "-c", PYTHON_LOADS_TEK,
                           str(BUILD / "lib" / "libtek.so")],
                          text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment) as program:
        assert program.stdout.readline() == "ready\n"
        rows = check_all_named(ps, program.pid)
        assert len(rows) == 6
        assert [row["group"] for row in rows.values()].count("service") == 1
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "over\n"
        # A thread that was joined may still exist for a moment.
        eventually(lambda: len(names_of(program.pid)) == 1)
        assert set(ps("--pid", program.pid)) == {program.pid}
        program.stdin.close()
        assert program.wait(timeout=60) == 0
