# SPDX-License-Identifier: MIT OR Apache-2.0
"""No call of TEK's libraries reaches a function that the program has defined for itself."""
import re
import subprocess

import pytest

from conftest import BUILD, PATIENCE, needs
from paths import PROGRAMS
from modes import MODES

pytestmark = pytest.mark.spread


# The names by which a library of TEK's may find a definition in other files, and why a program
# cannot have another meaning for them.  All other names belong into lib/base/meson.build.
PERMITTED = {
    r"_.*": "ISO C reserves names that begin with an underscore",
    r"tek_.*": "these are our own",
    r"malloc|calloc|realloc|free|aligned_alloc":
        "the C library, too, calls the program's: blocks pass between both",
    r"mem(chr|cmp|cpy|move|pcpy|rchr|set)": "ISO C reserves mem*; compilers make calls of them",
    r"str(cat|chr|chrnul|cmp|cpy|cspn|len|ncat|ncmp|ncpy|nlen|rchr|spn|str)":
        "ISO C reserves str*; the C library has several, among which only the loader selects",
    r"stdin|stdout|stderr": "ISO C reserves these objects",
}
LIBRARIES = sorted({library.resolve() for directory in ("lib", "lib32")
                    for library in (BUILD / directory).glob("libtek*.so")})
OLDEST = (2, 36)
C11 = ["cc", "-std=c11", "-fno-builtin", "-w", "-pthread"]


def resolved_by(library):
    """The names that the loader searches in all files when it relocates this one."""
    shown = subprocess.run([needs("readelf"), "--relocs", "--wide", library], check=True,
                           capture_output=True, text=True).stdout
    # Offset, info, type, value of the symbol, its name.
    return {re.sub("@.*", "", name) for name in
            re.findall(r"^[0-9a-f]+ +[0-9a-f]+ +R_\w+ +[0-9a-f]+ +([A-Za-z_]\S*)", shown, re.M)}


def bound_functions(archive=BUILD / "lib" / "base" / "libtek-functions.a"):
    """The functions of lib/base/meson.build."""
    shown = subprocess.run([needs("nm"), archive], check=True, capture_output=True, text=True)
    # A library that has such a function for the program calls the C library's by another name.
    return sorted(set(re.findall(r" i (?:tek__plain_)?(\w+)$", shown.stdout, re.M)))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_library_resolves_no_name_that_a_program_may_define(library):
    captured = {name for name in resolved_by(library)
                if not any(re.fullmatch(names, name) for names in PERMITTED)}
    assert not captured, f"{sorted(captured)}: these belong into lib/base/meson.build"


def test_there_are_libraries_to_examine():
    assert {"libtek.so", "libtek-sync.so", "libtek-alloc.so", "libtek-profile.so"} <= {
        re.sub(r"\.so.*", ".so", library.name) for library in LIBRARIES}
    assert any(name.startswith("_") for name in resolved_by(LIBRARIES[0]))


def test_each_bound_function_is_one_function_in_the_oldest_c_library(compile_c):
    program = compile_c("int main(void) { return 0; }", "cc")
    linked = subprocess.run([needs("ldd"), program], check=True, capture_output=True, text=True)
    c_library = re.search(r"libc\.so\S* => (\S+)", linked.stdout)[1]
    shown = subprocess.run([needs("objdump"), "-T", c_library], check=True, capture_output=True,
                           text=True)
    # Those in parentheses are older versions; an i stands for a choice by the processor.
    functions = {name: tuple(map(int, version.split("."))) for version, name in
                 re.findall(r"^\w+ [ \w]{5}DF \S+\s+\w+\s+GLIBC_([\d.]+)\s+(\w+)$",
                            shown.stdout, re.M)}
    missing = [name for name in bound_functions() if functions.get(name, (9,)) > OLDEST]
    assert not missing
    assert len(bound_functions()) > 100


@pytest.mark.parametrize("library", [path for path in LIBRARIES if "libm" not in path.name],
                         ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_c_library_that_lacks_bound_functions_does_not_load_the_library(library):
    shown = subprocess.run([needs("readelf"), "--version-info", "--wide", library], check=True,
                           capture_output=True, text=True).stdout
    assert re.search(r"Name: GLIBC_2\.3[4-9]\b", shown)


def test_resolvers_call_no_function_which_would_not_be_bound_yet():
    archive = BUILD / "lib/base/libtek-definition.a"
    shown = subprocess.run([needs("nm"), "--undefined-only", archive], check=True,
                           capture_output=True, text=True)
    names = set(re.findall(r" U (\w+)$", shown.stdout, re.M))
    # Two objects, a function that is not called, and the symbol that 32-bit ARM needs to unwind.
    assert names - {"_GLOBAL_OFFSET_TABLE_", "__aeabi_unwind_cpp_pr0"} == {
        "_DYNAMIC", "__libc_start_main", "_r_debug"}


def own_functions():
    """A C program that has a function of its own for each name by which TEK calls the C library."""
    defined = "\n".join(f"OWN({name})" for name in bound_functions())
    return (PROGRAMS / "own_functions.c").read_text() + defined


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_functions_of_a_program_are_called_by_the_program_only(tek, compile_c, mode):
    program = compile_c(own_functions(), *C11)
    plain = subprocess.run([program], capture_output=True, text=True, check=False,
                           timeout=60 * PATIENCE)
    assert (plain.stdout, plain.stderr, plain.returncode) == ("4000\n", "", 0)
    run = tek(*mode, "--", program)
    assert "captured" not in run.stderr
    assert (run.stdout, run.returncode) == ("4000\n", 0), run.stderr


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_functions_of_a_library_of_the_program_are_not_called(tek, compile_c, mode):
    # Loaded before the C library, like any library that the program is linked with.
    library = compile_c((PROGRAMS / "own_library.c").read_text(),
                        "cc", "-fno-builtin", "-fPIC", "-shared")
    program = compile_c((PROGRAMS / "own_functions.c").read_text(),
                        *C11, "-Wl,--no-as-needed", str(library))
    run = tek(*mode, "--", program)
    assert "captured" not in run.stderr
    assert (run.stdout, run.returncode) == ("4000\n", 0), run.stderr


@pytest.mark.parametrize("mode", ["plain", "critical", "stack", "tlsf", "pool", "rtfifo"])
@pytest.mark.usefixtures("library_32")
def test_the_functions_of_a_32_bit_program_are_called_by_the_program_only(tek, compile_c, mode):
    program = compile_c(own_functions(), *C11, "-m32")
    run = tek(*MODES[mode], "--", program)
    assert "captured" not in run.stderr
    assert (run.stdout, run.returncode) == ("4000\n", 0), run.stderr


def test_a_program_without_privilege_is_not_asked_for_sockets(tek, compile_c, as_nobody):
    """Here TEK asks tekd to make a thread critical."""
    program = compile_c(own_functions(), *C11)
    run = tek("run", "--critical", "*", "--", program, prefix=as_nobody)
    assert "captured" not in run.stderr
    assert run.stdout == "4000\n", run.stderr


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_own_read_qsort_and_getenv_give_their_results(tek, compile_c, mode):
    program = compile_c((PROGRAMS / "own_read.c").read_text(), *C11)
    run = tek(*mode, "--", program, input="1 2 3 4 5\n")
    assert (run.stdout, run.returncode) == ("sum 15, sorted 3, getenv 7\n", 0), run.stderr
