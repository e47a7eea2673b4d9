# SPDX-License-Identifier: MIT OR Apache-2.0
"""A PREEMPT_RT kernel with cgroups of version 2 and sched_ext: TEK's backends and their effect."""
import json
import os

from conftest import OUT, needs_linux, threads_of


def test_doctor_finds_a_real_time_kernel_and_the_threads_of_its_interrupts(diagnosis):
    checks, _ = diagnosis
    assert checks["preempt-rt"]["found"] == "a PREEMPT_RT kernel"
    assert checks["irq-threads"]["answer"] == "yes"
    assert "at priority 50" in checks["irq-threads"]["found"]


def test_doctor_finds_control_groups_of_version_2_and_can_set_weights(diagnosis):
    checks, usable = diagnosis
    assert checks["cgroup"]["found"].startswith("version 2 with cpu, cpuset, io, memory, pids")
    assert usable["fair"]


def test_doctor_finds_sched_ext_and_could_load_a_scheduler(diagnosis):
    needs_linux(6, 12)
    checks, usable = diagnosis
    assert checks["sched-ext"]["answer"] == "yes"
    assert usable["scx"]


def test_doctor_finds_nothing_that_limits_real_time_threads(diagnosis):
    checks, usable = diagnosis
    assert checks["rt-privilege"]["found"].startswith("CAP_SYS_NICE")
    assert checks["rt-trial"]["answer"] == "yes"
    assert checks["rt-group-sched"]["answer"] == "info"
    assert usable["rt"]


def test_ps_shows_the_threads_of_interrupts_and_timers_with_their_priorities(tek):
    kernel = threads_of(tek, "--kernel")
    interrupts = [thread for thread in kernel if thread["name"].startswith("irq/")]
    assert interrupts
    assert all((thread["policy"], thread["rt_priority"]) == ("fifo", 50) for thread in interrupts)
    assert {thread["name"] for thread in kernel} >= {f"ktimers/{cpu}"
                                                     for cpu in range(os.cpu_count())}


def test_a_touch_is_answered_faster_under_tek_than_without(tek):
    result = OUT / "response.json"
    ended = tek("bench", "response", "--quick", "--json", result, timeout=240)
    assert ended.returncode == 0, ended.stderr
    value = {row["variant"]: row["value"] for row in json.loads(result.read_text())["rows"]
             if row["metric"] == "response"}
    alone, conventional, tek_name = (value[name] for name in ("alone", "conventional", "tek-name"))
    (OUT / "told").write_text(
        f"tek bench response --quick: conventional {conventional:.0f} ms, TEK {tek_name:.0f} ms, "
        f"alone {alone:.0f} ms: {conventional / tek_name:.1f} times as fast, "
        f"{tek_name / alone:.2f} of the time alone\n")
    # Bounds for a slow, emulated CPU; those of the papers are for real ones.
    assert conventional / tek_name > 2
