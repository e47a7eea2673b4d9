# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs run under TEK where a filter kills them for system calls that services have no need of."""
import pathlib
import platform
import re
import subprocess
import sys

import pytest

from conftest import PATIENCE
from test_run_limits import MODES, PROGRAM

ALLOWED = pathlib.Path(__file__).parent / "programs" / "system-service.txt"
NUMBERS = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

# Installs a filter that allows the system calls with these numbers, and becomes its other arguments.
FILTERED = """
import ctypes, os, struct, sys
LOAD, IS, RETURN = 0x20, 0x15, 0x06
KILL, ALLOW = 0x80000000, 0x7fff0000
X86_64 = 0xc000003e
# Loads the architecture, then the number.
program = [(LOAD, 0, 0, 4), (IS, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
for number in map(int, sys.argv[1].split(",")):
    program += [(IS, 0, 1, number), (RETURN, 0, 0, ALLOW)]
program.append((RETURN, 0, 0, KILL))
code = b"".join(struct.pack("<HBBI", *one) for one in program)
buffer = ctypes.create_string_buffer(code)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
filter = Filter(len(program), ctypes.addressof(buffer))
if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter), 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="session")
def filtered():
    """The command that runs its arguments under the filter."""
    if platform.machine() != "x86_64" or not NUMBERS.exists():
        pytest.skip("the numbers of system calls are known for x86-64, with linux-libc-dev")
    lines = [line for line in ALLOWED.read_text().splitlines() if not line.startswith("#")]
    names = set(" ".join(lines).split())
    numbers = re.findall(r"^#define __NR_(\w+)\s+(\d+)", NUMBERS.read_text(), re.MULTILINE)
    allowed = [number for name, number in numbers if name in names]
    command = [sys.executable, "-c", FILTERED, ",".join(allowed)]
    alone = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if alone.returncode != 0:
        pytest.skip(f"no program runs under the filter here: {alone.stderr.strip() or alone.returncode}")
    return command


@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_the_system_calls_of_a_service_are_enough(filtered, open_build, compile_c, tmp_path, mode):
    program = compile_c(PROGRAM, "cc", "-pthread")
    command = [*filtered, str(open_build / "bin" / "tek"), "run", *mode, "--", program]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, check=False, timeout=60 * PATIENCE,
                           env={"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(tmp_path)})
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
