# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interrupts in threads on a kernel that is not PREEMPT_RT, and a disk with such interrupts."""
import os
import pathlib

import pytest
from conftest import threads_of

DISK = pathlib.Path("/disk")


def interrupts(tek):
    return [thread for thread in threads_of(tek, "--kernel") if thread["name"].startswith("irq/")]


@pytest.fixture
def disk():
    if not os.path.ismount(DISK):
        pytest.skip("needs a disk at /disk: its modules could not be had")
    file = DISK / "written"
    yield file
    file.unlink(missing_ok=True)


def test_doctor_finds_interrupts_in_threads_and_no_real_time_kernel(diagnosis):
    checks, _ = diagnosis
    assert checks["preempt-rt"]["found"].startswith("not a PREEMPT_RT kernel")
    assert checks["irq-threads"]["answer"] == "yes"


def test_ps_shows_the_threads_of_interrupts_at_priority_50(tek):
    found = interrupts(tek)
    assert found
    assert all((thread["policy"], thread["rt_priority"]) == ("fifo", 50) for thread in found)


def test_explain_shows_what_the_thread_of_an_interrupt_is_for(tek):
    thread = interrupts(tek)[0]
    assert "it handles one interrupt" in tek("explain", str(thread["tid"])).stdout


def test_a_disk_write_wakes_the_thread_of_the_disks_interrupt(tek, disk):
    def switches():
        return {thread["name"]: thread["switches"] for thread in interrupts(tek)}

    before = switches()
    with disk.open("wb") as file:
        for _ in range(16):
            file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    woken = [name for name, count in switches().items() if count > before.get(name, 0) + 8]
    assert any("virtio" in name for name in woken), woken
