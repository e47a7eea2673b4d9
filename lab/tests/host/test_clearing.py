# SPDX-License-Identifier: MIT OR Apache-2.0
"""A job's changes of a guest do not reach the next job: they are reverted, or the guest reboots.

Runs on this machine, and boots guests: one, and another one for each job that cannot be put right.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

TEK = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve() / "bin" / "tek"

# State that could disturb a test, without the parts that differ by boot or by moment.
THREADS = "$(awk '$4 == 2 { print $1 }' /proc/[0-9]*/stat | sort -n)"
SCAN = rf"""
echo "host $(hostname), here $(pwd), shell $(ulimit -a | cksum)"
awk -v own=$(cut -d' ' -f6 /proc/self/stat) \
	'$4 != 2 && $4 != 0 && $6 != own {{ print "process " $2 }}' /proc/[0-9]*/stat
cut -d' ' -f1-3 /proc/mounts
find /sys/fs/cgroup -type d
cat /sys/fs/cgroup/cgroup.subtree_control /sys/devices/system/cpu/online
for pid in 2 {THREADS}; do
	echo "$(cut -d' ' -f2,18,19,40,41 /proc/$pid/stat)"
done | grep -v kworker
echo "init $(cut -d' ' -f18,19,40,41 /proc/1/stat)" \
	"$(grep Cpus_allowed: /proc/1/status) $(cat /proc/1/oom_score_adj)"
cd /proc/sys && grep -r . kernel/sched* kernel/printk kernel/panic* vm/swappiness vm/dirty* \
	vm/overcommit* net/ipv4/ip_forward
cd / && find /tmp /run /var /root /home /out /dev -not -path '/dev/pts/*' | sort
ls -l /dev/null | cut -c1-10
cat /sys/kernel/tracing/set_event /sys/kernel/tracing/current_tracer
cat /proc/sysvipc/shm | wc -l
cksum /etc/passwd /usr/bin/busybox
[ $(date +%Y) -ge 2024 ] && echo "clock is right"
"""

PUT_RIGHT = {
    "processes that stay": "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' & sleep "
                           "0.2",
    "processes that were stopped": "sleep 100 & kill -STOP $!",
    "a fork bomb": "f() { f | f & }; f; sleep 1",
    "files": "mkdir -p /tmp/a/b /run/c /var/d; echo x >/root/.profile; echo x >/dev/shm/s; echo x "
             ">$OUT/o",
    "a full file system": "dd if=/dev/zero of=/tmp/fill bs=1M 2>/dev/null",
    "mounts": "mount -t tmpfs x /usr; mount -t tmpfs x /proc; mount -t tmpfs x /mnt",
    "no mounts": "umount -l /proc; umount -l /sys/fs/cgroup; umount -l /dev/shm",
    "cgroups": "mkdir -p /sys/fs/cgroup/a/b; echo $$ >/sys/fs/cgroup/a/b/cgroup.procs;"
               "echo 1 >/sys/fs/cgroup/cgroup.procs; mkdir /sys/fs/cgroup/z;"
               "echo 1 >/sys/fs/cgroup/z/cgroup.procs",
    "cgroup controllers": "echo '-cpu -memory' >/sys/fs/cgroup/cgroup.subtree_control",
    "a frozen cgroup": "mkdir /sys/fs/cgroup/f; sleep 100 & echo $! >/sys/fs/cgroup/f/cgroup.procs;"
                       "echo 1 >/sys/fs/cgroup/f/cgroup.freeze",
    "settings": "cd /proc/sys; echo 1 >vm/swappiness; echo 1000000 >vm/dirty_bytes; echo 1 "
                ">net/ipv4/ip_forward;"
                "echo 10000 >kernel/sched_rt_period_us; echo -1 >kernel/sched_rt_runtime_us;"
                "echo 2 >kernel/panic_on_oops; echo '1 1 1 1' >kernel/printk",
    "tracing": "cd /sys/kernel/tracing; echo sched:sched_switch >set_event; echo 0 >tracing_on",
    "a CPU that is away": "echo 0 >/sys/devices/system/cpu/cpu1/online",
    "the kernel's threads": f"for pid in {THREADS}; do renice -n 7 -p $pid; chrt -f -p 3 $pid; "
                            "done",
    "process 1": "renice -n 5 -p 1; taskset -p 1 1; chrt -o -p 0 1; echo 0 >/proc/1/oom_score_adj; "
                 "kill -9 1",
    "devices": "mknod /dev/odd c 1 3; echo x >/dev/file; chmod 600 /dev/null; ln -s x /dev/link",
    "a name": "hostname odd",
    "the clock": "date -s 2001-01-01",
    "limits": "ulimit -n 5; ulimit -s 64; umask 777",
    "the root file system, which is made writable": "mount -o remount,rw /",
}

STAYS = {
    "files of the guest": ("mount -o remount,rw / && echo x >>/etc/passwd", "/etc/passwd"),
    "mounts for process 1": ("nsenter -t 1 -m mount -t tmpfs x /mnt", "mount"),
    "a setting that only goes one way": ("echo 1 >/proc/sys/kernel/modules_disabled",
                                         "modules_disabled"),
}


def jobs():
    yield {"name": "first", "command": ["sh", "-c", SCAN]}
    for number, script in enumerate([*PUT_RIGHT.values(),
                                     *(script for script, _ in STAYS.values())]):
        yield {"name": f"job-{number}", "command": ["sh", "-c", script], "limit": 300}
        yield {"name": f"look-{number}", "command": ["sh", "-c", SCAN]}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is missing (Debian's qemu-system-x86)")
    fetched = subprocess.run([TEK, "lab", "fetch", "--kind", "rt"], capture_output=True, text=True,
                             timeout=600, check=False)
    if fetched.returncode:
        pytest.skip(fetched.stderr.strip().splitlines()[-1])
    directory = tmp_path_factory.mktemp("clearing")
    (directory / "jobs.json").write_text(json.dumps(list(jobs())))
    command = [TEK, "lab", "run", "--kind", "rt", "--add", shutil.which("chrt"), "--jobs",
               directory / "jobs.json", "--results", directory / "results"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert run.returncode in (0, 1), run.stderr
    ended = {record["job"]: record for record in map(json.loads, run.stdout.splitlines())}
    for name, record in ended.items():
        record["text"] = (directory / "results" / name / "stdout").read_text()
    return ended


@pytest.mark.parametrize("number, what", list(enumerate(PUT_RIGHT)))
def test_what_a_job_did_is_put_right(session, number, what):
    record = session[f"job-{number}"]
    assert record["left"] == [], what
    scan = session[f"look-{number}"]
    assert scan["boot"] == record["boot"], what
    assert scan["text"] == session["first"]["text"], what


@pytest.mark.parametrize("number, what", list(enumerate(STAYS)))
def test_what_cannot_be_put_right_is_reported_and_the_guest_is_booted_anew(session, number, what):
    number += len(PUT_RIGHT)
    record = session[f"job-{number}"]
    assert any(STAYS[what][1] in left for left in record["left"]), record["left"]
    scan = session[f"look-{number}"]
    assert scan["boot"] > record["boot"]  # a boot that fails by chance is tried again
    assert scan["text"] == session["first"]["text"]
