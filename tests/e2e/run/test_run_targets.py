# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that TEK cannot run inside are named, and run unharmed."""
import os
import platform
import re
import shutil
import struct
import subprocess

import pytest
from conftest import needs

HELLO = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	const char *preload = getenv("LD_PRELOAD");
	puts(preload && *preload ? "preload" : "no preload");
	return 7;
}
"""


def not_covered(program, reason):
    return f"tek: {program} {reason}: it runs, but not under TEK\n"


OUT_OF_REACH = "cannot open TEK's library from where it is (another root or user)"

CASES = {
    "static": (["cc", "-static"], "is statically linked", "preload"),
    "static-pie": (["cc", "-static-pie"], "is statically linked", "preload"),
    "musl": (["musl-gcc"], "is for another C library", "no preload"),
    "static 32-bit": (["cc", "-m32", "-static"], "is statically linked", "preload"),
    "asan": (["cc", "-fsanitize=address"], "is built with AddressSanitizer", "no preload"),
}


@pytest.fixture
def built_for(request, compile_c):
    """Builds the program of a case."""
    def build(case):
        if "32-bit" in case:
            request.getfixturevalue("library_32")
        return compile_c(HELLO, *CASES[case][0])

    return build


@pytest.mark.parametrize("case", CASES)
def test_a_program_that_cannot_be_covered_is_named_and_runs(tek, built_for, case):
    _, reason, preload = CASES[case]
    program = built_for(case)
    ended = tek("run", program)
    assert (ended.returncode, ended.stdout) == (7, preload + "\n")
    assert ended.stderr == not_covered(program, reason)


@pytest.mark.parametrize("case", CASES)
def test_a_child_that_cannot_be_covered_is_named_and_runs(tek, built_for, case):
    _, reason, _ = CASES[case]
    program = built_for(case)
    ended = tek("run", "sh", "-c", f"{program}; echo $?")
    assert ended.stdout.endswith("7\n")
    assert ended.stderr == not_covered(program, reason)


# Runs the program of its arguments by exec, or by posix_spawn if this one's name requests it.
STARTS = r"""
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
	int status;
	if (strcmp(argv[1], "exec") == 0)
		execv(argv[2], argv + 2);
	else if (posix_spawn(NULL, argv[2], NULL, NULL, argv + 2, environ) == 0 &&
	         wait(&status) > 0)
		return WEXITSTATUS(status);
	return argc;
}
"""
PRELOADED = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	puts(getenv("LD_PRELOAD"));
	return 7;
}
"""


def test_a_32_bit_program_gets_the_library_for_32_bits(tek, compile_c, library_32):
    ended = tek("run", compile_c(PRELOADED, "cc", "-m32"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, f"{library_32}\n", "")


@pytest.mark.parametrize("how", ["exec", "spawn"])
def test_a_child_of_the_other_word_size_gets_the_library_for_it(tek, compile_c, library_32, how):
    wide, narrow = (compile_c(STARTS, "cc", bits) for bits in ("-m64", "-m32"))
    shown = {bits: compile_c(PRELOADED, "cc", bits) for bits in ("-m64", "-m32")}
    ended = tek("run", wide, how, shown["-m32"])
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, f"{library_32}\n", "")
    ended = tek("run", narrow, how, shown["-m64"])
    library = library_32.parents[1] / "lib" / "libtek.so"
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, f"{library}\n", "")
    ended = tek("run", wide, how, narrow, how, wide, how, shown["-m32"])
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, f"{library_32}\n", "")


def test_other_libraries_stay_preloaded_in_a_child_of_the_other_word_size(tek, compile_c,
                                                                          library_32):
    wide = compile_c(STARTS, "cc", "-m64")
    ended = tek("run", wide, "exec", compile_c(PRELOADED, "cc", "-m32"),
                env={**os.environ, "LD_PRELOAD": "libm.so.6"})
    assert (ended.returncode, ended.stdout) == (7, f"{library_32}:libm.so.6\n")


@pytest.mark.parametrize("prefix", [[], ["sh", "-c", '"$0"; exit $?']])
def test_without_the_library_for_it_a_32_bit_program_is_named_and_runs(tek, open_build, compile_c,
                                                                       tmp_path, prefix):
    program = compile_c(HELLO, "cc", "-m32")
    (tmp_path / "lib").mkdir()
    alone = shutil.copy(open_build / "lib" / "libtek.so", tmp_path / "lib")
    ended = tek("run", *prefix, program, env={**os.environ, "TEK_LIBRARY": str(alone)})
    assert (ended.returncode, ended.stdout) == (7, "no preload\n")
    assert ended.stderr == not_covered(program, "is of another word size")


def test_a_32_bit_program_on_another_c_library_is_left_alone(tek, compile_c, library_32, tmp_path):
    loader = tmp_path / "ld-musl-i386.so.1"
    loader.symlink_to("/lib/ld-linux.so.2")
    program = compile_c(HELLO, "cc", "-m32", f"-Wl,--dynamic-linker={loader}")
    for prefix in ([], ["sh", "-c", '"$0"; exit $?']):
        ended = tek("run", *prefix, program)
        assert (ended.returncode, ended.stdout) == (7, "no preload\n")
        assert ended.stderr == not_covered(program, "is for another C library")


# Needs no version of a function that is younger than the port to x86-64.
OF_LONG_AGO = r"""
__asm__(".symver puts,puts@GLIBC_2.2.5");
__asm__(".symver fflush,fflush@GLIBC_2.2.5");
__asm__(".symver _exit,_exit@GLIBC_2.2.5");
int puts(const char *);
int fflush(void *);
void _exit(int);
__attribute__((force_align_arg_pointer)) void _start(void)
{
	puts("hello");
	fflush(0);
	_exit(7);
}
"""


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


@pytest.fixture(scope="session")
def older_c_library(open_build, open_directory):
    """A directory with this machine's C library and loader, where the newest version that TEK's
    library needs has another name."""
    if platform.machine() != "x86_64":
        pytest.skip("imitates an older C library of x86-64")

    def needed_by(library):
        listed = subprocess.run(["readelf", "-V", library], capture_output=True, text=True,
                                timeout=60, check=True)
        needed = listed.stdout.partition("Version needs section")[2]
        return set(re.findall(r"Name: GLIBC_2\.(\d+)\b", needed))

    # Symbols of the loader that the C library needs have to keep their names.
    newest = max(needed_by(open_build / "lib" / "libtek.so") - needed_by(
        "/lib/x86_64-linux-gnu/libc.so.6"), key=int)
    directory = open_directory / "older"
    directory.mkdir()
    for file in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
        shutil.copy(file, directory)
    before = f"GLIBC_2.{newest}".encode()
    after = before[:-1] + b"x"
    library = directory / "libc.so.6"
    image = library.read_bytes()
    for old, new in ((b"\0" + before + b"\0", b"\0" + after + b"\0"),
                     (struct.pack("<I", elf_hash(before)), struct.pack("<I", elf_hash(after)))):
        assert old in image
        image = image.replace(old, new)
    library.write_bytes(image)
    return directory


@pytest.fixture(params=["run path", "origin", "loader as the program"])
def with_older_c_library(request, compile_c, older_c_library):
    """A command with a program that has that C library, and the program."""
    loader = older_c_library / "ld-linux-x86-64.so.2"
    run_path = "$ORIGIN/older" if request.param == "origin" else older_c_library
    program = compile_c(OF_LONG_AGO, "cc", "-w", "-nostartfiles", f"-Wl,-I,{loader}",
                        f"-Wl,-rpath,{run_path}")
    if request.param != "loader as the program":
        return [program], program
    return [loader, "--library-path", older_c_library, program], loader


@pytest.mark.parametrize("mode", [[], ["--model", "m:n"], ["--lock", "park"], ["--alloc", "tlsf"]],
                         ids=lambda mode: mode[1] if mode else "plain")
@pytest.mark.parametrize("prefix", [[], ["sh", "-c", '"$0" "$@"; exit $?']],
                         ids=["itself", "child"])
def test_a_program_with_an_older_c_library_is_named_and_runs(tek, with_older_c_library, mode,
                                                             prefix):
    command, program = with_older_c_library
    ended = tek("run", *mode, "--", *prefix, *command)
    assert (ended.returncode, ended.stdout) == (7, "hello\n")
    info, _, why = ended.stderr.removeprefix("tek: ").partition(" has an older C library than "
                                                                "TEK's library needs: ")
    assert why.startswith("it runs, but not")
    # The message has only the end of a long path.
    assert info == str(program) or (len(info) > 40 and str(program).endswith(info))
    assert len(ended.stderr.splitlines()) == 1


def test_an_ordinary_program_is_covered_without_a_word(tek, compile_c):
    ended = tek("run", compile_c(HELLO, "cc"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "preload\n", "")


def test_a_script_is_judged_by_its_interpreter(tek, compile_c, tmp_path):
    interpreter = compile_c(HELLO, "cc", "-static")
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text(f"#!{interpreter}\n")
    outer.write_text(f"#! {inner} argument\n")
    inner.chmod(0o755)
    outer.chmod(0o755)
    ended = tek("run", outer)
    assert ended.returncode == 7
    assert ended.stderr == not_covered(outer, "is statically linked")


@pytest.fixture
def gaining(compile_c, open_directory):
    """A program file that can give privileges, for one test."""
    program = open_directory / "gaining"
    program.unlink(missing_ok=True)
    shutil.copy(compile_c(HELLO, "cc"), program)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"{program.parent} is mounted nosuid")
    return program


def test_a_set_user_id_program_is_named(tek, gaining, as_nobody):
    program = gaining
    program.chmod(0o4755)
    ended = tek("run", program, prefix=as_nobody)
    assert ended.stderr == not_covered(program, "is set-user-id")
    assert ended.returncode == 7


def test_a_program_with_file_capabilities_is_named(tek, gaining, as_nobody):
    if shutil.which("setcap") is None:
        pytest.skip("setcap is not installed")
    program = gaining
    assert os.system(f"setcap cap_net_raw+ep {program}") == 0
    # The bounding set would keep the kernel from running it at all.
    prefix = [word for word in as_nobody if not word.startswith("--bounding-set")]
    ended = tek("run", program, prefix=prefix)
    assert ended.stderr == not_covered(program, "has file capabilities")
    assert ended.returncode == 7


# Its symbol table has an address for the function: an entry of its PLT.
POINTS = r"""
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int main(void)
{
	const char *(*volatile version)(void) = gnu_get_libc_version;
	pthread_mutex_lock(&mutex);
	puts(version() == gnu_get_libc_version() ? "same" : "other");
	return pthread_mutex_unlock(&mutex);
}
"""


@pytest.mark.parametrize("options", [["--lock", "park"], ["--model", "m:1"]])
def test_a_program_without_pie_may_point_to_a_function_of_the_c_library(tek, compile_c, options):
    program = compile_c(POINTS, "gcc", "-no-pie", "-fno-pie", "-pthread")
    ended = tek("run", *options, "--", program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "same\n", "")


@pytest.fixture
def other_root(open_directory):
    """A root directory with a shell, and without TEK's files."""
    root = open_directory / "root"
    for file in ("/bin/sh", "/bin/echo", *loaded_by("/bin/sh"), *loaded_by("/bin/echo")):
        copy = root / file.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    yield root
    shutil.rmtree(root)


def loaded_by(program):
    listed = subprocess.run([needs("ldd"), program], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    return [word for word in listed.split() if word.startswith("/")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root directory")
@pytest.mark.parametrize("options", [
    [], ["--critical", "echo"], ["--stack", "auto"], ["--lock", "park"], ["--alloc", "tlsf"],
    ["--place", "rtfifo"], ["--model", "m:1"], ["--model", "m:n"],
], ids=" ".join)
def test_a_program_in_another_root_runs_without_a_word_of_the_loader(tek, other_root, options):
    ended = tek("run", *options, "--", "chroot", other_root, "/bin/sh", "-c",
                "/bin/echo hello; exit 7")
    assert (ended.returncode, ended.stdout) == (7, "hello\n")
    assert all(line.startswith("tek: ") for line in ended.stderr.splitlines()), ended.stderr
    # Programs that do not get user-level threads are not named.
    assert "--model" in options or not_covered("/bin/sh", OUT_OF_REACH) in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_program_of_a_user_that_cannot_open_the_library_runs_without_a_word_of_the_loader(
        tek, open_build, tmp_path):
    os.chmod(tmp_path, 0o700)
    (tmp_path / "lib").mkdir()
    library = shutil.copy(open_build / "lib" / "libtek.so", tmp_path / "lib")
    ended = tek("run", "--", "setpriv", "--reuid", "65534", "echo", "hello",
                env={**os.environ, "TEK_LIBRARY": str(library)}, cwd="/")
    assert (ended.returncode, ended.stdout) == (0, "hello\n")
    assert ended.stderr == not_covered("echo", OUT_OF_REACH)
