"""A bounded load for tests to run beside: two CPU hogs and a disk writer.

As a program, `python3 -m checks.load PARENT cpu|disk FILE`: one of them.  It ends with its parent
process PARENT, or after LIMIT seconds.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CPU_HOGS = 2
LIMIT = 4 * 3600  # seconds
BLOCK = 1 << 20
BLOCKS = 16  # written before each fsync()
PAUSE = 0.05  # seconds after each fsync()
PR_SET_PDEATHSIG = 1


class Load:
    """A context that runs the load.  Each program is a session, as each test is, because the
    kernel's autogroups share the CPUs among sessions."""

    def __init__(self, directory: Path):
        self.file = directory / "load.bin"
        self.programs: list[subprocess.Popen] = []

    def __enter__(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            for kind in [*["cpu"] * CPU_HOGS, "disk"]:
                # pylint: disable-next=consider-using-with
                self.programs.append(subprocess.Popen(
                    [sys.executable, "-B", "-m", "checks.load", str(os.getpid()), kind,
                     str(self.file)],
                    cwd=Path(__file__).resolve().parents[1], stdin=subprocess.DEVNULL,
                    start_new_session=True))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.kill()
            program.wait()
        self.programs.clear()
        self.file.unlink(missing_ok=True)


def _end_with(parent: int) -> None:
    """Have the kernel end this process with its parent, which may have ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def _compute(end: float) -> None:
    while time.monotonic() < end:
        for _ in range(100_000):
            pass


def _write(path: str, end: float) -> None:
    block = os.urandom(BLOCK)
    with open(path, "wb", buffering=0) as stream:
        while time.monotonic() < end:
            stream.seek(0)
            for _ in range(BLOCKS):
                stream.write(block)
            os.fsync(stream.fileno())
            time.sleep(PAUSE)


def main() -> None:
    parent, kind, path = sys.argv[1:]
    _end_with(int(parent))
    end = time.monotonic() + LIMIT
    if kind == "cpu":
        _compute(end)
    else:
        _write(path, end)


if __name__ == "__main__":
    main()
