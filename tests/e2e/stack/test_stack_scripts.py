# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scripts: data on the stacks of one do not apply to another one of the same interpreter."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import PATIENCE, needs

pytestmark = pytest.mark.spread

PYTHON = """
import threading
threads = [threading.Thread(target=lambda: sum(range(1000))) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
PERL = """
use threads;
$_->join() for map { threads->create(sub { my $sum = 0; $sum += $_ for 1..1000; }) } 1..4;
"""


@pytest.fixture
def learns(open_build, tmp_path):
    """Runs a command and returns the programs that have profiles."""
    profiles = tmp_path / "profiles"

    def run(*command, **options):
        tek = str(open_build / "bin" / "tek")
        ended = subprocess.run([tek, "run", "--no-rules", "--stack", "report", "--stack-profiles",
                                profiles, "--",
                                *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE,
                               text=True, timeout=60 * PATIENCE, check=False, **options)
        assert ended.returncode == 0, ended.stderr
        listed = subprocess.run([tek, "stack", "list", "--json", "--profiles", profiles],
                                capture_output=True,
                                text=True, timeout=60, check=False)
        assert listed.returncode == 0, listed.stderr
        return sorted(one["program"] for one in json.loads(listed.stdout)["profiles"])

    return run


@pytest.fixture
def scripts(tmp_path):
    for name in ("camera.py", "door.py", "package.py"):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{PYTHON}")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_each_script_has_a_profile_of_its_own_however_it_is_started(learns, scripts):
    assert learns(sys.executable, scripts / "camera.py") == ["camera.py"]
    assert learns(sys.executable, "-B", "-W", "ignore", "-Xdev", scripts / "camera.py",
                  "--fast") == ["camera.py"]
    assert learns(scripts / "camera.py") == ["camera.py"]
    assert learns(sys.executable, "camera.py", cwd=scripts) == ["camera.py"]
    assert learns(scripts / "door.py") == ["camera.py", "door.py"]
    assert learns("sh", "-c", f"{scripts}/door.py; true") == ["camera.py", "door.py"]


def test_modules_and_code_on_the_command_line_are_programs_too(learns, scripts):
    assert learns(sys.executable, "-m", "package", cwd=scripts) == ["package"]
    assert learns(sys.executable, "-Bmpackage", cwd=scripts) == ["package"]
    code = learns(sys.executable, "-c", PYTHON)
    assert len(code) == 2 and "package" in code and any(program.endswith(" -c") for program in code)
    assert learns(sys.executable, "-c", PYTHON + "\n") == code


def test_the_same_script_of_two_interpreters_has_two_profiles(learns, scripts, tmp_path):
    other = tmp_path / "python3.99"
    shutil.copy(os.path.realpath(sys.executable), other)
    assert learns(sys.executable, scripts / "camera.py") == ["camera.py"]
    # A copy is the same program, by its build id.
    learns(other, scripts / "camera.py", env={**os.environ, "PYTHONHOME": sys.base_prefix})
    perl = scripts / "camera.pl"
    perl.write_text(PERL)
    if subprocess.run([needs("perl"), "-e", "use threads"], capture_output=True,
                      check=False).returncode:
        pytest.skip("perl has no threads here")
    assert learns("perl", "-w", perl) == ["camera.pl", "camera.py"]
