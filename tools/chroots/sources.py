"""Where this machine's apt gets packages, and so where a new system gets them.

No address is written down in the tree: each comes from the machine's own sources, and only the
suite's name is replaced.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# What of apt's settings tells how an archive is reached, and not how this machine wants to have it.
SETTINGS = re.compile(
    r'^Acquire::(https?::|ftp::|Retries|Check-Valid-Until|Check-Date|ForceIPv).* "[^"]*";$'
)
FIELDS = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(CREATED_BY)"
APT_HELPER = "/usr/lib/apt/apt-helper"
KEYRINGS = Path("/usr/share/keyrings")


class NoSource(Exception):
    """No source of this machine has the suite; says what to do."""


@dataclass(frozen=True)
class Source:
    """One line of sources.list: where from, which suite, which components."""

    uri: str
    suite: str
    components: tuple[str, ...]

    def line(self) -> str:
        return f"deb {self.uri} {self.suite} {' '.join(self.components)}"


def own_sources() -> list[Source]:
    """This machine's, for packages, in their order."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", FIELDS],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return parse(told.stdout)


def parse(text: str) -> list[Source]:
    """From what `apt-get indextargets` prints with FIELDS."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        uri, suite, component, kind = line.split("|")
        if kind == "Packages" and component:
            components = found.setdefault((uri, suite), [])
            components += [component] if component not in components else []
    return [Source(uri, suite, tuple(components)) for (uri, suite), components in found.items()]


def own_suite() -> str:
    told = re.search(
        r"^VERSION_CODENAME=(\S+)$",
        Path("/etc/os-release").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return told[1] if told else ""


def sources_of(suite: str, own: list[Source], codename: str, has) -> list[Source]:
    """The sources of a system of that suite, first the one that it is made from.

    `has` tells whether an archive has a suite: this machine's archives have others than its own.
    """
    named = [source for source in own if source.suite.split("-")[0] == suite]
    # Of this machine's suite, with the other one's name: bookworm-security becomes trixie-security.
    renamed = [
        Source(source.uri, suite + source.suite.removeprefix(codename), source.components)
        for source in own
        if codename and re.fullmatch(f"{codename}(-updates|-security)?", source.suite)
    ]
    found = [source for source in dict.fromkeys([*named, *renamed]) if has(source)]
    if not any(source.suite == suite for source in found):
        raise NoSource(
            f"No archive of this machine's apt sources has the suite {suite}. Add one that has: a "
            f"file of /etc/apt/sources.list.d with the line `deb ADDRESS {suite} main`, and its "
            f"keyring in {KEYRINGS}."
        )
    return sorted(found, key=lambda source: source.suite != suite)


def archive_has(source: Source) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        asked = subprocess.run(
            [
                APT_HELPER,
                "download-file",
                f"{source.uri.rstrip('/')}/dists/{source.suite}/InRelease",
                f"{directory}/it",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    return asked.returncode == 0


def settings() -> str:
    """apt's settings on this machine by which it reaches its archives, as a file of apt.conf.d."""
    told = subprocess.run(
        ["apt-config", "dump", "Acquire"], stdout=subprocess.PIPE, text=True, check=True
    )
    return "".join(f"{line}\n" for line in told.stdout.splitlines() if SETTINGS.match(line))


def keyring(uri: str) -> Path:
    """The keys that sign an archive: each distribution has a package of its own."""
    name = "ubuntu" if "ubuntu" in uri else "debian"
    file = KEYRINGS / f"{name}-archive-keyring.gpg"
    if not file.exists():
        raise NoSource(
            f"The keys of {uri} are missing. Install them: apt-get install {name}-"
            f"{'archive-' if name == 'debian' else ''}keyring"
        )
    return file
