# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the tests that run only in guests of the lab: those of tests/e2e, and more."""
import importlib.util
import json
import os
import pathlib

import pytest

# Its fixtures are imported by file; `import conftest` would find this file.
_there = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e" / "conftest.py"
_spec = importlib.util.spec_from_file_location("e2e_conftest", _there)
_e2e = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_e2e)
globals().update({name: value for name, value in vars(_e2e).items() if not name.startswith("__")})

OUT = pathlib.Path(os.environ.get("OUT", "build/check"))


def kernel():
    """Version of the kernel, to be compared: (7, 2)."""
    return tuple(int(number) for number in os.uname().release.split("-")[0].split(".")[:2])


def needs_linux(major, minor):
    """Skips a test that needs a feature which the lab's fallback kernel lacks."""
    if kernel() < (major, minor):
        pytest.skip(f"needs Linux {major}.{minor}, this is {os.uname().release}")


@pytest.fixture
def diagnosis(tek):
    """The checks of `tek doctor` by their names, and whether backends can be used."""
    info = json.loads(tek("doctor", "--json").stdout)
    checks = {check["id"]: check for check in info["checks"]}
    return checks, {backend["name"]: backend["usable"] for backend in info["backends"]}


def threads_of(tek, *options):
    """The output of `tek ps` about threads."""
    return json.loads(tek("ps", "--json", *options).stdout)["threads"]
