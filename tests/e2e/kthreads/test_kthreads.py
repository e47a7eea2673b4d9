# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek shows which kernel threads follow the tasks that wait for them, and why."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import pytest
from conftest import BUILD, eventually, listens_at
from fake_tekd import AT_WORK, FakeTekd
from tekd_client import STATUS, Client

TEKD = BUILD / "bin" / "tekd"
pytestmark = pytest.mark.alone("kernel threads")  # of which there is one set

# A real-time task: a worker of the kernel carries its output on a terminal to the other end.
PLAYER = """
import os, pathlib, pty, sys, time
pathlib.Path("/proc/self/comm").write_text("player")
ours, theirs = pty.openpty()
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(15))
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    os.write(theirs, b"x" * 20)
    os.read(ours, 4096)
    time.sleep(float(sys.argv[2]))
"""

KTHREADS = {
    "on": True, "why": None, "method": "weighted", "linger_ms": 20, "off": [], "protected": [],
    "dependencies": [{"name": "workers", "on": True, "why": ""},
                     {"name": "page cache", "on": False, "why": "this kernel has not x"}],
    "threads": [{"tid": 2, "name": "kthreadd", "class": "kthreadd", "weight": 0.8, "ratio": 1.0,
                 "mean": 15.0, "highest": 15, "priority": 12, "held": None, "since_ms": 1500,
                 "usual": {"policy": 0, "priority": 0, "nice": 0}, "boosts": 7, "boosted_ms": 4200,
                 "work": None, "members": [
                     {"tid": 812, "name": "player", "priority": 15, "times": 3,
                      "waits_for": "its write to vda"},
                     {"tid": 77, "name": "net\x1b[2J", "priority": 15, "times": 1,
                      "waits_for": "a new kernel thread"}]}],
    "raised_along": [], "counts": {"events": 4000, "lost": 3, "changes": 14, "dropped": 0},
    "reaction_ns": {"p50": 12_000, "p99": 48_000, "max": 90_000, "n": 7},
}


@pytest.fixture(autouse=True)
def nobody_elses_daemon(tmp_path, monkeypatch):
    """Tests must not use the device's own tekd."""
    monkeypatch.setenv("TEK_SOCKET", str(tmp_path / "tekd"))


@pytest.fixture
def fake(tmp_path):
    """Starts a daemon that reports this about kernel threads."""
    daemons = []

    def start(kthreads):
        daemons.append(FakeTekd(tmp_path / "tekd", {**AT_WORK, "kthreads": kthreads}))

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture
def tekd(tmp_path, real_time):
    """Starts a tekd that touches only processes that this test starts, and kernel threads that work
    for these. Its state is in memory: a worker of the kernel would write a journal on a disk."""
    if not TEKD.exists():
        pytest.skip("tekd is not built")
    if os.geteuid() != 0:
        pytest.skip("needs root, to start tekd")
    with tempfile.TemporaryDirectory(prefix="tek-test-", dir="/dev/shm") as state:
        started = []

        def start(kthreads="[kthreads]\nlinger_ms = 200\n"):
            config = tmp_path / "tekd.toml"
            config.write_text('backend = "rt"\nprotected = []\n' + kthreads)
            config.chmod(0o600)
            with (tmp_path / "log").open("w") as log:
                # pylint: disable-next=consider-using-with
                started.append(subprocess.Popen(
                    [TEKD, "--socket", tmp_path / "tekd", "--state", state + "/state", "--config",
                     config, "--domain", f"pid:{os.getpid()}"], stdin=subprocess.DEVNULL,
                    stderr=log))
            eventually(lambda: listens_at(tmp_path / "tekd") or started[-1].poll() is not None)
            eventually(lambda: not is_starting(tmp_path / "tekd"))

        yield start
        for process in started:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def is_starting(socket):
    """Whether a tekd serves before kernel threads follow."""
    try:
        return Client(socket).json(STATUS)["kthreads"].get("starting")
    except OSError:
        return False


@pytest.fixture
def player():
    """A real-time task that works for so many seconds, and rests for `rest` seconds in between."""
    started = []

    def start(seconds, rest=0.002):
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([sys.executable, "-c", PLAYER, str(seconds), str(rest)],
                                   stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=60)


def report_of(tek, *options):
    ended = tek("kthreads", "--json", *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def follows(tek):
    """The report of a running tekd; skips the test where kernel threads cannot follow."""
    report = report_of(tek)
    if not report["following"]:
        pytest.skip(f"needs BPF: {report['why_not']}")
    if not next(one["on"] for one in report["dependencies"] if one["name"] == "workers"):
        pytest.skip("needs a kernel in which workers can be followed")
    return report


def boosted(tek, pid):
    """The threads that have a priority of this task now."""
    threads = report_of(tek)["threads"]
    return [one for one in threads if one["priority"]
            and pid in [it["tid"] for it in one["members"]]]


# Without tekd


def test_without_tekd_the_reason_and_all_threads_of_the_kernel_are_shown(tek):
    few = tek("kthreads")
    assert few.returncode == 0 and "tekd does not run" in few.stdout
    report = report_of(tek, "--all")
    assert not report["following"] and "tekd does not run" in report["why_not"]
    rows = {row["name"]: row for row in report["threads"]}
    if "kthreadd" not in rows:
        pytest.skip("needs /proc to show the kernel's threads")
    assert rows["kthreadd"]["class"] == "kthreadd" and rows["kthreadd"]["boosts"] == 0
    text = tek("kthreads", "--all", "--class", "kthreadd").stdout.splitlines()
    assert [line.split()[:3] for line in text
            if " kthreadd" in line] == [["2", "kthreadd", "kthreadd"]]
    refused = tek("kthreads", "--class", "pdflush")
    assert refused.returncode == 2 and "kswapd" in refused.stderr


def test_without_tekd_a_thread_of_the_kernel_is_explained_all_the_same(tek):
    ended = tek("explain", 2)
    if "thread of the kernel" not in ended.stdout:
        pytest.skip("needs /proc to show the kernel's threads")
    assert "No kernel thread follows the tasks that wait for it: tekd does not run" in ended.stdout


# The reports of tekd


def test_the_table_the_sentences_and_the_metrics_are_those_that_tekd_reports(tek, fake):
    fake(KTHREADS)
    lines = tek("kthreads").stdout.splitlines()
    row, = (line for line in lines if "kthreadd" in line)
    assert row.split()[:9] == ["2", "kthreadd", "kthreadd", "0.8", "15", "15", "fifo", "12", "nice"]
    assert row.endswith("player[812] x3, net\\u{1b}[2J[77]")
    assert lines[-2:] == ["Reaction p50 12us, p99 48us; 14 changes, 4000 events, 3 lost.",
                          "page cache: off: this kernel has not x"]
    assert "1 thread follows tasks that wait now, 1 of 2 dependencies off" in tek("status").stdout
    metrics = tek("exporter", "--once").stdout
    for line in ('tek_kthreads_boosted{class="kthreadd"} 1', "tek_kthread_events_lost_total 3",
                 'tek_kthread_reaction_seconds{quantile="0.99"} 0.000048'):
        assert line in metrics.splitlines()
    text = tek("explain", 2).stdout
    if "thread of the kernel" in text:
        assert ("kthreadd is at 12 because player[812] waits for its write to vda (3 files), and "
                "net\\u{1b}[2J[77] for a new kernel thread.") in text
        assert "weight 0.8 x mean 15 = 12" in text and "tekd leaves it alone" not in text


def test_a_tekd_that_makes_none_follow_is_reported_with_the_cure(tek, fake):
    fake({"on": False, "why": "tekd.toml has no [kthreads]"})
    text = tek("kthreads").stdout
    assert "tekd.toml has no [kthreads]" in text
    assert 'echo "[kthreads]" >> /etc/tek/tekd.toml' in text
    assert "kernel  its threads follow no task: tekd.toml has no [kthreads]" in tek("status").stdout
    assert "tek_kthreads_on 0" in tek("exporter", "--once").stdout.splitlines()


def test_an_older_tekd_that_knows_nothing_of_it_is_no_error(tek, tmp_path):
    daemon = FakeTekd(tmp_path / "tekd", AT_WORK)
    try:
        assert "knows nothing of it" in tek("kthreads").stdout
        assert tek("status").returncode == 0 and "\nkernel" not in tek("status").stdout
    finally:
        daemon.close()


def test_the_live_view_ends_with_a_signal(open_build, fake):
    fake(KTHREADS)
    with subprocess.Popen([open_build / "bin" / "tek", "kthreads", "--watch", "100ms"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as live:
        heads = 0
        while heads < 3:
            line = live.stdout.readline()
            assert line, "it ended by itself"
            heads += "A-SECOND" in line
        live.send_signal(signal.SIGTERM)
        live.stdout.read()
        assert live.wait(timeout=60) == 0


def test_doctor_reports_whether_they_can_follow(tek, as_nobody):
    check = {one["id"]: one for one in json.loads(tek("doctor", "--json").stdout)["checks"]}
    bpf, ours = check["bpf"]["answer"], check["kernel-threads"]
    assert bpf == "yes" or ours["answer"] != "yes", check
    without = json.loads(tek("doctor", "--json", prefix=as_nobody).stdout)["checks"]
    without, = (one for one in without if one["id"] == "kernel-threads")
    assert without["answer"] != "yes" and (without["answer"] == "no") == bool(without["cure"])


# With tekd


def test_a_task_that_queues_work_is_named_and_the_worker_has_its_priority(tek, tekd, player):
    tekd()
    follows(tek)
    pid = player(25).pid
    row = eventually(lambda: [row for row in boosted(tek, pid)
                              if row["name"].startswith("kworker/")])[0]
    assert (row["class"], row["weight"], row["usual"]["policy"]) == ("worker", 0.8, 0)
    member, = (one for one in row["members"] if one["tid"] == pid)
    assert (member["name"], member["priority"]) == ("player", 15)
    # At most the highest, and not below the weighted mean of the tasks that may wait with it.
    assert row["priority"] <= row["highest"]
    assert row["boosts"] >= 1
    assert eventually(lambda: f"player[{pid}]" in tek("kthreads").stdout)
    assert report_of(tek)["reaction_ns"]["n"] > 0


def test_the_worker_and_the_task_are_explained(tek, tekd, player):
    tekd()
    follows(tek)
    pid = player(60, rest=0).pid  # so that it nearly always waits

    def explained():
        # Any of them has its work at the time of the query.
        workers = [row["tid"] for row in report_of(tek)["threads"] if row["boosts"]]
        text = tek("explain", *workers).stdout if workers else ""
        return re.search(rf"(kworker/\S+) is at (\d+) because .*player\[{pid}\] waits for its work",
                         text) and text

    text = eventually(explained)
    assert re.search(r"That is weight 0.8 x mean [0-9.]+ = [0-9.]+, rounded, and at most", text)
    assert "By itself it has SCHED_OTHER, nice" in text and "gets that back 200 ms after" in text
    info = eventually(lambda: "follows it and is at" in tek("explain", pid).stdout
                      and tek("explain", "--json", pid).stdout)
    assert json.loads(info)["follows"] is None
    assert "No critical task waits for it" in tek("explain", 2).stdout


def test_afterwards_every_worker_has_its_own_priority_and_the_boosts_are_remembered(
        tek, tekd, player):
    tekd()
    follows(tek)
    process = player(2)
    eventually(lambda: boosted(tek, process.pid))
    process.wait(timeout=60)

    def at_rest():
        rows = [row for row in report_of(tek)["threads"] if row["boosts"]]
        return rows and not any(row["priority"] for row in rows) and rows

    rows = eventually(at_rest)
    for row in rows:
        stat = pathlib.Path(f"/proc/{row['tid']}/stat")
        if stat.exists():
            fields = stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            assert int(fields[38]) == row["usual"]["policy"], row
    info = json.loads(tek("explain", "--json", rows[0]["tid"]).stdout)["follows"]["thread"]
    assert info is None or info["boosts"] >= 1


def test_a_class_that_is_off_is_left_alone_and_shown_as_off(tek, tekd, player):
    tekd('[kthreads]\noff = ["worker"]\n')
    follows(tek)
    pid = player(25).pid
    waits = eventually(lambda: [row for row in report_of(tek)["threads"]
                                if row["class"] == "worker"
                                and pid in [it["tid"] for it in row["members"]]])
    assert not any(row["boosts"] or row["weight"] for row in waits)
    text = tek("explain", waits[0]["tid"]).stdout
    assert "its class, worker, is off in tekd.toml" in text


def test_without_the_table_none_follows(tek, tekd):
    tekd("")
    report = report_of(tek)
    assert (report["following"], report["why_not"]) == (False, "tekd.toml has no [kthreads]")
    assert "tekd leaves it alone" in tek("explain", 2).stdout
