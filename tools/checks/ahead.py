"""Builds what later suites need while earlier ones run, whose tests leave CPUs idle.

As a program, `python3 -m checks.ahead TOP SUITE...`: prints the name of each suite when its build
is done.  A failed build is reported by the suite, which builds again.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from . import c_tests, e2e_tests, fuzz_tests, rust_tests, style
from .process import Context

# In the order in which they are needed.
BUILDS = {
    "e2e": e2e_tests.build,
    "rust": rust_tests.build,
    "asan": c_tests.build_address,
    "tsan": c_tests.build_thread,
    "fuzz": fuzz_tests.build,
    "style": style.build,
}


class Ahead:
    """A process that builds for those of these suites that have a build."""

    def __init__(self, context: Context, suites: list[str]):
        self.waiting = [name for name in suites if name in BUILDS]
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "checks.ahead", str(context.top), *self.waiting],
            cwd=context.top / "tools", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True)

    def __enter__(self):
        return self

    def wait(self, suite: str) -> None:
        """Wait until that suite's build is done, or the process has ended."""
        over = threading.Event()
        threading.Thread(target=self._hurry_until, args=(over,), daemon=True).start()
        while suite in self.waiting:
            name = self.process.stdout.readline().strip()
            if not name:
                self.waiting.clear()
            else:
                self.waiting.remove(name)
        over.set()

    def _hurry_until(self, over: threading.Event) -> None:
        """Take back, each second, that its commands run gently: no test runs meanwhile."""
        own = self.process.pid
        while not over.wait(1):
            with suppress(OSError):  # it has ended, or we have no right to
                for command in Path(f"/proc/{own}/task/{own}/children").read_text().split():
                    Path(f"/proc/{command}/autogroup").write_text("0", encoding="ascii")
                    os.setpriority(os.PRIO_PGRP, int(command), os.nice(0))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that compilers are ended
    top = Path(sys.argv[1])
    context = replace(Context(top, top / "build", verbose=False), gently=True)
    try:
        for name in sys.argv[2:]:
            BUILDS[name](context)
            print(name, flush=True)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
