# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek doctor reports which features work, and the cures for those that do not."""
import json
import os
import re
import shutil
import subprocess

import pytest


def diagnose(tek, **options):
    ended = tek("doctor", "--json", **options)
    diagnosis = json.loads(ended.stdout)
    backends = {backend["name"]: backend for backend in diagnosis["backends"]}
    return ended.returncode, diagnosis, backends


def test_the_exit_status_is_whether_the_backend_rt_can_be_used(tek):
    status, _, backends = diagnose(tek)
    assert set(backends) == {"rt", "fair", "scx"}
    assert status == (0 if backends["rt"]["usable"] else 1)


def test_each_no_has_a_cure(tek):
    _, diagnosis, _ = diagnose(tek)
    for check in diagnosis["checks"]:
        assert (check["answer"] == "no") == (check["cure"] is not None), check
    for backend in diagnosis["backends"]:
        assert backend["usable"] == (backend["cure"] is None), backend


def test_a_user_without_privilege_is_shown_how_to_get_it(tek, as_nobody):
    status, diagnosis, backends = diagnose(tek, prefix=as_nobody)
    assert status == 1
    assert not backends["rt"]["usable"]
    privilege = next(check for check in diagnosis["checks"] if check["id"] == "rt-privilege")
    assert "prlimit" in privilege["cure"] and "limits.d" in privilege["cure"]


@pytest.mark.parametrize("limit", [1, 5, 10, 30, 49, 50])
def test_any_limit_above_0_is_enough_for_doctor_and_library(tek, threads, as_nobody,
                                                            real_time, limit):
    prefix = ["prlimit", f"--rtprio={limit}:{limit}"]
    if shutil.which("prlimit") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("needs prlimit and CAP_SYS_RESOURCE")
    prefix += as_nobody
    status, diagnosis, backends = diagnose(tek, prefix=prefix)
    trial = next(check for check in diagnosis["checks"] if check["id"] == "rt-trial")
    assert (status, backends["rt"]["usable"]) == (0, True)
    assert (trial["answer"], trial["cure"]) == ("yes" if limit == 50 else "info", None)
    ended = tek("run", "--critical=ui", "--report", threads, "ui", "0", prefix=prefix)
    assert "ui" in ended.stderr and "cannot become" not in ended.stderr
    assert "no thread became" not in ended.stderr


def test_the_built_library_is_found_beside_the_command(tek):
    _, diagnosis, _ = diagnose(tek)
    library = next(check for check in diagnosis["checks"] if check["id"] == "library")
    assert library["answer"] == "yes"


def test_the_library_for_32_bit_programs_is_named_or_missed(tek, open_build):
    _, diagnosis, _ = diagnose(tek)
    found, = (check["found"] for check in diagnosis["checks"] if check["id"] == "library-32")
    library = str(open_build / "lib32" / "libtek.so")
    assert library in found
    assert found.startswith("no ") == (not os.path.exists(library))


def test_output_for_a_person_has_no_colours_in_a_pipe(tek):
    assert "\x1b" not in tek("doctor").stdout


def test_what_a_pool_and_other_options_of_a_run_need_is_reported(tek, as_nobody):
    _, diagnosis, _ = diagnose(tek, prefix=["prlimit", "--memlock=65536:65536", *as_nobody])
    found = {check["id"]: check["found"] for check in diagnosis["checks"]}
    assert found["locked-memory"] == "RLIMIT_MEMLOCK: 64.0K a process (ulimit -l)"
    # Either all of them, or those that are not there, such as musl's where that is not installed.
    assert re.search(r"libtek-(sync|libm-musl)\.so", found["other-libraries"])
    assert found["allocators"].startswith("installed besides")
