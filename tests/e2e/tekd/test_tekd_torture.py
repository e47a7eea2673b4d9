# SPDX-License-Identifier: MIT OR Apache-2.0
"""No lift outlives its reason, also where tekd makes the switches, and is killed meanwhile.

TEK_KILLS=60 TEK_SEED=7 runs it for longer, or otherwise; TEK_TORTURE has options of the program.
"""
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BUILD, PATIENCE
from test_daemon_client import NOBODY, pytestmark, tekd

assert pytestmark and tekd  # which pytest finds by their names
pytestmark = [*pytestmark, pytest.mark.alone("kernel threads")]

KILLS = int(os.environ.get("TEK_KILLS", "4"))
SEED = int(os.environ.get("TEK_SEED", "0")) or random.randrange(1, 1000000)
PROGRAM = BUILD / "tests" / "torture" / "lifts"
GRANTS = f"""
[inherit]
locks = {{0}}
answers = {{0}}

[[grant]]
users = [{NOBODY}]
threads = 64
rate = 10000
"""
SKIPPED = 77
OPTIONS = os.environ.get("TEK_TORTURE", "").split()


def without(*steps):
    return [word for step in steps for word in ("--without", step)]


# setpriority() races with tekd in the kernel.
NOT_BY_TEKD = without("nice")
# A thread that tekd lifts by itself, and one that has what a killed tekd gave it, has
# reset-on-fork: its children begin with SCHED_OTHER, and a flag of its own looks like tekd's. A
# real-time policy that it sets meanwhile may count as lent (docs/design/grants.md).
NOT_WITH_RESET_ON_FORK = without("batch", "idle", "reset", "fifo", "rr")


@pytest.fixture
def torture(open_directory, open_build, as_nobody):
    """Starts the torture as the user nobody."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    program = shutil.copy(PROGRAM, open_directory)
    started = []

    def start(seconds, *options):
        # A thread at rest has its own scheduling when the next tekd has restored it.
        command = [*as_nobody, program, "--lenient", "--settle-ms", str(int(30000 * PATIENCE)),
                   "--seconds", str(seconds), "--seed", str(SEED), *NOT_BY_TEKD,
                   *options, *OPTIONS,
                   open_build / "bin" / "tek", "run"]
        # pylint: disable-next=consider-using-with
        started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True))
        return started[-1]
    yield start
    for process in started:
        process.kill()
        process.communicate()


def finished(process, seconds):
    output = process.communicate(timeout=(seconds + 120) * PATIENCE)[0]
    if process.returncode == SKIPPED:
        pytest.skip(output.splitlines()[-1])
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize("inherits", ["false", "true"], ids=["libtek", "both"])
def test_threads_end_at_their_own_priority_where_tekd_makes_the_switches(
        tekd, torture, inherits):
    tekd.start(GRANTS.format(inherits))
    output = finished(torture(3, *(NOT_WITH_RESET_ON_FORK if inherits == "true" else [])), 3)
    assert " 0 samples of lifts" not in output


@pytest.mark.parametrize("inherits", ["false", "true"], ids=["libtek", "both"])
def test_threads_end_at_their_own_priority_when_tekd_is_killed_again_and_again(
        tekd, torture, inherits):
    configuration = GRANTS.format(inherits)
    generator = random.Random(SEED)
    tekd.start(configuration)
    process = torture(KILLS + 2, *NOT_WITH_RESET_ON_FORK)
    for _ in range(KILLS):
        time.sleep(generator.uniform(0.2, 1.2))
        if process.poll() is not None:
            break
        tekd.end(signal.SIGKILL)
        tekd.socket.unlink(missing_ok=True)
        time.sleep(generator.choice([0, 0, 0.05, 0.5]))
        tekd.start(configuration)
    finished(process, KILLS)
