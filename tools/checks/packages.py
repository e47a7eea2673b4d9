"""Checks that the C build has what `makes` of tools/packages.txt promises for installed packages.

Called for each build directory before its tests run. Without this check, tests that are not built
are neither skipped nor failed.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .process import Context
from .results import Case, failed, passed, skipped

LACKING = "setup.lacking"  # tools/setup writes it


@dataclass(frozen=True)
class Package:
    """One line of tools/packages.txt, for this processor."""

    section: str
    names: tuple[str, ...]  # alternatives, the preferred one first
    makes: tuple[str, ...]
    about: str

    @property
    def title(self) -> str:
        return " or ".join(self.names)


@dataclass(frozen=True)
class Built:
    """What a build directory is configured to build."""

    sources: frozenset[str]  # relative to the tree
    files: frozenset[str]  # relative to the build directory
    definitions: frozenset[str]  # -DNAME


def listed(top: Path) -> list[Package]:
    table = subprocess.run(
        [top / "tools/packages", "list"], stdout=subprocess.PIPE, text=True, check=True
    )
    packages = []
    for line in table.stdout.splitlines():
        section, names, _, makes, about = line.split("\t")
        packages.append(
            Package(
                section, tuple(names.split()), () if makes == "-" else tuple(makes.split()), about
            )
        )
    return packages


def installed(names: tuple[str, ...]) -> bool | None:
    """Whether one of these packages is installed; None without dpkg."""
    try:
        query = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${db:Status-Status}\n", *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return "installed" in query.stdout.splitlines()


def unavailable_packages(build: Path) -> dict[tuple[str, ...], str]:
    """The packages that tools/setup could not install, by names, with the reasons."""
    file = build / LACKING
    lines = file.read_text().splitlines() if file.exists() else []
    fields = [line.split("\t") for line in lines]
    return {tuple(names.split()): why for names, _, _, why in fields}


def built(top: Path, directory: Path) -> Built:
    targets = json.loads((directory / "meson-info/intro-targets.json").read_text())
    sources, files, definitions = set(), set(), set()
    for target in targets:
        files |= {_relative(file, directory) for file in target["filename"]}
        for part in target["target_sources"]:
            sources |= {_relative(file, top) for file in part.get("sources", [])}
            definitions |= {word for word in part.get("parameters", []) if word.startswith("-D")}
    return Built(frozenset(sources), frozenset(files), frozenset(definitions))


def _relative(file: str, directory: Path) -> str:
    return os.path.normpath(file).removeprefix(f"{directory}/")


def missing(top: Path, promise: str, there: Built) -> list[str]:
    """The parts of a promise that the build lacks."""
    if promise.startswith("-D"):
        return [] if promise in there.definitions else [promise]
    sources = {str(path.relative_to(top)) for path in top.glob(promise)}
    if sources or any(sign in promise for sign in "*?["):
        return sorted(sources - there.sources)
    # The file name of a shared library may end with its version.
    found = any(file == promise or file.startswith(f"{promise}.") for file in there.files)
    return [] if found else [promise]


def promised(context: Context, directory: Path, only_tests: bool = False) -> list[Case]:
    """A case for each package with a promise; with `only_tests`, for promised test programs only,
    because a sanitized build has nothing else."""
    there = built(context.top, directory)
    unavailable = unavailable_packages(context.build)
    cases = []
    for package in listed(context.top):
        makes = [
            promise for promise in package.makes if promise.startswith("tests/") or not only_tests
        ]
        if makes:
            lacks = [lack for promise in makes for lack in missing(context.top, promise, there)]
            cases.append(
                _case(
                    package,
                    lacks,
                    directory.relative_to(context.top),
                    unavailable.get(package.names),
                )
            )
    return cases


def _case(package: Package, lacks: list[str], directory: Path, unavailable: str | None) -> Case:
    name = f"{directory} has what {package.title} makes"
    if not lacks:
        return passed(name)
    what = f"{lacks[0]} and {len(lacks) - 1} more are" if len(lacks) > 1 else f"{lacks[0]} is"
    there = installed(package.names)
    if there:
        return failed(
            name,
            f"{what} not in the build though the package is installed: see "
            f"{directory}/meson-logs/meson-log.txt for the reason",
        )
    if there is None:
        return skipped(
            name,
            f"{what} not in the build: install the contents of Debian's package "
            f"{package.names[0]}, then build again",
        )
    if unavailable:
        return skipped(
            name, f"{what} not in the build: {package.title} is unavailable ({unavailable})"
        )
    return failed(
        name,
        f"{what} not in the build: run `tools/setup tests` to install "
        f"{package.title}, then check again",
    )
