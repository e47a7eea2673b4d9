"""What tools/packages.txt promises: each thing that the C build has where a package is installed.

Called for each build directory before its tests run. Without it a test program that was not built
is missed by nobody: there is nothing that could be skipped or fail.
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
    names: tuple[str, ...]  # the first one that the system has is meant
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
    told = subprocess.run(
        [top / "tools/packages", "list"], stdout=subprocess.PIPE, text=True, check=True
    )
    packages = []
    for line in told.stdout.splitlines():
        section, names, _, makes, about = line.split("\t")
        packages.append(
            Package(
                section, tuple(names.split()), () if makes == "-" else tuple(makes.split()), about
            )
        )
    return packages


def installed(names: tuple[str, ...]) -> bool | None:
    """Whether one of them is; None where nothing can tell."""
    try:
        told = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${db:Status-Status}\n", *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return "installed" in told.stdout.splitlines()


def not_to_be_had(build: Path) -> dict[tuple[str, ...], str]:
    """The packages that tools/setup could not install, each with the reason."""
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
    """What of a promise is not in the build."""
    if promise.startswith("-D"):
        return [] if promise in there.definitions else [promise]
    sources = {str(path.relative_to(top)) for path in top.glob(promise)}
    if sources or any(sign in promise for sign in "*?["):
        return sorted(sources - there.sources)
    # A shared library's file may have its version behind its name.
    found = any(file == promise or file.startswith(f"{promise}.") for file in there.files)
    return [] if found else [promise]


def promised(context: Context, directory: Path, only_tests: bool = False) -> list[Case]:
    """A case for each package that promises something; with `only_tests`, only for test programs,
    as a sanitized build has no more."""
    there = built(context.top, directory)
    unavailable = not_to_be_had(context.build)
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
            f"{what} not in the build though the package is installed: find in "
            f"{directory}/meson-logs/meson-log.txt why Meson does not take it",
        )
    if there is None:
        return skipped(
            name,
            f"{what} not in the build: install what {package.names[0]} holds, "
            "where this is Debian; then build again",
        )
    if unavailable:
        return skipped(
            name, f"{what} not in the build: {package.title} is not to be had ({unavailable})"
        )
    return failed(
        name,
        f"{what} not in the build: run `tools/setup tests` to install "
        f"{package.title}, then check again",
    )
