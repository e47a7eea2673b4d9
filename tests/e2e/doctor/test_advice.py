# SPDX-License-Identifier: MIT OR Apache-2.0
"""Advice works when it is followed literally: each test reads a message, follows its advice in a
namespace of its own, and checks that the message is gone. docs/advice.md lists all advice."""
import json
import os
import pathlib
import re
import select
import shlex
import shutil
import subprocess

import pytest

from conftest import BUILD, INCLUDE, child_of, eventually, needs, tids_by_name

TEK = BUILD / "bin" / "tek"
CPU = pathlib.Path("/sys/fs/cgroup/cpu")

pytestmark = pytest.mark.skipif(os.geteuid() != 0,
                                reason="needs root, to follow advice that is for root")


def command_of(line):
    """The command in a line of advice: behind the last `: `, which may follow `as root`."""
    return re.split(r": (?=\S)", line)[-1]


class Shell:
    """A shell for typed commands."""

    def __init__(self, *prefix):
        self.process = subprocess.Popen([*prefix, "sh"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def type(self, line):
        """Its status and its output."""
        self.process.stdin.write(f"{line}\necho \"$? that was it\"\n")
        self.process.stdin.flush()
        text, out = "", self.process.stdout.fileno()
        while not (end := re.search(r"^(\d+) that was it\n", text, re.M)):
            assert select.select([out], [], [], 60)[0], f"{line}: {text}"
            more = os.read(out, 65536).decode()
            assert more, f"the shell ended: {text}"
            text += more
        return int(end[1]), text[:end.start()]

    def does(self, line):
        status, text = self.type(line)
        assert status == 0, f"{line}: {text}"
        return text

    def doctor(self):
        """The checks and backends of `tek doctor`, started from this shell."""
        info = json.loads(self.type(f"{TEK} doctor --json")[1])
        answers = {check["id"]: (check["answer"], check["cure"]) for check in info["checks"]}
        backends = {backend["name"]: ("yes" if backend["usable"] else "no", backend["cure"])
                    for backend in info["backends"]}
        return answers | backends

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=20)
        self.process.stdout.close()


@pytest.fixture
def shell():
    """Starts shells, with a prefix."""
    started = []

    def start(*prefix):
        started.append(Shell(*prefix))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def apart(shell):
    """A shell of root with mounts of its own, so that this machine is not changed."""
    one = shell(needs("unshare"), "--mount", "--propagation", "private")
    if one.process.poll() is not None or one.type("true")[0]:
        pytest.skip("needs a mount namespace")
    return one


@pytest.fixture
def nobody(shell):
    """A shell of a user without privilege, on a system that could grant it privileges."""
    return shell(needs("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups",
                 "--inh-caps=-all")


def has_capability(number):
    bounding = re.search(r"CapBnd:\t(\w+)", pathlib.Path("/proc/self/status").read_text())[1]
    return int(bounding, 16) >> number & 1


def in_a_new_shell(cure, command):
    """Runs a command in the shell that a line of advice starts."""
    line = next(line for line in cure.splitlines() if "setpriv" in line)
    return Shell("sh", "-c", f"exec {command_of(line)} -c '{command}'")


# ---- tek doctor ----


def test_a_user_gets_real_time_priorities_for_a_shell(nobody, shell):
    answer, cure = nobody.doctor()["rt-privilege"]
    assert answer == "no"
    now = cure.splitlines()[0]
    if "prlimit" in now:
        # The command names the shell that doctor was started from.
        assert f"--pid {nobody.process.pid} " in now
        shell().does(command_of(now))
        after = nobody.doctor()
    else:
        new = in_a_new_shell(cure, "exec sh")
        after = new.doctor()
        new.end()
    assert [after[name][0] for name in ("rt-privilege", "rt-trial", "rt")] == ["yes", "yes", "yes"]


def test_a_user_gets_them_for_good(nobody, apart):
    line, = (line for line in nobody.doctor()["rt-privilege"][1].splitlines() if "limits.d" in line)
    apart.does("mount -t tmpfs none /etc/security/limits.d")
    apart.does(command_of(line))
    assert apart.does("cat /etc/security/limits.d/tek.conf") == "nobody - rtprio 60\n"
    if not has_capability(24):
        pytest.skip("the rest needs CAP_SYS_RESOURCE: to log in with a higher limit")
    # As login, sshd and the like do, which have pam_limits too.
    apart.does("mount -t tmpfs none /etc/pam.d && printf 'auth sufficient pam_rootok.so\\n"
               "account required pam_permit.so\\n"
               "session required pam_limits.so\\n' > /etc/pam.d/su")
    assert apart.does("su -s /bin/sh nobody -c 'ulimit -r'") == "60\n"


@pytest.mark.parametrize("check", ["bpf", "kernel-threads"])
def test_a_user_gets_capabilities_for_a_shell(nobody, check):
    answer, cure = nobody.doctor()[check]
    if answer == "no" and "CONFIG" in cure:
        pytest.skip(f"this kernel has not what {check} needs")
    assert answer == "no"
    if not (has_capability(38) and has_capability(39)):
        pytest.skip("needs CAP_BPF and CAP_PERFMON")
    root = Shell()
    _, output = root.type(command_of(cure.splitlines()[0]) + " --json")
    assert f'"id": "{check}",\n      "answer": "yes"' in output
    root.end()
    new = in_a_new_shell(cure, "exec sh")
    assert new.doctor()[check][0] == "yes"
    new.end()


def test_root_can_what_doctor_reports_that_root_can(nobody, shell):
    answer, cure = nobody.doctor()["fair"]
    if answer == "yes" or "CONFIG" in cure:
        pytest.skip("nothing is missing that root has")
    _, output = shell().type(command_of(cure.splitlines()[0]) + " --json")
    assert '"name": "fair",\n      "usable": true' in output


def test_without_control_groups_they_are_mounted(apart):
    apart.type("while umount $(awk '$3 ~ /^cgroup/ { print $2 }' /proc/mounts | tac) 2>/dev/null; "
               "do :; done")
    before = apart.doctor()
    if before["cgroup"][0] == "yes":
        pytest.skip("the control groups of this machine cannot be unmounted")
    # Each cure alone: one of them may be enough.
    apart.does(command_of(before["fair"][1]))
    assert apart.doctor()["fair"] == ("yes", None)
    if apart.doctor()["cgroup"][0] == "no":
        apart.does(command_of(before["cgroup"][1]))
    assert apart.doctor()["cgroup"] == ("yes", None)


@pytest.fixture
def group():
    """A group of version 1 within another one, neither of which has real-time run-time."""
    if not (CPU / "cpu.rt_runtime_us").exists():
        pytest.skip("needs control groups of version 1 with CONFIG_RT_GROUP_SCHED")
    outer = CPU / f"tek-advice-{os.getpid()}"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    yield inner
    for procs in inner, outer:
        for pid in (procs / "cgroup.procs").read_text().split():
            (CPU / "cgroup.procs").write_text(pid)
    inner.rmdir()
    outer.rmdir()


@pytest.mark.parametrize("which", ["move this shell", "give the group a share"])
def test_a_group_without_real_time_run_time_gets_some(shell, group, which):
    inside = shell()
    inside.does(f"echo $$ > {group}/cgroup.procs")
    before = inside.doctor()
    assert before["rt-group-sched"][0] == before["rt-trial"][0] == "no"
    line, = (line for line in before["rt-group-sched"][1].splitlines() if which in line)
    # Typed in another shell, as by root in another terminal.
    shell().does(command_of(line))
    after = inside.doctor()
    answers = [after[name][0] for name in ("rt-group-sched", "rt-trial", "rt")]
    assert answers == ["yes", "yes", "yes"]


def test_throttling_that_leaves_nothing_is_set_right(apart, tmp_path):
    """With a file of its own in the setting's place."""
    (tmp_path / "runtime").write_text("0\n")
    apart.does(f"mount --bind {tmp_path}/runtime /proc/sys/kernel/sched_rt_runtime_us")
    answer, cure = apart.doctor()["rt-throttling"]
    assert answer == "no"
    apart.does(command_of(cure))
    assert (tmp_path / "runtime").read_text() == "950000\n"
    assert apart.doctor()["rt-throttling"] == ("yes", None)


def test_a_fair_server_that_is_off_is_set_on_by_the_name_of_its_cpu(apart, tmp_path):
    (tmp_path / "runtime").write_text("-1\n")
    apart.does(f"mount --bind {tmp_path}/runtime /proc/sys/kernel/sched_rt_runtime_us")
    apart.does("mount -t tmpfs none /sys/kernel/debug")
    for cpu, runtime in enumerate([50_000_000, 0, 0]):
        server = f"/sys/kernel/debug/sched/fair_server/cpu{cpu}"
        apart.does(f"mkdir -p {server} && echo {runtime} > {server}/runtime && "
                   f"echo 1000000000 > {server}/period")
    answer, cure = apart.doctor()["rt-throttling"]
    assert answer == "no" and "cpu0" not in cure and "cpuN" not in cure
    for line in cure.splitlines():
        apart.does(re.sub(r"^and ", "", command_of(line)))
    assert apart.doctor()["rt-throttling"] == ("yes", None)


def test_no_cure_names_a_placeholder_or_a_program_that_is_not_here(nobody):
    for name, (_, cure) in nobody.doctor().items():
        for line in (cure or "").splitlines():
            assert not re.search(r"cpuN|\bUSER\b|\$\$|<", line), (name, line)
            assert "sudo" not in line or shutil.which("sudo")


# ---- packages ----


def is_known(package):
    """Whether this machine's apt could install it."""
    info = subprocess.run([needs("apt-get"), "--simulate", "install", package], capture_output=True,
                          text=True, timeout=60, check=False)
    return info.returncode == 0 or "Unable to locate" not in info.stderr


@pytest.mark.parametrize("name", ["mimalloc", "jemalloc", "tcmalloc"])
def test_the_package_of_an_allocator_is_one_that_apt_has(apart, name):
    found = apart.type(f"{TEK} run --alloc {name} -- sh -c 'echo $LD_PRELOAD'")[1]
    for library in re.findall(rf"/[^:\s]*lib(?:{name}|tcmalloc)[^:\s]*", found):
        for path in pathlib.Path(library).parent.glob(f"lib{name}*.so*"):
            apart.does(f"mount --bind /dev/null {path}")
    status, info = apart.type(f"{TEK} run --alloc {name} -- true")
    assert status == 2 and f"--alloc {name}: there is no lib" in info, info
    if "have no package" in info:
        pytest.skip(info)
    command = shlex.split(command_of(info.strip()))
    assert command[-3:-1] == ["apt-get", "install"], info
    assert is_known(command[-1]), info


@pytest.mark.parametrize("known, wanted", [
    ({"libmimalloc2.0": "2.0.9", "libmimalloc3": None}, "libmimalloc2.0"),
    ({"libmimalloc2.0": None, "libmimalloc3": "3.0.1"}, "libmimalloc3"),
    ({"libmimalloc2.0": None, "libmimalloc3": None}, None),
])
def test_a_package_is_called_as_the_release_calls_it(apart, tmp_path, known, wanted):
    """As Debian 12 and 13 do; apt-cache is simulated."""
    lines = [line for name, version in known.items()
             for line in (f"{name}:", "  Installed: (none)", f"  Candidate: {version or '(none)'}")]
    (tmp_path / "apt-cache").write_text("#!/bin/sh\ncat <<EOF\n" + "\n".join(lines) + "\nEOF\n")
    (tmp_path / "apt-cache").chmod(0o755)
    for path in pathlib.Path("/usr/lib").glob("*/libmimalloc*.so*"):
        apart.does(f"mount --bind /dev/null {path}")
    if not list(pathlib.Path("/var/lib/apt/lists").glob("*_Packages*")):
        pytest.skip("needs apt's lists")
    _, info = apart.type(f"PATH={tmp_path}:$PATH {TEK} run --alloc mimalloc -- true")
    end = f"apt-get install {wanted}" if wanted else "have no package libmimalloc3"
    assert info.strip().endswith(end), info


def test_the_packages_that_the_lab_needs_are_ones_that_apt_has(apart):
    apart.does("mkdir /tmp/nothing.$$")
    line = f"PATH=/tmp/nothing.$$ {TEK} lab run --kind rt --disk 10M -- true"
    for program in ("modinfo", "mke2fs"):
        for directory in ("/sbin", "/usr/sbin"):
            path = f"{directory}/{program}"
            apart.type(f"[ ! -e {path} ] || mount --bind /dev/null {path}")
    status, info = apart.type(line)
    assert status == 125 and "not installed here: busybox" in info, info
    # Without apt-cache in PATH it uses the release.
    packages = info.strip().split("apt-get install ")[1].split()
    assert packages == ["busybox-static", "kmod", "e2fsprogs", "qemu-system-x86"]
    assert all(map(is_known, packages))
    apart.does("rmdir /tmp/nothing.$$")


# ---- other messages ----


def test_the_advised_command_starts_tekd(shell, tmp_path):
    """In a namespace without another process that it could change."""
    one = shell(needs("unshare"), "--mount", "--pid", "--fork", "--mount-proc", "--propagation",
                "private")
    # The files in /etc stay unchanged.
    one.does(f"mount -t tmpfs none /run && cp -a /etc {tmp_path} && "
             f"mount --bind {tmp_path}/etc /etc")
    status, info = one.type(f"{TEK} critical sh --for 1s")
    assert status == 1 and "to start it, in another terminal: " in info, info
    command = command_of(info.strip())
    one.does(f"{command} 2>{tmp_path}/log & tekd=$!")
    for _ in range(100):
        status, info = one.type(f"{TEK} status --json")
        if status == 0:
            break
        one.type("sleep 0.1")
    assert status == 0, info + (tmp_path / "log").read_text()
    # No groups yet: tek prints the advice, and the test follows it.
    _, info = one.type(f"{TEK} groups")
    advice = re.search(r"To have them: (.*), then end tekd and start it again", info)
    assert advice, info
    one.does(advice[1])
    assert "[groups]" in one.does("cat /etc/tek/tekd.toml")
    one.does(f"{command} --check")
    one.does("kill $tekd && wait $tekd")


def test_placement_is_written_as_in_its_example():
    info = subprocess.run([TEK, "run", "--place", "everywhere", "true"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert info.returncode == 2
    example = re.search(r"as in (\S+)", info.stderr)[1]
    subprocess.run([TEK, "run", "--place", example, "true"], timeout=60, check=True)
    info = subprocess.run([TEK, "run", "--place", "cores=x", "true"], capture_output=True,
                          text=True, timeout=60, check=False)
    example = re.search(r"as in (\S+)", info.stderr)[1]
    subprocess.run([TEK, "run", "--place", f"cores={example}", "true"], timeout=60, check=True)


def test_a_rules_file_that_other_users_can_write_to_is_closed(user_rules):
    (user_rules / "fridge.toml").write_text(
        '[[rule]]\nmatch = { thread = "ui*" }\nset = { critical = true }\n')
    (user_rules / "fridge.toml").chmod(0o666)
    run = [TEK, "run", "true"]
    info = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert info.returncode == 2 and "others can write" in info.stderr
    command = re.search(r": (chmod go-w \S+)", info.stderr)[1].rstrip(";,")
    subprocess.run(["sh", "-c", command], timeout=20, check=True)
    subprocess.run(run, timeout=60, check=True)


def stack_budget(shell, *arguments):
    status, info = shell.type(" ".join([str(TEK), "stack", "budget", "--json", *arguments]))
    info = json.loads(info)
    return status, {item["id"]: item["cure"] for item in info["items"] if not item["fits"]}


def test_a_limit_of_addresses_is_raised_by_the_shell_or_by_root(shell):
    one = shell()
    one.does("ulimit -Sv 8000000")
    arguments = ("--threads", "1000", "--stack", "64M", "--no-malloc", "--rlimit-as")
    status, cures = stack_budget(one, *arguments)
    assert status == 1 and "rlimit-as" in cures
    one.does(cures["rlimit-as"].split(",")[0])
    assert "rlimit-as" not in stack_budget(one, *arguments)[1]


def test_the_number_of_mappings_is_raised(apart, tmp_path):
    (tmp_path / "maps").write_text("1000\n")
    apart.does(f"mount --bind {tmp_path}/maps /proc/sys/vm/max_map_count")
    arguments = ("--threads", "2000", "--stack", "64K", "--no-malloc")
    _, cures = stack_budget(apart, *arguments)
    apart.does(command_of(cures["mappings"]))
    assert "mappings" not in stack_budget(apart, *arguments)[1]


def test_the_threads_of_the_system_and_of_a_group_are_raised(apart, tmp_path):
    for name in "threads-max", "pid_max":
        (tmp_path / name).write_text("1500\n")
        apart.does(f"mount --bind {tmp_path}/{name} /proc/sys/kernel/{name}")
    arguments = ("--threads", "2000", "--stack", "64K", "--no-malloc")
    _, cures = stack_budget(apart, *arguments)
    for name in "threads-max", "pid-max":
        apart.does(command_of(cures[name]))
    # Threads start and end meanwhile.
    left = stack_budget(apart, "--threads", "1900", *arguments[2:])[1]
    assert not {"threads-max", "pid-max"} & set(left)
    pids = pathlib.Path("/sys/fs/cgroup/pids")
    if not (pids / "cgroup.procs").exists() or not (pids / "cgroup.procs").stat().st_mode & 0o200:
        pytest.skip("the rest needs control groups of version 1 with pids")
    group = pids / f"tek-advice-{os.getpid()}"
    group.mkdir()
    try:
        (group / "pids.max").write_text("100")
        apart.does(f"echo $$ > {group}/cgroup.procs")
        _, cures = stack_budget(apart, *arguments)
        apart.does(cures["pids-max"].split(", or ")[0])
        assert "pids-max" not in stack_budget(apart, *arguments)[1]
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (pids / "cgroup.procs").write_text(pid)
        eventually(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


LINKED = """
#include <pthread.h>
#include <tek/tek.h>
int main(void)
{
	struct sched_param param = {.sched_priority = 0};
	return pthread_setschedparam(pthread_self(), SCHED_TEK, &param);
}
"""


def test_the_message_of_the_library_itself_names_the_shell_that_the_program_came_from(
        compile_c, nobody, open_build):
    library = open_build / "lib"
    program = compile_c(LINKED, "cc", f"-I{INCLUDE}", "-pthread", f"-L{library}",
                        f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", "-ltek")
    status, info = nobody.type(str(program))
    assert status == 1 and f"`prlimit --pid {nobody.process.pid} --rtprio=60:60`" in info, info
    assert "`echo :65534 - rtprio 60 > /etc/security/limits.d/tek.conf`" in info, info
    assert info.endswith(".\n"), info
    if not has_capability(24):
        pytest.skip("the rest needs CAP_SYS_RESOURCE")
    subprocess.run(["sh", "-c", re.search(r"`(prlimit .*?)`", info)[1]], timeout=20, check=True)
    assert nobody.type(str(program)) == (0, "")


def test_a_program_that_explain_advises_to_start_is_known_and_its_thread_time_critical(
        waiting, real_time):
    path = f"{TEK.parent}:{pathlib.Path(waiting).parent}:{os.environ['PATH']}"

    def explained(command):
        """The facts of explain about a thread with a name of several words of a shell."""
        with subprocess.Popen(["sh", "-c", f"exec {command} \"it's gas\""],
                              env={**os.environ, "PATH": path}, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout.readline() == b"ready\n"
                pid = child_of(process.pid) if "tek run" in command else process.pid
                tid = tids_by_name(pid, ["it's gas"])["it's gas"]
                ended = subprocess.run([TEK, "explain", "--json", str(tid)], capture_output=True,
                                       text=True, timeout=60, check=True)
                return json.loads(ended.stdout)
            finally:
                process.terminate()

    before = explained(pathlib.Path(waiting).name)
    advice, = before["not_known"]
    after = explained(command_of(advice))
    assert not after["not_known"] and after["tek"]["fast"], after


def test_a_pool_is_locked_after_its_limit_was_raised(shell):
    one = shell()
    one.does("ulimit -Sl 64")
    drop = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"
    line = f"{drop} {TEK} run --alloc pool=1M -- true"
    info = one.does(line)
    assert "present but not locked" in info, info
    one.does(re.search(r"`(ulimit -l \d+)`", info)[1])
    assert one.does(line) == ""
