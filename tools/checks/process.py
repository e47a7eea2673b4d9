"""Runs one command of a suite: logged, watched, and with nothing of it left behind."""

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# Seconds without a word after which a command counts as hung.  Compilers are silent for long.
TEST_SILENCE = 300
BUILD_SILENCE = 900
# Prefix of a command that gives way to other processes. Each command is a session, and the kernel's
# autogroups share the CPUs among sessions before nice values count.
GENTLY = ["sh", "-c", 'echo 10 2>/dev/null > /proc/self/autogroup; exec nice -n 10 "$@"', "gently"]
# Prefix of every command: a shell's background jobs and nohup(1) ignore these signals, and children
# inherit that.
WITH_SIGNALS = ["env", "--default-signal=HUP,INT,QUIT"]
# Seconds that output may lag behind the end of the command that wrote it.
LAG = 2
# Set while what was started side by side is to be ended.
_interrupted = threading.Event()


@dataclass(frozen=True)
class Context:
    """The surroundings of a suite."""

    top: Path
    build: Path
    verbose: bool
    gently: bool = False  # other suites run meanwhile

    @property
    def logs(self) -> Path:
        return self.build / "check"

    def environment(self) -> dict[str, str]:
        """Ours, without settings that would put TEK into the test tools themselves.

        Those of the lab say where kernels come from and lie.
        """
        own = {k: v for k, v in os.environ.items()
               if (not k.startswith("TEK_") or k.startswith("TEK_LAB_")) and k != "LD_PRELOAD"}
        return own | {"TEK_BUILD": str(self.build)}


@dataclass(frozen=True)
class Finished:
    output: str
    status: int  # as subprocess has it: negative is a signal
    hung: bool
    log: Path

    @property
    def how(self) -> str:
        if self.hung:
            return "hung: no output for too long"
        return describe_status(self.status)


def describe_status(status: int) -> str:
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exit status {status}"


def run(context: Context, suite: str, command: list[str], silence: int = TEST_SILENCE,
        environment: dict[str, str] | None = None) -> Finished:
    """Run a command, its output appended to the suite's log (and shown if verbose)."""
    context.logs.mkdir(parents=True, exist_ok=True)
    log = context.logs / f"{suite}.log"
    command = [*GENTLY, *command] if context.gently else command
    chunks = []
    with log.open("ab") as stream:
        stream.write(f"$ {' '.join(command)}\n".encode())
        try:
            child = subprocess.Popen(
                [*WITH_SIGNALS, *command], cwd=context.top, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                env=context.environment() | (environment or {}))
        except OSError as error:
            stream.write(f"{error}\n".encode())
            return Finished(str(error), 127, False, log)
        try:
            hung = False
            for chunk in _output(child, silence):
                if chunk is None:
                    hung = True
                    break
                chunks.append(chunk)
                stream.write(chunk)
                stream.flush()
                if context.verbose:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
        finally:
            _end(child)
    return Finished(b"".join(chunks).decode(errors="replace"), child.returncode, hung, log)


def side_by_side(work, items, at_a_time: int | None = None) -> list:
    """The results of `work` for the items, in their order; by default as many at a time as CPUs."""
    pool = ThreadPoolExecutor(at_a_time or os.cpu_count())
    try:
        return list(pool.map(work, items))
    except BaseException:
        _interrupted.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        _interrupted.clear()


def _output(child: subprocess.Popen, silence: int):
    """Yields what the child writes, and None once it has been silent for too long.

    Ends soon after the child itself, even where a process that it started keeps the
    pipe open.
    """
    last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while not _interrupted.is_set():
            if selector.select(timeout=0.5):
                chunk = os.read(child.stdout.fileno(), 65536)
                if not chunk:
                    return
                last = time.monotonic()
                yield chunk
            elif child.poll() is not None and time.monotonic() - last > LAG:
                return
            elif time.monotonic() - last > silence:
                yield None
                return


def _end(child: subprocess.Popen) -> None:
    """Waits for a child that closed its output, then ends what is left of its group."""
    try:
        child.wait(timeout=LAG)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
    child.stdout.close()
