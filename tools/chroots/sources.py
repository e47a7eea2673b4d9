"""The apt sources of a new system: this machine's, with the name of the suite replaced.

The tree itself contains no address of an archive.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The settings of apt that concern how an archive is reached, such as proxies.
SETTINGS = re.compile(
    r'^Acquire::(https?::|ftp::|Retries|Check-Valid-Until|Check-Date|ForceIPv).* "[^"]*";$'
)
FIELDS = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(CREATED_BY)"
APT_HELPER = "/usr/lib/apt/apt-helper"
KEYRINGS = Path("/usr/share/keyrings")


class NoSource(Exception):
    """No source of this machine has the suite; the text is what to do."""


@dataclass(frozen=True)
class Source:
    """One line of sources.list."""

    uri: str
    suite: str
    components: tuple[str, ...]

    def line(self) -> str:
        return f"deb {self.uri} {self.suite} {' '.join(self.components)}"


def own_sources() -> list[Source]:
    """This machine's sources of packages, in their order."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", FIELDS],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return parse(targets.stdout)


def parse(text: str) -> list[Source]:
    """The sources in the output of `apt-get indextargets` with FIELDS."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        uri, suite, component, kind = line.split("|")
        if kind == "Packages" and component:
            components = found.setdefault((uri, suite), [])
            components += [component] if component not in components else []
    return [Source(uri, suite, tuple(components)) for (uri, suite), components in found.items()]


def own_suite() -> str:
    codename = re.search(
        r"^VERSION_CODENAME=(\S+)$",
        Path("/etc/os-release").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return codename[1] if codename else ""


def sources_of(suite: str, own: list[Source], codename: str, has) -> list[Source]:
    """The sources of a system of that suite; the first is debootstrap's.

    `codename` is this machine's suite. `has` returns whether a source exists.
    """
    named = [source for source in own if source.suite.split("-")[0] == suite]
    # Those of this machine's suite, renamed: bookworm-security becomes trixie-security.
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
        download = subprocess.run(
            [
                APT_HELPER,
                "download-file",
                f"{source.uri.rstrip('/')}/dists/{source.suite}/InRelease",
                f"{directory}/InRelease",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    return download.returncode == 0


def settings() -> str:
    """This machine's SETTINGS of apt, as the text of a file of apt.conf.d."""
    dump = subprocess.run(
        ["apt-config", "dump", "Acquire"], stdout=subprocess.PIPE, text=True, check=True
    )
    return "".join(f"{line}\n" for line in dump.stdout.splitlines() if SETTINGS.match(line))


def keyring(uri: str) -> Path:
    """The file with the keys that sign an archive."""
    name, package = (
        ("ubuntu", "ubuntu-keyring") if "ubuntu" in uri else ("debian", "debian-archive-keyring")
    )
    file = KEYRINGS / f"{name}-archive-keyring.gpg"
    if not file.exists():
        raise NoSource(f"The keys of {uri} are missing. Install them: apt-get install {package}")
    return file
