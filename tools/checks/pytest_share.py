"""A pytest plugin: several processes share the tests of one run.

Each process collects all tests, and takes one group of tests after another. The file $CHECK_SHARE
has the groups that no process has taken; a process locks it to take one.

A group is the tests of a module. A module that is marked `spread` has tests that may run beside
each other: there a group is the tests that have a fixture of the module or of a class in common,
and any other test is a group of its own.

A test that is marked `alone("thing")` runs while no other test runs that is marked with the same
thing. One that is marked `alone()` runs while no other test runs. Groups with a thing come first,
because they queue up. Groups that run alone come last.
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
    """A test of no module. Before it a module's fixtures end, and those of the session stay."""

    def runtest(self):
        raise NotImplementedError


def things(item) -> set[str]:
    """What a test must not share with one that runs at the same time, as its marks say."""
    return {thing for mark in item.iter_markers("alone") for thing in mark.args or [MACHINE]}


def module(item) -> str:
    return item.nodeid.partition("::")[0]


def needs(group: list) -> list[str]:
    """The same of a group. No other group of its module runs meanwhile, unless that is spread."""
    modules = {module(item) for item in group if not item.get_closest_marker("spread")}
    return sorted(modules.union(*map(things, group)))


def _ties(item) -> list:
    """Two tests with one of these in common are in the same group."""
    if not item.get_closest_marker("spread"):
        return [(module(item), *sorted(things(item)))]
    found = getattr(item, "_fixtureinfo").name2fixturedefs
    return [id(last) for *_, last in found.values() if last.scope in ("module", "class", "package")]


def groups(items: list) -> list[list]:
    """The tests that must stay together, in the order of the first of each."""
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
    """Those that queue up first, and last those that are all alone."""
    def place(group):
        named = set().union(*map(things, group))
        return 2 if MACHINE in named else 0 if named else 1
    return sorted(found, key=place)


class Share:
    """The groups that are free, by their first tests, and what the running ones need, by process."""

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
        """What there is. The first process says it; the others know the same."""
        with self._locked() as state:
            if "known" not in state:
                state["free"] = found
                state["known"] = True

    def take(self) -> str | None:
        """The next group. None: what is left cannot run beside the others, who will run it."""
        with self._locked() as state:
            state["run"].pop(str(os.getpid()), None)
            others = [set(needed) for pid, needed in state["run"].items() if _lives(int(pid))]
            for name, needed in state["free"].items():
                if not any(_conflict(set(needed), other) for other in others):
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
