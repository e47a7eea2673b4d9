# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs run under TEK within limits that leave little room."""
import os
import re
import subprocess

import pytest

from conftest import PATIENCE
from placed import needs_real_time

PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
static void *work(void *argument)
{
	prctl(PR_SET_NAME, "work");
	return argument;
}
int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 3;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	puts("all right");
	return 0;
}
"""

MODES = [
    [], ["--critical", "work"], ["--stack", "auto"], ["--place", "spread"], ["--lock", "park"],
    ["--alloc", "tlsf"], ["--model", "m:1"], ["--model", "m:n", "--workers", "2"],
]


@pytest.fixture(scope="session")
def within(open_build, compile_c, tmp_path_factory):
    """Runs the program under TEK within a limit of the shell's."""
    program = compile_c(PROGRAM, "cc", "-pthread")
    profiles = tmp_path_factory.mktemp("profiles")

    def run(limit, *options):
        return subprocess.run(
            ["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", str(open_build / "bin" / "tek"),
             "run", *options,
             "--", program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False,
            timeout=60 * PATIENCE, env={"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(profiles)})

    return run


@pytest.mark.parametrize("mode", MODES, ids=" ".join)
@pytest.mark.parametrize("limit", ["-s 100", "-f 0", "-n 40", "-v 250000"])
def test_within_a_small_limit_the_program_runs(within, limit, mode):
    ended = within(limit, *mode)
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
    assert all(line.startswith("tek: ") for line in ended.stderr.splitlines()), ended.stderr


LOCKED = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *argument)
{
	pthread_setname_np(pthread_self(), "locked");
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	char line[256];
	FILE *status = argument ? fopen("/proc/self/status", "r") : NULL;
	while (status && fgets(line, sizeof(line), status))
		if (strncmp(line, "VmLck", 5) == 0)
			fputs(line, stdout);
	return argument;
}
int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t thread;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 3;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	if (pthread_create(&thread, &attr, work, argc > 1 ? argv : NULL))
		return 4;
	pthread_join(thread, NULL);
	puts("all right");
	return 0;
}
"""


@pytest.mark.skipif(os.geteuid() != 0,
                    reason="root alone can change to a user, and the limit does not bind root")
@pytest.mark.parametrize("mode", [[], ["--lock", "park"], ["--lock", "mcs"], ["--place", "spread"],
                                  ["--model", "m:1"],
                                  ["--model", "m:n", "--workers", "2", "--sched", "fifo"]],
                         ids=" ".join)
def test_a_program_that_locks_its_memory_has_room_for_it(open_build, compile_c, mode):
    program = compile_c(LOCKED, "cc", "-pthread")
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -l 8192; exec "$@"', "bash", "setpriv", "--reuid", "65534",
         "--clear-groups",
         str(open_build / "bin" / "tek"), "run", *mode, "--", program],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        check=False,
        timeout=60 * PATIENCE, env={"PATH": "/usr/bin:/bin"}, cwd="/")
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr


@pytest.mark.skipif(os.geteuid() != 0,
                    reason="root alone can give up the capability that lifts the limit")
@pytest.mark.parametrize("mode", [[], ["--lock", "park"], ["--stack", "auto"]], ids=" ".join)
def test_tek_locks_little_memory_beside_that_of_the_program(open_build, compile_c, tmp_path, mode):
    needs_real_time()
    program = compile_c(LOCKED, "cc", "-pthread")

    def locked_kib(*tek):
        ended = subprocess.run(
            ["bash", "-c", 'ulimit -l 8192; exec "$@"', "bash", "setpriv",
             "--bounding-set=-ipc_lock,-sys_resource",
             "--inh-caps=-all", *tek, program, "tells"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False,
            timeout=60 * PATIENCE, cwd="/", env={"PATH": "/usr/bin:/bin", "MALLOC_ARENA_MAX": "1",
                                                 "TEK_STACK_PROFILES": str(tmp_path)})
        assert ended.returncode == 0 and "cannot" not in ended.stderr, ended.stderr
        return int(re.search(r"VmLck:\s+(\d+) kB", ended.stdout)[1])

    tek = (str(open_build / "bin" / "tek"), "run", "--no-rules", "--critical", "locked*",
           *mode, "--")
    assert locked_kib(*tek) - locked_kib() < 1300


def test_what_cannot_be_written_is_not_taken_for_a_mistake(within):
    info = within("-f 0", "--critical", "work").stderr
    assert "(ulimit -f)" in info and "no thread had a name" not in info
    assert "no thread had a name" in within("-f unlimited", "--critical", "nobody").stderr


@pytest.mark.skipif(os.geteuid() != 0,
                    reason="root alone can change to a user that has no other directory")
@pytest.mark.parametrize("mode", [[], ["--stack", "auto"], ["--model", "m:n"]], ids=" ".join)
@pytest.mark.parametrize("temporary", ["/nonexistent/tmp", "/proc", "not absolute"])
def test_without_a_directory_for_temporary_files_another_is_taken(open_build, compile_c, tmp_path,
                                                                  mode, temporary):
    program = compile_c(PROGRAM, "cc", "-pthread")
    ended = subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", str(open_build / "bin" / "tek"), "run",
         *mode, "--", program],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        check=False,
        timeout=60 * PATIENCE, cwd="/",
        env={"PATH": "/usr/bin:/bin", "TMPDIR": temporary, "TEK_STACK_PROFILES": str(tmp_path)})
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
    assert "directory for this run" not in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can mount")
@pytest.mark.parametrize("mode", [[], ["--critical", "work"], ["--model", "m:n"]], ids=" ".join)
def test_where_no_file_can_be_made_the_program_runs_as_it_is(open_build, compile_c, mode):
    program = compile_c(PROGRAM, "cc", "-pthread")
    read_only = " && ".join(f"mount -t tmpfs -o ro none {directory}"
                            for directory in ("/run", "/tmp", "/var/tmp"))
    # The program may lie in one of them.
    script = f'exec 9< "$0" && {read_only} && exec "$@" -- /proc/self/fd/9'
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, program, str(open_build / "bin" / "tek"),
         "run", *mode],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        check=False,
        timeout=60 * PATIENCE, env={"PATH": "/usr/bin:/bin"}, cwd="/")
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
    assert (len(ended.stderr.splitlines()) == 1
            and "runs, but not under TEK" in ended.stderr), ended.stderr
