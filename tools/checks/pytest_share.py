"""A pytest plugin: several processes share the tests of one run.

Each process collects all tests, and takes one group of tests after another. The file $CHECK_SHARE
has the groups that no process has taken; a process locks it to take one.

A group is the tests of a module. In a module marked `spread`, tests may run beside each other:
there a group is the tests that share a fixture of the module or of a class; any other test is a
group by itself.

A test marked `alone("thing")` never runs beside another test that is marked with the same thing. A
test marked `alone()` never runs beside any test. Groups with a thing come first, because they wait
for each other. Groups with alone() come last.
"""

import fcntl
import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks import pytest_record

MACHINE = "machine"  # the thing of alone()


class Rest(pytest.Item):
    """A next test outside all modules, which ends a module's fixtures and not the session's."""

    def runtest(self):
        raise NotImplementedError


def things(item) -> set[str]:
    """The things of a test's `alone` marks."""
    return {thing for mark in item.iter_markers("alone") for thing in mark.args or [MACHINE]}


def module(item) -> str:
    return item.nodeid.partition("::")[0]


def needs(group: list) -> list[str]:
    """The things of a group, and its module unless that is marked `spread`."""
    modules = {module(item) for item in group if not item.get_closest_marker("spread")}
    return sorted(modules.union(*map(things, group)))


def _ties(item) -> list:
    """Keys of a test's group: tests with a common key are in the same group."""
    if not item.get_closest_marker("spread"):
        return [(module(item), *sorted(things(item)))]
    found = getattr(item, "_fixtureinfo").name2fixturedefs
    return [id(last) for *_, last in found.values() if last.scope in ("module", "class", "package")]


def groups(items: list) -> list[list]:
    """The groups of tests, in the order of their first tests."""
    joined_to = list(range(len(items)))

    def first(number):
        while joined_to[number] != number:
            number = joined_to[number]
        return number

    with_tie: dict = {}  # the first test that has it
    found: dict[int, list] = {}
    for number, item in enumerate(items):
        for tie in _ties(item):
            one, other = sorted((first(with_tie.setdefault(tie, number)), first(number)))
            joined_to[other] = one
    for number, item in enumerate(items):
        found.setdefault(first(number), []).append(item)
    return list(found.values())


def in_order(found: list[list]) -> list[list]:
    """The groups: first those with a thing, last those with alone()."""
    def place(group):
        named = set().union(*map(things, group))
        return 2 if MACHINE in named else 0 if named else 1
    return sorted(found, key=place)


class Share:
    """$CHECK_SHARE: the free groups, by first test, and the needs of running ones, by process."""

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def _locked(self):
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            state = json.loads(file.read() or '{"free": {}, "run": {}}')
            yield state
            file.truncate(0)
            json.dump(state, file)

    def offer(self, found: dict[str, list[str]]) -> None:
        """Set the free groups. Only the first process does; all find the same groups."""
        with self._locked() as state:
            if "known" not in state:
                state["free"] = found
                state["known"] = True

    def take(self) -> str | None:
        """The next group. None if no group is left that can run beside those of other processes."""
        with self._locked() as state:
            if "known" not in state:
                raise RuntimeError(f"{self.path} lost the free groups: is the disk full?")
            state["run"].pop(str(os.getpid()), None)
            peers = [set(needed) for pid, needed in state["run"].items() if _lives(int(pid))]
            for name, needed in state["free"].items():
                if not any(_conflict(set(needed), other) for other in peers):
                    del state["free"][name]
                    state["run"][os.getpid()] = needed
                    return name
            return None


def _conflict(ours: set[str], theirs: set[str]) -> bool:
    return MACHINE in ours | theirs or bool(ours & theirs)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if session.testsfailed or session.config.option.collectonly:
        return None  # pytest itself says so
    found = {group[0].nodeid: group for group in in_order(groups(session.items))}
    share = Share(Path(os.environ["CHECK_SHARE"]))
    share.offer({name: needs(group) for name, group in found.items()})
    rest = Rest.from_parent(session, name="rest")
    while name := share.take():
        group = found[name]
        pytest_record.planned(group)
        for item, following in zip(group, [*group[1:], rest]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                return True
    return True
