# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whatever happens in a guest is a failed test within its limit, and the other tests still run.

Runs on this machine, and boots guests. What fails here is meant to fail: that is what is tested.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

TEK = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve() / "bin" / "tek"
MARK = "TEK_LAB_TEST"
# Seconds that `tek lab run` gives a guest to end a job, to send its output and to clear up:
# crates/tek-lab/src/command/machine.rs.
ENDING = 5 + 3 + 60

# Loops on every CPU: only the kernel's stoppers have precedence over SCHED_FIFO 99, and nothing
# takes the CPU from it once throttling is off.
LOOPS = """
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
for cpu in $(seq 0 $(($(nproc) - 1))); do
	taskset -c $cpu chrt -f 99 sh -c 'while :; do :; done' &
done
wait
"""
JOBS = [
    {"name": "first", "command": ["true"]},
    {"name": "panics", "command": ["sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60"],
     "limit": 30},
    {"name": "after-panic", "command": ["true"]},
    {"name": "loops", "command": ["sh", "-c", LOOPS], "limit": 10},
    {"name": "after-loop", "command": ["true"]},
    {"name": "fills", "command": ["tail", "/dev/zero"], "limit": 300},
    {"name": "after-filling", "command": ["true"]},
    {"name": "overdue", "command": ["sleep", "300"], "limit": 2},
    {"name": "after-overdue", "command": ["true"]},
    {"name": "powers-off", "command": ["poweroff", "-f"], "limit": 30},
    {"name": "after-power-off", "command": ["true"]},
    {"name": "killed", "command": ["sh", "-c", "echo runs; sleep 300"], "limit": 300},
    {"name": "last", "command": ["true"]},
]


def marked(mark):
    """The processes that were started with this mark, ours excepted."""
    found = {}
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found[int(directory.name)] = (directory / "comm").read_text().rstrip("\n")
        except OSError:
            pass  # it has ended
    return found


def eventually(find, seconds=30):
    end = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
    return found


# Runs a command with a directory as its /dev/shm: files of other programs there are not the lab's.
OWN_SHARED = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/shm && exec "$@"']


class Lab:
    """`tek lab run` in a directory of its own, with whatever it leaves there."""

    def __init__(self, directory):
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        self.shared = directory / "shared"
        self.shared.mkdir()
        self.results = directory / "results"
        self.directory = directory

    def start(self, *arguments):
        command = [TEK, "lab", "run", "--kind", "rt", "--add", shutil.which("chrt"), *arguments]
        if os.geteuid() == 0:
            command = [*OWN_SHARED, self.shared, *command]
        environment = os.environ | {MARK: self.mark, "TMPDIR": str(self.scratch)}
        with (self.directory / "stderr").open("wb") as complaints:
            return subprocess.Popen(command, cwd=self.scratch, env=environment, text=True,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=complaints)

    def machines(self):
        return [pid for pid, name in marked(self.mark).items() if name.startswith("qemu")]

    def left(self):
        """Processes and files that should be gone."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: not marked(self.mark))
        return [*marked(self.mark).values(), *self.scratch.iterdir(), *self.shared.iterdir()]


@pytest.fixture(scope="module", autouse=True)
def a_machine_can_be_booted():
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is missing (Debian's qemu-system-x86)")
    fetched = subprocess.run([TEK, "lab", "fetch", "--kind", "rt"], capture_output=True, text=True,
                             timeout=600, check=False)
    if fetched.returncode:
        pytest.skip(fetched.stderr.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """All jobs, run once: the outcome of each by its name, and the lab."""
    lab = Lab(tmp_path_factory.mktemp("session"))
    jobs = lab.directory / "jobs.json"
    jobs.write_text(json.dumps(JOBS))
    ended = {}
    with lab.start("--jobs", jobs, "--results", lab.results) as process:
        try:
            for line in process.stdout:
                record = json.loads(line)
                ended[record["job"]] = record
                if record["job"] == "after-power-off":
                    seen = lab.results / "killed" / "stdout"
                    eventually(lambda: seen.exists() and seen.read_text(), 120)
                    machine, = lab.machines()
                    os.kill(machine, signal.SIGKILL)
            process.wait(timeout=120)
        finally:
            process.kill()
    lab.status = process.returncode
    return ended, lab


def test_every_job_has_an_end_and_the_other_jobs_still_ran(session):
    ended, lab = session
    assert list(ended) == [job["name"] for job in JOBS]
    for name, record in ended.items():
        if name in ("first", "last") or name.startswith("after-"):
            assert (record["outcome"], record.get("status")) == ("exited", 0), record
        else:
            assert record["outcome"] != "exited", record
            # The kernel reports nothing about a program that was merely late.
            assert record["console"] or name == "overdue", name


def test_a_list_with_failed_jobs_has_failed(session):
    _, lab = session
    assert lab.status == 1


def test_every_job_ended_within_its_limit_and_what_ending_it_takes(session):
    ended, _ = session
    for job in JOBS:
        assert ended[job["name"]]["seconds"] <= job.get("limit", 60) + ENDING


def test_a_panic_of_the_guest_is_reported_with_its_console(session):
    record = session[0]["panics"]
    assert record["outcome"] == "panicked"
    assert "sysrq triggered crash" in record["why"]
    assert any("Kernel panic" in line for line in record["console"])


def test_a_loop_under_fifo_99_without_throttling_is_a_guest_that_hangs(session):
    record = session[0]["loops"]
    assert record["outcome"] == "hung"
    # a boot that fails by chance is tried again
    assert session[0]["after-loop"]["boot"] > record["boot"]


def test_a_program_that_takes_all_memory_is_distinguished_from_one_that_crashed(session):
    record = session[0]["fills"]
    assert (record["outcome"], record["signal"], record["out_of_memory"]) == ("killed", 9, True)
    # A second report may have begun before the first program was gone.
    signs = ("Out of memory", "oom-kill", "Mem-Info", "hugepages")
    assert any(sign in line for line in record["console"] for sign in signs)


def test_a_program_past_its_limit_is_ended_and_costs_no_boot(session):
    record = session[0]["overdue"]
    assert record["outcome"] == "timed-out"
    assert session[0]["after-overdue"]["boot"] == record["boot"]


def test_a_guest_that_powers_off_is_no_success(session):
    assert session[0]["powers-off"]["outcome"] == "stopped"


def test_a_killed_qemu_fails_the_job_that_ran_in_it_and_no_other(session):
    record = session[0]["killed"]
    assert record["outcome"] == "qemu-died"
    assert session[0]["last"]["boot"] > record["boot"]  # a boot that fails by chance is tried again


def test_no_process_and_no_file_is_left(session):
    assert session[1].left() == []


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_lab_that_is_killed_takes_its_machine_with_it(tmp_path, sent):
    lab = Lab(tmp_path)
    with lab.start("--", "sh", "-c", "echo runs; sleep 60") as process:
        assert process.stdout.readline() == "runs\n"
        process.send_signal(sent)
        process.wait(timeout=120)
    assert process.returncode != 0
    assert lab.left() == []


def test_a_guest_that_does_not_come_up_is_reported_with_its_console(tmp_path):
    lab = Lab(tmp_path)
    with lab.start("--append", "rdinit=/bin/nothing init=/bin/nothing", "--", "true") as process:
        assert process.wait(timeout=600) == 125
    complaints = (tmp_path / "stderr").read_text()
    assert "Kernel panic" in complaints
    assert lab.left() == []
