# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek lab run, as its user sees it: with a QEMU that has a program of the tests as its guest, and
one boot of a real kernel."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BUILD
from paths import E2E

TEK = BUILD / "bin" / "tek"
FAKE = E2E / "fake_qemu.py"

needs_busybox = pytest.mark.skipif(
    not pathlib.Path("/bin/busybox").exists(), reason="needs busybox-static")
pytestmark = needs_busybox


class Lab:
    """tek lab with the simulated QEMU, and a temporary directory in which no file may stay."""

    def __init__(self, directory):
        self.directory = directory
        self.kernel = directory / "vmlinuz"
        self.kernel.touch()
        programs = directory / "programs"
        programs.mkdir()
        (programs / "qemu-system-x86_64").symlink_to(FAKE)
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self.environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(self.temporary)}

    def command(self, *arguments):
        return [TEK, "lab", "run", "--kernel", self.kernel, *arguments]

    def run(self, *arguments, status=0, **more):
        ended = subprocess.run(self.command(*arguments), env=self.environment, timeout=60,
                               capture_output=True, text=True, **more)
        assert ended.returncode == status, ended.stderr
        return ended

    def start(self, *arguments, **more):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
        return subprocess.Popen(self.command(*arguments), env=self.environment, **pipes)

    def start_and_wait_for_qemu(self, *arguments, action="tell"):
        """A run with a job that does not end, and the process id of its QEMU."""
        info = self.directory / "told"
        run = self.start(*arguments, "--", action, str(info))
        wait_until(info.exists)
        return run, int(info.read_text())

    def run_jobs(self, jobs, *arguments, status=0):
        file = self.directory / "jobs.json"
        file.write_text(json.dumps(jobs))
        ended = self.run("--jobs", file, *arguments, status=status)
        return [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


def wait_until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    assert not list(lab.temporary.iterdir())


# ---- one command ----


def test_output_and_status_are_the_commands_own(lab):
    ended = lab.run("--", "say", "out\n", "err\n")
    assert (ended.stdout, ended.stderr) == ("out\n", "err\n")
    lab.run("--", "exit", "7", status=7)


def test_a_command_gets_its_variables(lab):
    job = json.loads(lab.run("--env", "A=b=c", "--env", "B=", "--", "environment").stdout)
    assert job["environment"] == {"A": "b=c", "B": ""}


def test_options_change_the_machine(lab):
    ended = lab.run("--cpus", "3", "--memory", "600M", "--append", "a=b", "--append", "c",
                    "--", "arguments")
    arguments = json.loads(ended.stdout)
    after = {option: arguments[at + 1] for at, option in enumerate(arguments[:-1])}
    assert (after["-smp"], after["-m"]) == ("3", "614400K")
    assert after["-append"].endswith(" a=b c")
    assert "-gdb" not in after


def test_memory_without_a_unit_is_in_bytes(lab):
    arguments = json.loads(lab.run("--memory", "1073741824", "--", "arguments").stdout)
    assert arguments[arguments.index("-m") + 1] == "1048576K"


def test_gdb_is_waited_for_at_a_port_of_this_machine(lab):
    ended = lab.run("--gdb=4321", "--", "arguments")
    assert ended.stderr == "tek: waiting for gdb at 127.0.0.1:4321\n"
    arguments = json.loads(ended.stdout)
    assert arguments[arguments.index("-gdb") + 1] == "tcp:127.0.0.1:4321"
    assert "-S" in arguments
    assert "nokaslr" in arguments[arguments.index("-append") + 1]


@pytest.mark.parametrize("command, status, message", [
    (["kill", "11"], 139, "tek: the command was killed by SIGSEGV\n"),
    (["memory"], 137, "the guest had run out of memory; --memory gives it more"),
    (["missing"], 127, "could not be started: missing: No such file or directory"),
    (["denied"], 126, "could not be started: denied: Permission denied"),
    (["panic"], 125, "Kernel panic - not syncing: sysrq triggered crash\n"),
    (["off"], 125, "its guest, which powered off or rebooted"),
    (["die"], 125, "QEMU was killed by SIGKILL"),
    (["nonsense"], 125, "which sent what makes no sense: a frame of the unknown kind 0x7f"),
    (["endless"], 124, "ran past its limit and was ended (1s); --limit gives it more"),
])
def test_every_end_has_its_status_and_message(lab, command, status, message):
    limit = "1" if command == ["endless"] else "20"
    assert message in lab.run("--limit", limit, "--", *command, status=status).stderr


def test_a_panic_is_reported_with_the_consoles_last_lines(lab):
    info = lab.run("--", "panic", status=125).stderr
    assert "tek: the last lines of the guest's console:\n" in info
    assert info.endswith("    [    9.9] CPU: 0\n")


def test_the_console_can_be_watched(lab):
    assert lab.run("--console", "--", "exit", "0").stderr == "[    0.0] Linux version 0 (fake)\n"


def test_a_guest_that_does_not_boot_is_reported(lab):
    info = lab.run("--append", "refuse-to-boot", "--", "exit", "0", status=125).stderr
    assert "no guest came up: QEMU ended with status 1: qemu: no such machine" in info


def test_much_output_is_whole(lab):
    assert lab.run("--", "many-bytes", "500").stdout == "x" * 30_000_000


def test_a_reader_that_has_seen_enough_ends_the_run(lab):
    run = lab.start("--", "flood")
    assert run.stdout.readline() == "y\n"
    run.stdout.close()
    assert run.wait(60) == 0
    assert run.stderr.read() == ""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_stalls_does_not_put_off_the_limit(lab, stream):
    """No process reads the pipe until the run ends, as in `tek lab run -- yes | sleep 1000`."""
    begun = time.monotonic()
    run = lab.start("--limit", "1", "--", "pour", stream)
    assert run.wait(60) == 124
    assert time.monotonic() - begun < 30
    out, err = run.communicate(timeout=60)
    assert (out if stream == "stdout" else err).startswith("yyy")
    if stream == "stdout":
        assert "left out, because no process read it before the limit" in err


def test_a_reader_that_stalls_does_not_put_off_the_limit_of_jobs(lab):
    jobs = [{"name": "a", "command": ["pour", "stdout"]}, {"name": "b", "command": ["exit", "0"]}]
    file = lab.directory / "jobs.json"
    file.write_text(json.dumps(jobs))
    run = lab.start("--limit", "1", "--jobs", str(file))
    assert run.wait(60) == 1
    ended = [json.loads(line) for line in run.stdout]
    assert [end["outcome"] for end in ended] == ["timed-out", "exited"]
    run.communicate(timeout=60)


def test_a_full_disk_is_reported(lab):
    with open("/dev/full", "w") as full:
        run = lab.start("--", "say", "out", "", stdout=full)
        assert "cannot write to standard output: No space left" in run.communicate(timeout=60)[1]
    assert run.returncode == 125


def test_a_program_of_this_machine_is_called_by_its_path_there(lab):
    program = lab.directory / "program"
    shutil.copy("/bin/true", program)
    info = lab.run("--", "./program", status=126, cwd=lab.directory).stderr
    assert f"could not be started: {program}: Permission denied" in info
    # Not in the guest, but in the PATH of this machine.
    info = lab.run("--", "python3", status=126).stderr
    assert "/python3: Permission denied" in info


# ---- errors before anything boots ----


@pytest.mark.parametrize("arguments, message", [
    (["--kernel", "/no/such/file", "--", "a"], "tek: cannot read /no/such/file: No such file"),
    (["--kernel", "/dev", "--", "a"], "tek: /dev is no kernel image: it is no regular file"),
    (["--kernel", "/dev/null", "--", "a"], "tek: /dev/null is no kernel image"),
    (["--add", "/no/such/file", "--", "a"], "tek: --add /no/such/file: cannot read"),
    (["--add", "/bin/sh:sh", "--", "a"], "the place in the guest, sh, must begin with /"),
    (["--out", "/bin", "--", "a"], "tek: /bin is not empty; remove it, or name another"),
    (["--tek", "/no/such", "--", "a"], "tek: cannot read /no/such/bin/tek, which every guest has"),
    (["--jobs", "/no/such/file"], "tek: cannot read /no/such/file"),
    (["--", "a" * 70_000], "tek: job command is too long"),
])
def test_a_mistake_is_reported_before_anything_boots(lab, arguments, message):
    if "--kernel" in arguments:
        lab.command = lambda *arguments: [TEK, "lab", "run", *arguments]
    assert message in lab.run(*arguments, status=125).stderr


@pytest.mark.parametrize("arguments", [
    [], ["--limit", "0", "--", "a"], ["--memory", "0", "--", "a"], ["--memory", "1GB", "--", "a"],
    ["--memory", "1K", "--", "a"], ["--memory", "67108863", "--", "a"],
    ["--cpus", "0", "--", "a"], ["--jobs", "x", "--", "a"], ["--results", "x", "--", "a"],
    ["--gdb=x", "--", "a"], ["--gdb=0", "--", "a"], ["--with", "x", "--", "a"],
])
def test_options_that_make_no_sense_are_refused(lab, arguments):
    assert "error: " in lab.run(*arguments, status=2).stderr


@pytest.mark.parametrize("arguments, message", [
    ([], "<COMMAND>"),
    (["--", ""], "error: COMMAND is empty"),
    (["--env", "A", "--", "a"], "write it as NAME=VALUE"),
    (["--env", "=x", "--", "a"], "write it as NAME=VALUE"),
    (["--kind", "rtx", "--", "a"], "no kind rtx; there are arm64, board, filesystems, hotplug"),
])
def test_what_is_wrong_with_an_option_is_reported(lab, arguments, message):
    assert message in lab.run(*arguments, status=2).stderr


def test_what_is_missing_here_is_reported_at_once_with_the_command_that_installs_it(lab):
    (lab.directory / "nothing").mkdir()
    lab.environment["PATH"] = str(lab.directory / "nothing")
    info = lab.run("--disk", "10M", "--", "exit", "0", status=125).stderr
    assert "busybox (in every guest), " in info and "qemu-system-x86_64 (the machine): " in info
    assert "busybox-static " in info and info.endswith(" qemu-system-x86\n"), info


def test_nothing_is_downloaded_before_all_that_is_needed_here_is_there(lab, tmp_path):
    """The configured archive does not exist, and nothing is requested from it."""
    (lab.directory / "nothing").mkdir()
    lab.environment["PATH"] = str(lab.directory / "nothing")
    cache = tmp_path / "cache"
    command = [TEK, "lab", "run", "--cache", cache, "--mirror", tmp_path / "no-archive"]
    for arguments, wanted in ((["--", "true"], "busybox-static"),
                              (["--add", "/no/such", "--", "true"], "not installed")):
        ended = subprocess.run([*command, *arguments], env=lab.environment, timeout=50,
                               capture_output=True, text=True)
        assert ended.returncode == 125 and wanted in ended.stderr, ended.stderr
        assert "no-archive" not in ended.stderr and not cache.exists()
    lab.environment["PATH"] = f"{lab.directory / 'programs'}:{os.environ['PATH']}"
    for arguments, wanted, status in (
            (["--add", "/no/such", "--", "true"], "cannot read /no/such", 125),
            (["--", "./no-such-program"], "there is no program ./no-such-program", 127),
            (["--tek", "/no/such", "--", "true"], "cannot read /no/such/bin/tek", 125)):
        ended = subprocess.run([*command, *arguments], env=lab.environment, timeout=50,
                               capture_output=True, text=True)
        assert (ended.returncode, wanted in ended.stderr) == (status, True), ended.stderr
        assert not cache.exists()


# ---- ends from outside ----


@pytest.mark.parametrize("deadly", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_qemu_ends_with_tek(lab, deadly):
    run, qemu = lab.start_and_wait_for_qemu()
    run.send_signal(signal.Signals[deadly])
    assert run.wait(60) == -signal.Signals[deadly]
    wait_until(lambda: is_gone(qemu), 5)


def test_qemu_is_out_of_reach_of_the_terminals_ctrl_c(lab):
    run, qemu = lab.start_and_wait_for_qemu(action="tell")
    assert os.getpgid(qemu) == qemu != os.getpgid(run.pid)
    run.kill()
    run.wait(60)


def test_qemu_killed_from_outside_is_a_failure_with_a_reason(lab):
    run, qemu = lab.start_and_wait_for_qemu()
    os.kill(qemu, signal.SIGKILL)
    assert "ended with its guest: QEMU was killed by SIGKILL" in run.communicate(timeout=60)[1]
    assert run.returncode == 125


def test_qemu_stopped_from_outside_ends_at_the_limit(lab):
    run, qemu = lab.start_and_wait_for_qemu("--limit", "1")
    os.kill(qemu, signal.SIGSTOP)
    assert "the guest did not answer any more (1s)" in run.communicate(timeout=60)[1]
    assert run.returncode == 124
    assert is_gone(qemu)


# ---- files ----


def test_files_are_brought_back(lab):
    out = lab.directory / "out"
    info = lab.run("--out", out, "--", "files", "a=1", "deep/b=2", "link@/etc/passwd").stderr
    assert (out / "a").read_text() == "1"
    assert (out / "deep" / "b").read_text() == "2"
    assert sorted(path.name for path in out.iterdir()) == ["a", "deep"]
    assert info == "tek: left out link: no regular file\n"


@pytest.mark.parametrize("entry", ["../evil=1", "/tmp/evil-of-test-lab=1", "a/../../evil=1"])
def test_a_file_that_leads_out_is_refused(lab, entry):
    out = lab.directory / "out"
    info = lab.run("--out", out, "--", "files", entry, status=125).stderr
    assert "which leads out of $OUT" in info
    assert not list(out.iterdir())
    assert not (lab.directory / "evil").exists()


def test_more_files_than_allowed_are_not_stored(lab):
    out = lab.directory / "out"
    info = lab.run("--out", out, "--most", "4K", "--", "files", "a=" + "x" * 5000, status=125)
    assert "are more than the 4096 bytes that --most allows" in info.stderr
    assert not list(out.iterdir())


@pytest.mark.parametrize("status, info", [(0, 125), (3, 3)])
def test_files_that_cannot_be_brought_back_are_reported_and_no_success(lab, status, info):
    out = lab.directory / "out"
    seen = lab.run("--out", out, "--", "lose-files", str(status), status=info).stderr
    assert seen == "tek: not brought back from $OUT: File name too long: $OUT/d\n"
    assert (out / "a").read_text() == "1"
    jobs = [{"name": "a", "command": ["lose-files", str(status)], "files": True}]
    ended, _ = lab.run_jobs(jobs, "--results", lab.directory / "results", status=125)
    assert ended[0]["lost"] == ["File name too long: $OUT/d"]


# ---- lists of jobs ----


def test_each_job_is_reported_and_what_it_wrote_is_stored(lab):
    results = lab.directory / "results"
    jobs = [
        {"name": "good", "command": ["say", "out", "err"]},
        {"name": "files", "command": ["files", "a=1"], "files": True},
        {"name": "panic", "command": ["panic"]},
        {"name": "messy", "command": ["leave"]},
        {"name": "bad", "command": ["exit", "3"]},
        {"name": "long", "command": ["many-bytes", "2"]},
    ]
    ended, info = lab.run_jobs(jobs, "--results", results, "--most", "100K", status=1)
    assert info == ""
    by_name = {end["job"]: end for end in ended}
    assert list(by_name) == [job["name"] for job in jobs]
    assert [end["outcome"] for end in ended] == ["exited", "exited", "panicked"] + ["exited"] * 3
    assert [end["boot"] for end in ended] == [1, 1, 1, 2, 3, 3]
    assert by_name["bad"]["status"] == 3
    assert by_name["messy"]["left"] == ["a mount"]
    assert by_name["panic"]["why"] == "Kernel panic - not syncing: sysrq triggered crash"
    assert by_name["panic"]["console"][-1] == "[    9.9] CPU: 0"
    assert (results / "good" / "stdout").read_text() == "out"
    assert (results / "good" / "stderr").read_text() == "err"
    assert (results / "files" / "files" / "a").read_text() == "1"
    assert "Kernel panic" in (results / "console-1.log").read_text()
    assert (results / "long" / "stdout").read_text().endswith("left out]\n")


def test_jobs_that_all_end_well_are_a_success(lab):
    ended, info = lab.run_jobs([{"name": "a", "command": ["say", "out", "err"]}])
    assert ended[0]["status"] == 0
    assert sorted(info) == sorted("outerr")


@pytest.mark.parametrize("jobs, message", [
    ([{"name": "a/b", "command": ["a"]}], '"a/b" is no name for a job'),
    ([{"name": "a", "command": ["a"]}] * 2, "two jobs are named a"),
    ([{"name": "a", "command": []}], "job a has no command"),
    ([{"name": "a", "command": ["a"], "limits": 3}], "unknown field `limits`"),
    ({"name": "a"}, "is no JSON array of jobs"),
])
def test_jobs_that_make_no_sense_are_refused(lab, jobs, message):
    assert message in lab.run_jobs(jobs, status=125)[1]


def test_results_that_cannot_be_stored_end_the_run_after_the_job(lab):
    results = lab.directory / "results"
    jobs = [{"name": "a", "command": ["spoil", str(results)]}]
    jobs += [{"name": name, "command": ["exit", "0"]} for name in "bc"]
    ended, info = lab.run_jobs(jobs, "--results", results, status=125)
    assert [end["job"] for end in ended] == ["a"]
    assert f"tek: 2 jobs were not run: cannot write {results}/a" in info


def test_no_jobs_are_no_failure(lab):
    assert lab.run_jobs([]) == ([], "")


# ---- a real one ----


def test_a_real_kernel_boots_and_runs_a_command(tmp_path):
    """A short version of `make check-lab`; runs only with all that it needs."""
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("needs qemu-system-x86")
    listed = subprocess.run([TEK, "lab", "list", "--json"], capture_output=True, text=True,
                            timeout=60, check=True)
    cached = {kind["kind"]: kind["cached"] for kind in json.loads(listed.stdout)["kinds"]}
    if not cached["rt"]:
        pytest.skip("needs a kernel in the cache: tek lab fetch --kind rt")
    run = subprocess.run([TEK, "lab", "run", "--limit", "30", "--", "sh", "-c",
                          "cat /proc/version; exit 3"],
                         capture_output=True, text=True, timeout=180)
    assert (run.returncode, "PREEMPT_RT" in run.stdout) == (3, True), run.stderr


def test_a_program_that_is_not_there_is_reported_before_a_guest_is_booted(lab):
    info = lab.run("--", "./no-such-program", status=127).stderr
    assert info.startswith("tek: there is no program ./no-such-program on this machine")


def test_the_two_dashes_before_the_command_can_be_left_out(lab):
    assert lab.run("exit", "3", status=3).stderr == ""
