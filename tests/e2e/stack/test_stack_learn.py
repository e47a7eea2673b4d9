# SPDX-License-Identifier: MIT OR Apache-2.0
"""The data on stacks that tek gets from the tables that processes leave, and its reports.

The tables are made by the tests: the tables of libtek.so are tested elsewhere.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import handmade
import pytest
from conftest import eventually
from paths import E2E

NO_PID = 2 ** 31 - 1  # above what Linux allows
BUILD_ID = bytes(range(20))
FILE = BUILD_ID.hex() + ".stack"
START = 0x10000


def fridge(path="/nowhere/fridge"):
    return handmade.module(path, START, START + 0x100000, START, BUILD_ID)


def worker(**changes):
    return handmade.kind(START + 0x100, **{"call_site": START + 0x900, "threads": 13, "peak": 11832,
                                           "bound": 12288, "label_is": 1, "label": "worker-#",
                                           **changes})


def leave(directory, number, kinds, *, threads=(), name=None, **head):
    """The table of a process that has ended."""
    handmade.write(pathlib.Path(directory), NO_PID, threads, modules=[fridge()], kinds=kinds,
                   name=name or f"{NO_PID}-{number}.ended",
                   **{"program": "fridge", "program_module": 1, "stack_mode": 1, **head})


# A program under tek that leaves such tables as the test needs.
PROGRAM = f"""
import os, sys, threading, time, pathlib
sys.path[:0] = [{os.path.dirname(__file__)!r}, {str(E2E)!r}]
from test_stack_learn import *
run = pathlib.Path(os.environ["TEK_RUN_DIR"])
"""


@pytest.fixture
def run(tek, tmp_path):
    """Runs Python under tek run --stack with profiles of its own."""
    def run(code, *options, stack="report", profiles=tmp_path / "profiles", **more):
        return tek("run", "--stack", stack, "--stack-profiles", profiles, *options, "--",
                   sys.executable, "-c", PROGRAM + code, **more)

    return run


@pytest.fixture
def profile(tmp_path):
    """Reads the one profile: its kinds, each a dict of its fields."""
    def read():
        text = (tmp_path / "profiles" / FILE).read_text().splitlines()
        assert text[:2] == ["tek-stack-profile 1", "program fridge"]
        return [dict(field.split("=", 1) for field in line.split()[1:]) for line in text[2:]]

    return read


def test_what_ended_processes_leave_is_learnt_and_removed(run, profile):
    result = run("""
leave(run, 1, [worker()])
leave(run, 2, [worker(threads=7, bound=16384, stack=65536), handmade.kind(START + 0x200, bound=5)])
""")
    assert result.returncode == 0, result.stderr
    first, second = profile()
    assert first["function"] == f"{BUILD_ID.hex()}+0x100"
    assert first["caller"] == f"{BUILD_ID.hex()}+0x900"
    assert (first["bound"], first["peak"], first["stack"]) == ("16384", "11832", str(8 << 20))
    assert (first["threads"], first["runs"], first["label"]) == ("20", "2", "name:worker-#")
    assert first["in"] == "fridge" and first["symbol"] == "fridge+0x100"
    assert (second["threads"], second["caller"], second["label"]) == ("1", "-", "-")
    assert "tek: stacks: 11 threads of 2 kinds had 88.0M and used 160K at most" in result.stderr
    assert "tek stack report fridge" in result.stderr


def test_two_runs_add_up(run, profile):
    for _ in range(2):
        assert run("leave(run, 1, [worker(overflow=65536, overflows=1)])").returncode == 0
    kind, = profile()
    assert (kind["threads"], kind["runs"], kind["overflow"], kind["overflows"]) == ("26", "2",
                                                                                    "65536", "2")


def test_a_table_is_learnt_while_the_program_runs(run, profile, tmp_path):
    code = """
leave(run, 1, [worker()])
deadline = time.monotonic() + 60
while list(run.glob("*.ended")) or not list(pathlib.Path(sys.argv[1]).glob("*.stack")):
    assert time.monotonic() < deadline
    time.sleep(0.05)
"""
    profiles = tmp_path / "profiles"
    result = run(code.replace("sys.argv[1]", repr(str(profiles))))
    assert result.returncode == 0, result.stderr
    assert profile()[0]["threads"] == "13"


def test_thousands_of_processes_leave_nothing_behind(run, profile):
    result = run("""
for number in range(3000):
    leave(run, number, [worker(threads=1)])
    while number % 100 == 99 and len(list(run.glob("*.ended"))) > 1000:
        time.sleep(0.01)
""")
    assert result.returncode == 0, result.stderr
    assert (profile()[0]["threads"], profile()[0]["runs"]) == ("3000", "3000")


def test_the_threads_of_a_killed_process_count_once(run, profile):
    result = run("""
threads = [{"tid": 7, "start_routine": START + 0x100, "call_site": START + 0x900, "kind": 1,
            "stack_pages": 2048, "bound_pages": 6, "peak": 20000},
           {"tid": 8, "start_routine": START + 0x300, "stack_pages": 2048, "bound_pages": 2,
            "role": "gas detection"},
           {"tid": 9, "start_routine": START + 0x400, "stack_pages": 2048}]
leave(run, 0, [worker()], threads=threads, name=f"{NO_PID}.table")
""")
    assert result.returncode == 0, result.stderr
    killed, gas = profile()
    # The process had already added its measured threads to their kinds.
    assert (killed["threads"], killed["bound"], killed["peak"]) == ("13", "12288", "11832")
    assert (gas["threads"], gas["bound"], gas["label"]) == ("1", "8192", "role:gas%20detection")


def test_a_process_that_lives_on_keeps_its_table(run, tmp_path):
    result = run("""
leave(run, 0, [worker()], name=f"{os.getppid()}.table")
print(run)
""")
    directory = pathlib.Path(result.stdout.strip())
    # The process of that table, tek, is gone by now; it lived at the time of the check.
    assert [path.name for path in directory.glob("*.table")] != []
    assert not (tmp_path / "profiles" / FILE).exists()


@pytest.mark.parametrize("next_ones", [1, 4])
def test_what_a_killed_tek_did_not_learn_the_next_one_does_once(open_build, run, profile, tmp_path,
                                                                next_ones):
    command = [str(open_build / "bin" / "tek"), "run", "--stack", "report", "--stack-profiles",
               str(tmp_path / "profiles"), "--", sys.executable, "-c", PROGRAM + """
import ctypes
PR_SET_PDEATHSIG = 1
# The program survives when tek is killed, as one does that became another user.
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
threading.Thread(target=os.getpid).start()
print(run, flush=True)
os.read(0, 1)
leave(run, 1, [worker()])
print("left", flush=True)
os.read(0, 1)
"""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tek:
        directory = pathlib.Path(tek.stdout.readline().strip())
        program, = map(int,
                       pathlib.Path(f"/proc/{tek.pid}/task/{tek.pid}/children").read_text().split())
        tek.send_signal(signal.SIGKILL)
        tek.wait(timeout=60)
        tek.stdin.write("x")
        tek.stdin.flush()
        assert tek.stdout.readline() == "left\n"
        # While the program lives, its own table, which exists since its first thread, protects the
        # directory from the teks of other tests.
        assert (directory / f"{program}.table").exists()
        assert (directory / f"{NO_PID}-1.ended").exists()
    eventually(lambda: not pathlib.Path(f"/proc/{program}").exists())
    with ThreadPoolExecutor(next_ones) as pool:
        assert {ended.returncode for ended in pool.map(run, ["pass"] * next_ones)} == {0}
    # Removed by one of these teks, or by one of another test that may still be at work.
    eventually(lambda: not directory.exists())
    assert profile()[0]["threads"] == "13"


@pytest.mark.parametrize("harm", [
    "b''", "b'x' * 200000", "os.urandom(9000000)", "None",
    "('fifo')", "('link')", "('directory')", "('kinds')", "('modules')",
])
def test_a_hostile_table_stops_nothing(run, profile, harm):
    started = time.monotonic()
    result = run(f"""
harm = {harm}
path = run / f"{{NO_PID}}-9.ended"
if harm == "fifo": os.mkfifo(path)
elif harm == "link": path.symlink_to("/dev/zero")
elif harm == "directory": path.mkdir()
elif harm == "kinds":
    kinds = [handmade.kind(n * 2**55 + n, threads=2**32-1, stack=2**64-1, overflow=2**64-1,
                           peak=2**32-1, bound=2**32-1, overflows=2**32-1,
                           label_is=n % 256, label="x\\n" * 32)
             for n in range(512)]
    leave(run, 9, kinds)
elif harm == "modules":
    module = handmade.module("/dev/zero", 0, 2**64-1, 2**63, b"")
    handmade.write(run, NO_PID, [], modules=[module] * 64, kinds=[handmade.kind(1, bound=1)],
                   name=path.name, program="../../etc/x", program_module=2**32-1)
elif harm is not None: path.write_bytes(harm)
leave(run, 1, [worker()])
""")
    assert result.returncode == 0, result.stderr
    assert "panicked" not in result.stderr
    assert profile()[-1]["bound"] in ("12288", str(2**32 - 1))
    assert time.monotonic() - started < 60


def test_a_directory_that_cannot_be_used_is_reported_once_and_the_program_runs(
        run, tmp_path, as_nobody):
    (tmp_path / "file").write_text("")
    result = run("leave(run, 1, [worker()])", profiles=tmp_path / "file" / "profiles")
    assert result.returncode == 0
    assert result.stderr.count("nothing is learnt about stacks") == 1
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    result = run("leave(run, 1, [worker()])", profiles=shared)
    assert result.returncode == 0 and "other users can write to it (mode 777)" in result.stderr
    assert not list(shared.iterdir())


def test_a_profile_that_was_half_written_is_mended(run, profile, tmp_path):
    run("leave(run, 1, [worker()])")
    path = tmp_path / "profiles" / FILE
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1].replace(b"+0x100", b"+0x200")[:-30])
    run("leave(run, 1, [worker()])")
    kind, = profile()
    assert kind["threads"] == "26"


@pytest.mark.parametrize("options, info", [
    (["--stack", "smart"], "`smart` is no mode"),
    (["--stack", "report,grow"], "grow has no meaning with report"),
    (["--stack", "auto", "--stack-margin", "0.5"], "as in 1.5"),
    (["--stack", "auto", "--stack-floor", "64Q"], "as in 64K"),
    (["--stack", "auto", "--stack-zones", "80%-25%"], "as in 25%-80%"),
    (["--stack-margin", "2"], "--stack <MODES|SIZE>"),
])
def test_an_option_that_cannot_be_meant_is_refused_before_anything_runs(tek, options, info):
    result = tek("run", *options, "--", "echo", "ran")
    assert result.returncode == 2 and info in result.stderr and not result.stdout


def test_settings_come_from_files_and_the_command_line_wins(run, user_rules, tmp_path):
    (user_rules / "a.toml").write_text('[stack]\nlow = "10%"\nmargin = 2\n')
    more = tmp_path / "more.toml"
    more.write_text('[stack]\nlow = "20%"\nfloor = "128K"\n')
    show = "print(os.environ['TEK_STACK'], os.environ['TEK_STACK_PROFILES'])"
    result = run(show, "--rules", more, stack="auto,override")
    assert result.stdout.split() == [
        "auto,override,low=20,margin=200,floor=131072", str(tmp_path / "profiles")]
    result = run(show, "--rules", more, "--stack-zones", "30%-90%", stack="tight")
    assert result.stdout.startswith("tight,low=30,high=90,margin=200,floor=131072 ")
    more.write_text("[stack]\nfloor = 7\n")
    result = run(show, "--rules", more)
    assert result.returncode == 2 and f"{more}:2:9: " in result.stderr and not result.stdout


def test_without_the_option_stacks_are_left_alone(tek):
    result = tek("run", "--", "sh", "-c", "echo \"[$TEK_STACK]\"")
    assert result.stdout == "[]\n" and "stacks" not in result.stderr


def test_the_report_of_a_run_has_a_table_of_stacks(run, tmp_path):
    path = tmp_path / "report.json"
    result = run("leave(run, 1, [worker()])", "--report", "--report-json", path)
    assert re.search(r"^tek: +fridge\+0x100 +worker-# +1 +13 +8.0M +11.6K +12.0K +low +8.0M"
                     r" +([0-9.]+K) +\1 would do", result.stderr, re.M), result.stderr
    stacks, = json.loads(path.read_text())["stacks"]
    assert (stacks["program"], stacks["build_id"]) == ("fridge", BUILD_ID.hex())
    kind, = stacks["kinds"]
    # 64 KiB, most programs' size of TLS, and twice the frame of this processor's signals.
    assert (kind["advised_bytes"] == kind["fitted_bytes"]
            and 68 << 10 < kind["fitted_bytes"] < 256 << 10)


def test_what_was_learnt_is_reported_and_advised_in_c_that_compiles(run, tek, tmp_path, compile_c):
    run("""
leave(run, 1, [worker(), worker(label="x*/;#error\\n", bound=20000), handmade.kind(START + 0x200),
               worker(call_site=START + 0x800, stack=65536, overflow=65536, overflows=1)])
""")
    where = ["--profiles", tmp_path / "profiles"]
    report = tek("stack", "report", *where, "fridge")
    assert report.returncode == 0, report.stderr
    assert ("CREATED IN" in report.stdout
            and "overflowed: 64.0K was too small, try 128K" in report.stdout)
    as_json = json.loads(tek("stack", "report", *where, "--json", "fridge").stdout)
    assert as_json["schema"] == 1 and len(as_json["programs"][0]["kinds"]) == 4
    code = tek("stack", "advice", "--c", *where, "fridge").stdout
    assert code.count("pthread_attr_setstacksize(attr, (size_t)131072)") == 1
    names = re.findall(r"static inline int (\w+)\(", code)
    assert len(names) == 2, code
    calls = "".join(f"{name}(&attr) ||" for name in names)
    program = compile_c(f"{code}\nint main(void) {{ pthread_attr_t attr;\n"
                        f"return pthread_attr_init(&attr) || {calls} 0; }}",
                        "cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread")
    assert subprocess.run([program], timeout=60, check=False).returncode == 0
    words = tek("stack", "advice", *where, "fridge").stdout
    assert "ran out of 64.0K" in words
    unknown = tek("stack", "report", *where, "oven")
    assert unknown.returncode == 1 and "nothing was learnt about oven yet" in unknown.stderr


def test_what_the_program_set_is_marked_and_counts_as_it_is(run, tek, tmp_path):
    run("leave(run, 1, [worker(stack_flags=2), worker(call_site=START + 0x800)])")
    where = ["--profiles", tmp_path / "profiles"]
    program, = json.loads(tek("stack", "report", *where, "--json", "fridge").stdout)["programs"]
    rows = {row["explicit"]: row for row in program["kinds"]}
    assert rows[True]["fitted_bytes"] is None and "set by the program" in rows[True]["advice"]
    assert rows[False]["fitted_bytes"] == rows[True]["advised_bytes"]
    assert program["sums"]["fitted_bytes"] == 13 * (8 << 20) + 13 * rows[False]["fitted_bytes"]


def test_an_overflow_counts_for_all_kinds_of_its_site(run, tek, tmp_path):
    run("""
leave(run, 1, [worker(label_is=0, label="", stack=65536, overflow=65536, overflows=1),
               worker(stack=65536)])
""")
    report = tek("stack", "report", "--profiles", tmp_path / "profiles", "fridge").stdout
    assert report.count("overflowed: 64.0K was too small, try 128K") == 2, report


def test_the_commands_find_profiles_where_the_run_put_them(run, tek, tmp_path):
    result = run("leave(run, 1, [worker()])")
    assert f"tek stack report fridge --profiles {tmp_path / 'profiles'}" in result.stderr
    listed = {**os.environ, "TEK_STACK_PROFILES": f"{tmp_path / 'profiles'}:/nowhere"}
    assert "worker-#" in tek("stack", "report", "fridge", env=listed).stdout
    assert tek("stack", "list", "--stack-profiles",
               tmp_path / "profiles").stdout.count("fridge") == 1


def test_a_directory_of_profiles_is_made_but_not_those_that_it_is_in(run, tmp_path):
    result = run("print('ran')", profiles=tmp_path / "typo" / "profiles")
    assert result.stdout == "ran\n" and "nothing is learnt about stacks" in result.stderr
    assert not (tmp_path / "typo").exists()


def test_after_a_death_by_sigsegv_it_is_reported_what_was_not_noticed(run):
    result = run("leave(run, 1, [worker(stack=12500)]); os.kill(os.getpid(), signal.SIGSEGV)")
    assert result.returncode == -signal.SIGSEGV
    assert ("could not notice" in result.stderr
            and "nearly full were those of fridge+0x100" in result.stderr)


def test_the_budget_takes_what_was_learnt_about_a_program(run, tek, tmp_path):
    run("""
leave(run, 1, [worker(bound=400000), handmade.kind(START + 0x200, bound=2000000, peak=0)])
""")
    budget = ["stack", "budget", "--threads", 10, "--json", "--profiles", tmp_path / "profiles"]
    one = json.loads(tek(*budget, "--kind", "worker-#", "fridge").stdout)
    assert one["stack_bytes"] == 602112
    every = json.loads(tek(*budget, "fridge").stdout)
    assert every["stack_bytes"] == 3002368
    profile = tmp_path / "profiles" / FILE
    assert json.loads(tek(*budget, "--profile", profile).stdout)["stack_bytes"] == 3002368
    unknown = tek(*budget, "--kind", "oven", "fridge")
    assert unknown.returncode == 125 and "oven" in unknown.stderr


def test_a_command_keeps_its_standard_output(tek, tmp_path):
    result = tek("stack", "report", "--profiles", tmp_path / "profiles", "--", sys.executable,
                 "-c", PROGRAM + "leave(run, 1, [worker()]); print('hello')")
    assert result.stdout == "hello\n" and "worker-#" in result.stderr
    result = tek("stack", "report", "--profiles", tmp_path / "profiles", "--", "true")
    assert "no thread but its first one" in result.stderr


def test_a_command_is_run_and_reported(tek, tmp_path):
    result = tek("stack", "report", "--json", "--profiles", tmp_path / "profiles", "--",
                 sys.executable,
                 "-c", PROGRAM + "leave(run, 1, [worker()]); print('hello'); sys.exit(3)")
    assert result.returncode == 3 and "hello" in result.stderr
    program, = json.loads(result.stdout)["programs"]
    assert program["kinds"][0]["threads"] == 13
    assert (tmp_path / "profiles" / FILE).exists()


def test_profiles_of_many_devices_are_merged(run, tek, tmp_path):
    for device in "ab":
        run("leave(run, 1, [worker()])", profiles=tmp_path / device)
    one = tmp_path / "a" / FILE
    merged = tmp_path / FILE
    damaged = tmp_path / "b" / FILE
    damaged.write_text(damaged.read_text() + "kind nonsense\n")
    result = tek("stack", "merge", "-o", merged, one, damaged)
    assert result.returncode == 0, result.stderr
    assert f"{damaged}: line 4: " in result.stderr
    assert "threads=26" in merged.read_text()
    other = tmp_path / ("ab" * 20 + ".stack")
    other.write_text(one.read_text())
    refused = tek("stack", "merge", "-o", merged, one, other)
    assert refused.returncode == 1 and "several programs" in refused.stderr
    assert "threads=26" in merged.read_text()
    other.write_text("nonsense")
    refused = tek("stack", "merge", "--into-store", "--profiles", tmp_path / "a", other, damaged)
    assert refused.returncode == 1 and "is no profile" in refused.stderr
    refused = tek("stack", "merge", "--into-store", "--profiles", tmp_path / "a",
                  "device-*/*.stack")
    assert refused.returncode == 1
    assert "tek: device-*/*.stack: there is no such file\n" == refused.stderr
    result = tek("stack", "merge", "--into-store", "--profiles", tmp_path / "a", damaged)
    assert result.returncode == 0 and "threads=26" in one.read_text()


def test_profiles_are_listed_and_forgotten(run, tek, tmp_path):
    where = ["--profiles", tmp_path / "profiles"]
    assert "there are no profiles" in tek("stack", "list", *where).stdout
    run("leave(run, 1, [worker()])")
    assert re.search(rf"^ *fridge +1 +13 +{BUILD_ID.hex()} *$",
                     tek("stack", "list", *where).stdout, re.M)
    assert tek("stack", "forget", *where, "oven").returncode == 1
    assert tek("stack", "forget", *where, "fridge").returncode == 0
    assert json.loads(tek("stack", "list", "--json", *where).stdout)["profiles"] == []


def stack_of(pid, tid):
    """End and size in pages of a thread's stack, by the stack pointer from the kernel."""
    pointer = int(pathlib.Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()[-2], 16)
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= pointer < end:
            return end, (end - start) // 4096
    raise AssertionError("no stack")


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])


def sleep_for_good(pid, tids):
    """Whether all threads sleep for good: in the same system call at two reads."""
    where = [pathlib.Path(f"/proc/{pid}/task/{tid}/syscall").read_text() for tid in tids * 2]
    return "running\n" not in where and where[:len(tids)] == where[len(tids):]


def test_the_stack_of_a_running_thread_is_seen_from_outside(tek, waiting, tmp_path, monkeypatch):
    with subprocess.Popen([waiting, "gas", "ui"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            # as they were created
            tids = [int(tid) for tid in os.listdir(f"/proc/{process.pid}/task")]
            gas = tids[1]
            eventually(lambda: pathlib.Path(f"/proc/{process.pid}/task/{gas}/comm").read_text()
                       == "gas\n")
            end, pages = eventually(lambda: "running" not in pathlib.Path(
                f"/proc/{process.pid}/task/{gas}/syscall").read_text()
                                    and stack_of(process.pid, gas))
            thread = {"tid": gas, "start_routine": START + 0x100, "stack_pages": pages,
                      "stack_end": end,
                      "flags": handmade.NAMED, "name": "gas"}
            handmade.write(tmp_path, process.pid, [thread], modules=[fridge()], program_module=1)
            monkeypatch.setenv("TEK_RUN_DIR", str(tmp_path))
            eventually(lambda: pathlib.Path(f"/proc/{process.pid}/task/{tids[2]}/comm").read_text()
                       == "ui\n")
            eventually(lambda: sleep_for_good(process.pid, tids))
            before = resident(process.pid)
            shown = tek("ps", "--json", "--tid", gas, "-o", "stack,peak,bound,zone").stdout
            row, = json.loads(shown)["threads"]
            assert 0 < row["peak_bytes"] <= row["bound_bytes"] < 64 << 10
            assert row["zone"] == "low" and row["stack_bytes"] == pages * 4096
            report = json.loads(tek("stack", "report", "--json", "--pid", process.pid).stdout)
            kind, = report["programs"][0]["kinds"]
            assert (kind["bound_bytes"], kind["label"]) == (row["bound_bytes"], "gas")
            assert resident(process.pid) <= before  # the kernel may have taken some back
        finally:
            process.kill()
