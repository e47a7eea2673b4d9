"""A program, and the piece of work by which it is judged."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from .runner import Run

# Not a part of a name, such as gst-launch-1.0.
VERSION = re.compile(r"(?<![\w.-])(?:v|go)?(\d+\.[\w.~+-]*\w)")


@dataclass(frozen=True)
class Program:
    name: str
    does: str  # the work, for the table
    # Does the work with Run.output() and Run.start(), and returns what came out.
    work: Callable[[Run], str]
    answer: str  # the right answer: a regular expression that matches all of it
    needs: tuple[str, ...]  # its commands; a path may be a pattern
    package: str  # the Debian packages that have them
    version: tuple[str, ...] = ()  # the command that prints its version
    # Makes files that all its runs share, in a directory that is kept; raises Skip.
    prepare: Callable[[Path], None] | None = None
    install: str = ""  # the command that installs it if no package has it
    limit: float = 20  # seconds for the work

    @property
    def cure(self) -> str:
        return self.install or f"apt-get install {self.package}"


class Skip(Exception):
    """The program cannot run here; the text is the reason."""


def missing(program: Program) -> list[str]:
    """Its commands that this machine lacks."""
    return [name for name in program.needs if not find(name)]


def find(name: str) -> str | None:
    """The path of a command: in PATH, in the directories of daemons, or by a pattern."""
    if "*" in name:
        return next(map(str, sorted(Path("/").glob(name.lstrip("/")), reverse=True)), None)
    return which(name) or which(name, path="/usr/local/sbin:/usr/sbin:/sbin")


def version_in(text: str) -> str:
    """The first version in a text; empty if there is none."""
    found = VERSION.search(text)
    return found[1] if found else ""
