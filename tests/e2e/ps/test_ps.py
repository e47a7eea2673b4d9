# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek ps: every thread of the device, from the kernel and from TEK's tables."""
import csv
import io
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
import handmade
from conftest import child_of, tids_by_name
from ps_victim import ps, rows, tables, threads_of, victim

assert ps and tables and victim  # which pytest finds by their names

FUNCTIONS = r"""
#include <thread>
#include <unistd.h>

struct Oven { void operator()(int) const { pause(); } };
extern "C" void *gas_loop(void *unused) { return unused; }
static void heat(int, void *) {}

int main()
{
	alarm(60);
	std::thread([] { pause(); }).detach();
	std::thread(Oven{}, 5).detach();
	std::thread(heat, 5, nullptr).join();
	puts("ready");
	fflush(stdout);
	pause();
}
"""


@pytest.fixture
def functions(open_directory):
    """A running C++ program: its process, and a module of it as its table would have it."""
    if shutil.which("g++") is None or shutil.which("nm") is None:
        pytest.skip("g++ or nm is not installed")
    source, program = open_directory / "functions.cpp", open_directory / "functions"
    source.write_text("#include <cstdio>\n" + FUNCTIONS)
    subprocess.run(["g++", "-pthread", "-Wl,--build-id", source, "-o", program], check=True)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True)
    build_id = bytes.fromhex(re.search(r"Build ID: (\w+)", notes.stdout)[1])
    with subprocess.Popen([program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        own = [line.split()[0].split("-") for line in maps if line.endswith(str(program))]
        start, end = int(own[0][0], 16), int(own[-1][1], 16)
        symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        addresses = {name: int(at, 16)
                     for at, name in re.findall(r"^(\w+) \w (\S+)$", symbols, re.M)}
        yield process.pid, program, (start, end, start, build_id), addresses
        process.kill()


def kernel_threads():
    found = set()
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[6]) & 0x00200000:
            found.add(int(stat.parent.name))
    return found


def test_every_thread_of_the_kernel_is_listed_and_marked(ps):
    before = kernel_threads()
    if not before:
        pytest.skip("this machine shows no threads of the kernel")
    listed = {row["tid"]
              for row in threads_of(ps, "--kernel", "-o", "tid,name,kernel", stderr=None)}
    assert before & kernel_threads() <= listed


def test_every_thread_of_a_program_has_a_line(ps, victim):
    fridge = victim("gas", "ui", "touch")
    lines = rows(ps("--pid", fridge.pid, "-o", "tid,name", stderr=None))
    assert {name: int(tid) for tid, name in lines} == fridge.tids


def test_without_privilege_every_thread_is_listed_too(ps, victim, as_nobody):
    fridge = victim("gas", "ui")
    listed = threads_of(ps, prefix=as_nobody, stderr=None)
    assert set(fridge.tids.values()) <= {row["tid"] for row in listed}
    assert kernel_threads() & {row["tid"] for row in listed
                               if row["kernel"]} or not kernel_threads()


def test_columns_are_chosen_in_their_order_and_listed_with_what_they_mean(ps, tek, victim):
    fridge = victim("gas")
    text = ps("--tid", fridge.tids["gas"], "-o", "name,tid,policy,vm", stderr=None)
    assert text.splitlines()[0].split() == ["NAME", "TID", "POLICY", "VM"]
    assert rows(text)[0][:3] == ["gas", str(fridge.tids["gas"]), "other"]
    known = re.findall(r"^[ *] (\S+) +\S", tek("ps", "--columns", "help").stdout, re.M)
    assert set("pid tid program name role function group region policy priority stack peak zone "
               "age "
               "cpu cpu% run-delay switches vm creator call-site state critical".split()) <= set(
                   known)
    every = threads_of(ps, "--tid", fridge.tids["gas"], "-o", ",".join(known), stderr=None)
    assert len(every[0]) == len(known)
    refused = tek("ps", "-o", "tid,colour")
    assert refused.returncode == 2 and "no column colour" in refused.stderr
    assert all(name in refused.stderr for name in known), refused.stderr
    refused = tek("ps", "--columns")
    assert refused.returncode == 2 and "possible values: pid, tid, " in refused.stderr


def test_what_a_table_has_stands_beside_what_the_kernel_has(ps, victim, tables):
    fridge = victim("gas", "ui")
    gas, ui = fridge.tids["gas"], fridge.tids["ui"]
    handmade.write(tables, fridge.pid, [
        {"tid": gas, "role": "gas détection", "stack_pages": 2048, "place": handmade.FAST | 1,
         "reasons": handmade.RULE, "rule": 3, "creator": fridge.pid, "start_routine": 0x1234},
        {"tid": ui, "flags": handmade.MARKED}], program="fridge-os")
    first, = threads_of(ps, "--tid", gas)
    expected = {"pid": fridge.pid, "program": "fridge-os", "name": "gas", "role": "gas détection",
                "region": "fast", "group": "urgent", "stack_bytes": 8 << 20, "critical": "rule 3",
                "creator_tid": fridge.pid, "tracked": True, "kernel": False, "peak_bytes": None,
                "zone": None, "policy": "other", "function": "0x1234"}
    assert {key: first[key] for key in expected} == expected
    second, = threads_of(ps, "--tid", ui)
    assert (second["region"], second["role"], second["critical"]) == ("none", None, "marked")
    main, = threads_of(ps, "--tid", fridge.pid)
    assert (main["tracked"], main["region"], main["program"]) == (False, None, "fridge-os")


def test_what_threads_run_is_named_until_the_file_is_replaced_or_stripped(ps, tables, functions):
    pid, program, (start, end, bias, build_id), addresses = functions

    def shown(symbol, offset=0, path=program, build_id=build_id, column="function"):
        address = bias + addresses[symbol] + offset
        handmade.write(tables, pid, [{"tid": pid, "start_routine": address, "call_site": address}],
                       modules=[handmade.module(path, start, end, bias, build_id)])
        row, = threads_of(ps, "--tid", pid, "-o", column)
        return row[column.replace("-", "_")]

    # A vtable pointer points behind the first two words of the vtable.
    state = "_ZTVNSt6thread11_State_implINS_8_InvokerISt5tupleIJ%sEEEEEE"
    assert shown("gas_loop") == "gas_loop"
    assert shown("_ZL4heatiPv") == "heat"
    assert shown("main", 5, column="call-site") == "main+0x5"
    assert shown(state % "Z4mainEUlvE_", 16) == "main::{lambda()#1}"
    assert shown(state % "4Oveni", 16) == "Oven"
    offset = f"functions+{addresses['gas_loop']:#x}"
    assert shown("gas_loop", build_id=build_id[::-1]) == offset
    stripped = tables / "functions"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    assert shown("gas_loop", path=stripped) == offset
    assert shown("gas_loop", path="/dev/zero").startswith("zero+0x")


def test_text_is_escaped_in_the_table_alone(ps, victim, tables):
    fridge = victim("a\x1b[2J\nb")
    tid = fridge.tids["a\x1b[2J\nb"]
    handmade.write(tables, fridge.pid, [{"tid": tid, "role": "x\ny\u202e"}], program="p\tq")
    columns = ("--pid", fridge.pid, "--tid", tid, "-o", "program,name,role")
    row, = threads_of(ps, *columns)
    assert row == {"program": "p\tq", "name": "a\x1b[2J\nb", "role": "x\ny\u202e"}
    assert rows(ps(*columns)) == [["p\\tq", "a\\u{1b}[2J\\nb", "x\\ny\\u{202e}"]]
    series = ps(*columns, "--sample", "50ms", "--count", 1)
    record, = csv.DictReader(io.StringIO(series, newline=""))
    assert {key: record[key] for key in row} == row
    assert len(threads_of(ps, "--program", "p?q")) == len(fridge.tids)


def test_filters_choose_threads_and_must_all_fit(ps, victim, tables):
    fridge = victim("gas", "ui")
    handmade.write(tables, fridge.pid, [
        {"tid": fridge.tids["gas"], "role": "gas detection", "place": handmade.FAST}])

    def names(*options):
        listed = threads_of(ps, "-o", "pid,name", *options, stderr=None)
        return sorted(row["name"] for row in listed if row["pid"] == fridge.pid)

    every = sorted(fridge.tids)
    assert names() == every
    assert names("--pid", fridge.pid) == names("--program", "hand*") == every
    assert names("--program", "none such") == []
    assert names("--name", "g?s", "--name", "ui") == ["gas", "ui"]
    assert names("--role", "gas*") == ["gas"]
    assert names("--region", "fast") == names("--tracked") == ["gas"]
    assert names("--region", "none") == [name for name in every if name != "gas"]
    assert names("--name", "ui", "--region", "fast") == []
    assert names("--kernel") == []
    assert names("--no-kernel") == every


def test_a_thread_that_is_not_there_is_reported_by_the_status(ps, victim):
    fridge = victim("gas")
    assert ps("--tid", 2**31 - 1, "-o", "tid", status=1, stderr=None) == "TID\n"
    ps("--pid", 2**31 - 1, status=1, stderr=None)
    ps("--pid", fridge.pid, "--name", "nobody", status=1, stderr=None)
    ps("--name", "nobody at all", stderr=None)


def test_what_is_missing_is_named_and_a_thread_is_no_process(ps, victim):
    fridge = victim("gas")
    gas, none = fridge.tids["gas"], 2**22 + 1
    info = f"tek: there is no process {none}\n"
    assert ps("--pid", none, "-o", "tid", status=1, stderr=info) == "TID\n"
    assert ps("--pid", none, "--watch", "50ms", status=1, stderr=info, timeout=60) == ""
    ps("--pid", none, "--sample", "50ms", status=1, stderr=info, timeout=60)
    ps("--tid", none, status=1, stderr=f"tek: there is no thread {none}\n")
    info = f"tek: {gas} is a thread of {fridge.pid}\n"
    assert ps("--pid", gas, "-o", "tid", status=1, stderr=info) == "TID\n"
    listed = rows(ps("--pid", f"{gas},{fridge.pid},{fridge.pid}", "-o", "tid", stderr=info))
    assert sorted(int(tid) for tid, in listed) == sorted(fridge.tids.values())


def test_what_is_no_number_or_no_order_is_refused_with_what_is_wanted(tek):
    refused = tek("ps", "--pid", "abc")
    assert refused.returncode == 2 and "write a number such as 815" in refused.stderr
    refused = tek("ps", "--sort", "cpu:down")
    assert refused.returncode == 2 and "write cpu:asc or cpu:desc" in refused.stderr


def test_less_than_a_tick_is_no_exact_zero(ps, victim):
    for _ in range(20):  # where the processor is emulated, a thread may use a tick to begin
        fridge = victim("gas")
        if fridge.ticks("gas") == 0:
            break
    gas = ("--tid", fridge.tids["gas"])
    assert rows(ps(*gas, "-o", "cpu", stderr=None)) == [["<10ms"]]
    assert "<" not in ps(*gas, "-o", "cpu,run-delay", stderr=None)
    row, = threads_of(ps, *gas, "-o", "cpu", stderr=None)
    assert row == {"cpu_ns": 0}


def test_sorting_goes_up_and_down(ps, victim):
    fridge = victim("b", "a", "c")

    def order(by):
        names = [row[0]
                 for row in rows(ps("--pid", fridge.pid, "-o", "name", "--sort", by, stderr=None))]
        return [name for name in names if name in "abc"]

    assert order("name") == order("name:asc") == ["a", "b", "c"]
    assert order("name:desc") == ["c", "b", "a"]
    # In order of creation, unless tids wrapped around in between.
    assert order("tid") == sorted("abc", key=fridge.tids.get)


def test_the_tree_has_threads_below_their_creators(ps, victim, tables):
    fridge = victim("gas", "ui", "touch")
    tids = fridge.tids
    handmade.write(tables, fridge.pid, [
        {"tid": tids["gas"], "creator": fridge.pid}, {"tid": tids["ui"], "creator": tids["gas"]},
        {"tid": tids["touch"], "creator": tids["touch"]}])
    lines = ps("--pid", fridge.pid, "--tree", "-o", "tid,name").splitlines()[1:]
    drawn = [line.split(None, 1)[1] for line in lines]
    assert drawn[1:] == ["|- gas", "|  `- ui", "`- touch"]
    # A table with a circle of creators loses no thread.
    handmade.write(tables, fridge.pid, [
        {"tid": tids["gas"], "creator": tids["ui"]}, {"tid": tids["ui"], "creator": tids["gas"]}])
    assert len(ps("--pid", fridge.pid, "--tree", "-o", "name").splitlines()) == 1 + len(tids)


def hostile(kind, path, pid):
    if kind == "random bytes":
        path.write_bytes(os.urandom(300_000))
    elif kind == "symbolic link":
        path.symlink_to("/dev/zero")
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "truncated":
        handmade.write(path.parent, pid, [{"tid": pid}])
        os.truncate(path, handmade.HEADER_BYTES + 4096)
    elif kind == "lying counter":
        handmade.write(path.parent, pid, [{"tid": pid}], chunks=2**32 - 1)
    elif kind == "another process's pid":
        handmade.write(path.parent, 1, []).rename(path)
    elif kind == "other owner":
        handmade.write(path.parent, pid, [{"tid": pid}])
        os.chown(path, 65534, 65534)
    elif kind == "stopped in mid-write":
        handmade.write(path.parent, pid, [{"tid": pid, "seq": 3}] * 32768)


@pytest.mark.parametrize("kind, reason", [
    ("random bytes", "is not a thread table"),
    ("symbolic link", "Too many levels of symbolic links"),
    ("FIFO", "not a regular file"),
    ("directory", "not a regular file"),
    ("truncated", "shorter than it says"),
    ("lying counter", "damaged"),
    ("another process's pid", "names process 1"),
    ("other owner", "belongs to user 65534"),
    ("stopped in mid-write", "32768"),
])
def test_a_hostile_table_is_named_once_and_its_threads_still_shown(ps, victim, tables, kind,
                                                                   reason):
    if kind == "other owner" and os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    fridge = victim("gas")
    path = tables / f"{fridge.pid}.table"
    hostile(kind, path, fridge.pid)
    ended = json.loads(ps("--json", "--pid", fridge.pid, stderr=None))
    assert {row["tid"] for row in ended["threads"]} == set(fridge.tids.values())
    assert not any(row["tracked"] for row in ended["threads"])
    problem, = ended["problems"]
    assert reason in problem and str(path) in problem
    ps("--pid", fridge.pid, stderr=f"tek: {problem}\n")


def test_a_stopped_program_does_not_hold_up_the_reader(ps, victim, tables):
    fridge = victim("gas", "ui")
    handmade.write(tables, fridge.pid, [{"tid": fridge.tids["gas"], "seq": 5},
                                        {"tid": fridge.tids["ui"], "role": "screen"}])
    fridge.process.send_signal(signal.SIGSTOP)
    os.waitpid(fridge.pid, os.WUNTRACED)
    begin = time.monotonic()
    listed = threads_of(ps, "--pid", fridge.pid, stderr=None)
    # A ps that waits for a stopped program waits for ever.
    assert time.monotonic() - begin < 20
    info = {row["name"]: (row["state"], row["role"]) for row in listed}
    assert (info["gas"], info["ui"]) == (("T", None), ("T", "screen"))


def test_the_threads_of_a_program_under_tek_run_are_known(open_build, tek, waiting):
    command = [open_build / "bin" / "tek", "run", "--", waiting, "gas", "ui"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"ready\n"
        child = child_of(run.pid)
        tids_by_name(child, ["gas", "ui"])
        listed = json.loads(tek("ps", "--json", "--tracked", "--pid", child).stdout)["threads"]
        os.kill(child, signal.SIGKILL)
    known = {row["name"]: row for row in listed}
    assert {"gas", "ui"} <= set(known)
    gas = known["gas"]
    assert gas["stack_bytes"] >= 16384 and gas["region"] == "none"
    assert (gas["function"], gas["creator_tid"]) == ("live", child)
    assert gas["call_site"].startswith("main+0x")


def cpu_of_children():
    """Seconds of all that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_two_thousand_threads_are_shown_in_no_time(ps, tables, victim):
    names = [f"worker-{number}" for number in range(2000)]
    fridge = victim(*names)
    handmade.write(tables, fridge.pid,
                   [{"tid": tid, "role": name} for name, tid in fridge.tids.items()])
    took = []
    for _ in range(5):
        begin = cpu_of_children()
        listed = rows(ps("--pid", fridge.pid, stderr=None))
        took.append(cpu_of_children() - begin)
    assert len(listed) == 2001
    # CPU time: tek ps takes a twentieth of this.
    assert sorted(took)[2] < 1


def test_without_proc_it_reports_that(open_build):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount of its own")
    # In a mount namespace of its own: no other program's /proc is covered.
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" ps',
               open_build / "bin" / "tek"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "/proc is not there" in ended.stderr
