# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs linked with libtek.so: from the build tree without privilege, and as installed."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, INCLUDE
from paths import TOP
from installation import INSTALLS, records_held


# Requests SCHED_TEK twice and prints the results.
ASK = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

int main(void)
{
	struct sched_param param = {.sched_priority = 0};
	for (int i = 0; i < 2; i++)
		printf("%d ", pthread_setschedparam(pthread_self(), SCHED_TEK, &param));
	printf("%d ", tek_critical_enter());
	printf("%ld %d\n", syscall(SYS_sched_getscheduler, 0), getpriority(PRIO_PROCESS, 0));
	return 7;
}
"""
EPERM = 1


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          **options)


def test_without_privilege_the_api_returns_eperm_reports_three_ways_once_and_changes_nothing(
        compile_c, as_nobody, open_build):
    library = open_build / "lib"
    program = compile_c(ASK, "cc", f"-I{INCLUDE}", "-pthread", f"-L{library}",
                        f"-Wl,-rpath,{library}",
                        "-Wl,--no-as-needed", "-ltek")
    ended = run([*as_nobody, program])
    assert (ended.returncode, ended.stdout) == (7, f"{EPERM} {EPERM} {EPERM} 0 {os.nice(0)}\n")
    line, = ended.stderr.splitlines()
    assert line.startswith("tek: ")
    for way in ("prlimit --pid ", " - rtprio 60", "LimitRTPRIO="):
        assert line.count(way) == 1, line


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The prefix under which `make install DESTDIR=` put the build."""
    if BUILD != TOP / "build" or shutil.which("make") is None or shutil.which("pkg-config") is None:
        pytest.skip("needs make, pkg-config and the build in its usual place")
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    prefix = next(option["value"] for option in options if option["name"] == "prefix")
    destination = tmp_path_factory.mktemp("destination")
    with records_held():
        done = run(["make", "-C", TOP, "install", f"DESTDIR={destination}", f"PREFIX={prefix}"])
        if "generated with an old version of meson" in done.stdout:
            pytest.skip("the build is another system's, and this Meson installs none of an older "
                        "one")
    assert done.returncode == 0, done.stdout + done.stderr
    return destination / prefix.lstrip("/")


@INSTALLS
def test_a_program_builds_against_the_installed_pkg_config_file_and_runs(installed, tmp_path,
                                                                         real_time):
    packages = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run(["pkg-config", "--define-prefix", "--cflags", "--libs", "tek"], env=packages)
    assert flags.returncode == 0, flags.stderr
    source, program = tmp_path / "ask.c", tmp_path / "ask"
    source.write_text(ASK)
    built = run(["cc", source, "-o", program, "-pthread", *flags.stdout.split()])
    assert built.returncode == 0, built.stderr
    ended = run([program], env={**os.environ, "LD_LIBRARY_PATH": str(installed / "lib")})
    # 2 is SCHED_RR, 0x40000000 the flag by which its children are not real-time.
    assert re.fullmatch(rf"0 0 0 (2|1073741826) {os.nice(0)}\n", ended.stdout), ended
    assert (ended.returncode, ended.stderr) == (7, "")


@INSTALLS
def test_the_native_example_of_the_man_page_builds_against_its_pkg_config_file_and_runs(installed,
                                                                                        tmp_path):
    page = (TOP / "docs" / "man" / "libtek-uthread.7").read_text()
    source = re.search(r"add\.c :\n\.Bd -literal -offset indent\n(.*?)\n\.Ed", page,
                       re.DOTALL).group(1)
    (tmp_path / "add.c").write_text(source.replace(r"\e", "\\"))
    packages = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run(["pkg-config", "--define-prefix", "--cflags", "--libs", "tek-uthread-native"],
                env=packages)
    assert flags.returncode == 0, flags.stderr
    built = run(["cc", "-Wall", "-Wextra", "-Werror", tmp_path / "add.c", "-o", tmp_path / "add",
                 *flags.stdout.split()])
    assert built.returncode == 0, built.stderr
    ended = run([tmp_path / "add"], env={**os.environ, "LD_LIBRARY_PATH": str(installed / "lib")})
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "45\n", "")


@INSTALLS
def test_the_installed_command_finds_its_library_and_its_benchmark_programs(installed):
    tek = installed / "bin" / "tek"
    assert run([tek, "run", "sh", "-c", "echo $LD_PRELOAD"]).stdout.strip() == str(
        installed / "lib" / "libtek.so")
    assert (installed / "libexec" / "tek" / "appliance").is_file()
