# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd puts programs and threads into groups, and tek shows each one's group."""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import BUILD, child_of, eventually, listens_at, tids_by_name

TEKD = BUILD / "bin" / "tekd"

pytestmark = [
    pytest.mark.skipif(not TEKD.exists(), reason="tekd is not built"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start tekd"),
]

RULES = """\
[[rule]]
match = { thread = "cloud" }
set = { group = "background" }
"""


class Daemon:
    """A tekd that touches only processes that this test starts, in groups of its own."""

    def __init__(self, directory):
        self.socket = directory / "tekd"
        self.directory = directory
        self.name = f"tek-test-{os.getpid()}"
        self.process = None

    def start(self, groups=True):
        table = f'[groups]\nname = "{self.name}"\n' if groups else ""
        (self.directory / "tekd.toml").write_text('backend = "rt"\n' + table)
        with (self.directory / "log").open("w") as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(
                [TEKD, "--socket", self.socket, "--state", self.directory / "state", "--config",
                 self.directory / "tekd.toml", "--domain", f"pid:{os.getpid()}"],
                stdin=subprocess.DEVNULL, stderr=log)
        eventually(lambda: listens_at(self.socket) or self.process.poll() is not None)
        return self

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)

    def needs_groups(self, tek):
        report = groups_of(tek)
        if not report["in_force"]:
            pytest.skip(f"needs control groups with weights: {report['why_not']}")
        return report


@pytest.fixture
def tekd(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path)
    monkeypatch.setenv("TEK_SOCKET", str(daemon.socket))
    yield daemon
    daemon.end()


@pytest.fixture
def start(waiting, open_build):
    """Starts a program with waiting threads of these names, under tek run with these options."""
    started = []

    def run(*names, under=None):
        prefix = [open_build / "bin" / "tek", "run", *under, "--"] if under is not None else []
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([*prefix, waiting, *names], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        pid = child_of(process.pid) if prefix else process.pid
        return process, pid, tids_by_name(pid, names)

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def groups_of(tek):
    ended = tek("groups", "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def seat(tid):
    """The name of the group that a thread's control groups are of."""
    text = pathlib.Path(f"/proc/{tid}/cgroup").read_text(encoding="utf-8")
    seats = [line.rsplit("/", 1)[1] for line in text.splitlines() if "/lazy/" in line]
    return seats[0] if seats else None


def shown(tek, tid):
    """The group that tek ps shows."""
    ended = tek("ps", "--tid", tid, "--columns", "tid,group", "--json")
    assert ended.returncode == 0, ended.stderr
    threads = json.loads(ended.stdout)
    return (threads["threads"] if isinstance(threads, dict) else threads)[0]["group"]


def test_a_program_begins_in_the_group_that_tek_run_gives_it_and_so_do_its_threads(tek,
                                                                                   tekd, start):
    tekd.start().needs_groups(tek)
    _, pid, tids = start("ui", "net", under=["--group", "background"])
    for tid in (pid, *tids.values()):
        eventually(lambda tid=tid: (seat(tid), shown(tek, tid)) == ("background", "background"))
    rows = {row["name"]: row for row in groups_of(tek)["groups"]}
    assert rows["background"]["threads"] >= 3
    assert [row["name"] for row in groups_of(tek)["groups"]] == [
        "urgent", "normal", "service", "background"]


def test_a_thread_that_a_rule_places_is_in_its_group_and_the_other_ones_are_not(
        tek, tekd, start, tmp_path):
    tekd.start().needs_groups(tek)
    (tmp_path / "rules.toml").write_text(RULES)
    _, pid, tids = start("cloud", "ui", under=["--rules", tmp_path / "rules.toml"])
    eventually(lambda: seat(tids["cloud"]) == "background")
    eventually(lambda: [seat(pid), seat(tids["ui"])] == ["normal", "normal"])
    facts = json.loads(tek("explain", "--json", tids["cloud"]).stdout)
    assert facts["daemon"]["group"] == facts["group"] == "background"
    assert "tekd has it in the group background: its program." in tek(
        "explain", tids["cloud"]).stdout


def test_a_process_without_libtek_is_placed_by_hand_and_shown_so(tek, tekd, start):
    tekd.start().needs_groups(tek)
    _, pid, tids = start("net")
    ended = tek("groups", "set", pid, "service")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "in the group service" in ended.stdout
    # The last of its threads are moved a little later.
    eventually(lambda: [seat(tid) for tid in (pid, tids["net"])] == ["service", "service"])
    assert shown(tek, tids["net"]) == "service"
    assert tek("groups", "set", "--thread", tids["net"], "urgent").returncode == 0
    assert [seat(tid) for tid in (pid, tids["net"])] == ["service", "urgent"]
    text = tek("explain", tids["net"]).stdout
    assert "in the group urgent: by hand: tek[" in text
    refused = tek("groups", "set", os.getpid() + 4_000_000, "service")
    assert refused.returncode == 1 and "there is no process" in refused.stderr


def test_where_there_are_no_groups_each_program_gets_one_message_and_runs_on(tek, tekd, start):
    tekd.start(groups=False)
    process, pid, tids = start("cloud", under=["--group", "background"])
    assert seat(pid) is None and shown(tek, tids["cloud"]) == "background"
    report = groups_of(tek)
    assert not report["in_force"] and "[groups]" in report["why_not"]
    ended = tek("groups", "set", pid, "service")
    assert ended.returncode == 1 and 'echo "[groups]" >> /etc/tek/tekd.toml' in ended.stderr
    process.terminate()
    _, messages = process.communicate(timeout=60)
    assert messages.count("is not put into the group background") == 1
    assert "groups are not in force" in messages


def test_without_tekd_tek_run_reports_that_once_and_the_tables_have_the_groups(tek, tekd, start):
    assert not tekd.socket.exists()
    process, pid, _ = start("cloud", under=["--group", "service"])
    rows = {row["name"]: row for row in groups_of(tek)["groups"]}
    assert rows["service"]["threads"] >= 2 and rows["service"]["weight"] is None
    assert shown(tek, pid) == "service"
    text = tek("explain", pid).stdout
    assert "Its group is service" in text and "What tekd did" not in text
    process.terminate()
    _, messages = process.communicate(timeout=60)
    assert messages.count("tekd does not run") == 1


def test_when_tekd_stops_everybody_is_where_it_was(tek, tekd, start):
    tekd.start().needs_groups(tek)
    _, pid, _ = start("net", under=["--group", "urgent"])
    eventually(lambda: seat(pid) == "urgent")
    tekd.end()
    assert seat(pid) is None
    assert not [one for one in pathlib.Path("/sys/fs/cgroup").glob(f"*/{tekd.name}")]


def test_a_thread_that_tekd_may_not_touch_is_explained(tek, tekd):
    tekd.start()
    facts = json.loads(tek("explain", "--json", 1).stdout)
    assert facts["daemon"]["outside_domain"]
    assert "tekd leaves it alone" in tek("explain", 1).stdout
    assert "tekd leaves it alone" in tek("explain", 2).stdout
