"""Boots of the kernel lab side by side: as many as there are CPUs, as far as memory goes."""

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from .process import side_by_side
from .results import Case

# MB beside a guest's own memory: QEMU, what it translated, and the guest's files once more.
BESIDE = 600
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Work:
    """One boot, or a module of pytest that boots guests itself."""

    suite: str
    run: Callable[[], list[Case]]
    seconds: int = 0  # that it takes, about
    memory: int = 0  # MB
    alone: bool = False  # no other meanwhile


def run_all(works: list[Work]) -> dict[str, list[Case]]:
    """The tests of each suite, in the order of the works. What takes longest begins first."""
    room = Room(available_mb())
    cases: dict[int, list[Case]] = {}

    def one(number: int) -> None:
        with room.taken(works[number].memory):
            cases[number] = works[number].run()

    longest_first = sorted(range(len(works)), key=lambda number: -works[number].seconds)
    side_by_side(one, [number for number in longest_first if not works[number].alone])
    for number in longest_first:
        if works[number].alone:
            one(number)
    found: dict[str, list[Case]] = {work.suite: [] for work in works}
    for number, work in enumerate(works):
        found[work.suite] += cases[number]
    return found


class Room:
    """Memory that guests share. One that needs more than all of it runs as the only one."""

    def __init__(self, most: int):
        self.most = self.left = most
        self.changed = threading.Condition()

    @contextmanager
    def taken(self, wanted: int):
        wanted = min(wanted, self.most)
        with self.changed:
            self.changed.wait_for(lambda: self.left >= wanted)
            self.left -= wanted
        try:
            yield
        finally:
            with self.changed:
                self.left += wanted
                self.changed.notify_all()


def available_mb() -> int:
    """Of this machine's memory, what guests may have: the rest is for compilers and page cache."""
    try:
        line = next(line for line in MEMINFO.read_text().splitlines()
                    if line.startswith("MemAvailable:"))
        return int(line.split()[1]) // 1024 * 3 // 4
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (2 << 20)
