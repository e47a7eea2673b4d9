"""Boots guests of the kernel lab side by side, as many as CPUs and memory allow."""

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from .process import side_by_side
from .results import Case

# MB of a guest beside its own memory: QEMU, translated code, and a second copy of the files.
BESIDE = 600
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Work:
    """One boot, or a module of pytest that boots guests."""

    suite: str
    run: Callable[[], list[Case]]
    seconds: int = 0  # estimated duration
    memory: int = 0  # MB
    alone: bool = False  # no other work runs meanwhile


def run_all(works: list[Work]) -> dict[str, list[Case]]:
    """The cases of each suite, in the order of the works. The longest work starts first."""
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
    """Memory that guests share. A guest that needs more than all of it runs alone."""

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
    """Memory for guests: three quarters of the available memory. Compilers need the rest."""
    try:
        line = next(line for line in MEMINFO.read_text().splitlines()
                    if line.startswith("MemAvailable:"))
        return int(line.split()[1]) // 1024 * 3 // 4
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (2 << 20)
