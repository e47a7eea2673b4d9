"""What runs in the kernel lab: lab/tests.toml, made into jobs for `tek lab run --jobs`."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

GUEST_TOP = "/tek"  # where a guest has the project's files
RECORD_FD = 9  # pytest_record.py writes there: results come out even of a guest that dies
PYTEST = ["/usr/bin/python3", "-B", "-m", "pytest", "-v", "-p", "checks.pytest_record",
          "-p", "no:cacheprovider", f"--rootdir={GUEST_TOP}"]


class Mistake(Exception):
    """lab/tests.toml says something that makes no sense."""


@dataclass(frozen=True)
class Job:
    """One command in a guest, and how to read what it says."""

    name: str
    command: list[str]
    format: str  # tap, pytest or status
    title: str  # of its tests, in reports
    environment: dict[str, str] = field(default_factory=dict)
    limit: int = 0
    fresh: bool = False

    def as_json(self) -> dict:
        return {"name": self.name, "command": self.command, "environment": self.environment,
                "limit": self.limit, "fresh": self.fresh, "files": True}


@dataclass
class Boot:
    """Jobs that can share a guest: the machine is the same, and what lies in it."""

    kind: str
    sets: tuple[str, ...]
    memory: str | None
    cpus: int | None
    jobs: list[Job] = field(default_factory=list)


KEYS = {"name", "kinds", "meson", "pytest", "command", "with", "limit", "memory", "cpus", "fresh",
        "here", "environment", "only", "format"}


def read(path: Path) -> tuple[list[dict], dict[str, list[str]]]:
    """The entries of lab/tests.toml, and what is to be run before a kind's tests."""
    with path.open("rb") as stream:
        document = tomllib.load(stream)
    entries = document.get("tests", [])
    for entry in entries:
        for key in entry.keys() - KEYS:
            raise Mistake(f"{path}: `{key}` of {entry.get('name', '?')} is not known")
        if not entry.get("here") and not entry.get("kinds"):
            raise Mistake(f"{path}: {entry.get('name', '?')} needs kinds, or here = true")
        if sum(key in entry for key in ("meson", "pytest", "command")) != 1:
            raise Mistake(f"{path}: {entry.get('name', '?')} needs one of meson, pytest, command")
    return entries, document.get("prepare", {})


def kinds(entries: list[dict]) -> list[str]:
    """The kinds that have tests, in the order of the file."""
    return list(dict.fromkeys(kind for entry in entries for kind in entry.get("kinds", [])))


def here(entries: list[dict]) -> list[str]:
    """The pytest modules that run on this machine, and boot what they need themselves."""
    return [module for entry in entries if entry.get("here") for module in entry["pytest"]]


def boots(top: Path, entries: list[dict], kind: str, meson_tests) -> list[Boot]:
    """What runs in guests of that kind. `meson_tests` tells a build directory's tests, as
    `meson introspect --tests` does."""
    made: dict[tuple, Boot] = {}
    for entry in entries:
        if kind in entry.get("kinds", []):
            key = (kind, tuple(entry.get("with", [])), entry.get("memory"), entry.get("cpus"))
            boot = made.setdefault(key, Boot(*key))
            boot.jobs += _jobs(top, entry, meson_tests)
    for boot in made.values():
        names = [job.name for job in boot.jobs]
        if len(set(names)) < len(names):
            raise Mistake(f"lab/tests.toml: two tests of the kind {kind} have one name")
    return list(made.values())


def _jobs(top: Path, entry: dict, meson_tests):
    common = {"limit": entry.get("limit", 0), "fresh": entry.get("fresh", False)}
    environment = {"TEK_BUILD": f"{GUEST_TOP}/build"} | entry.get("environment", {})
    if "command" in entry:
        format = entry.get("format", "status")
        yield Job(entry["name"], entry["command"], format, entry["name"], environment, **common)
    elif "pytest" in entry:
        environment |= {"PYTHONPATH": f"{GUEST_TOP}/tools", "CHECK_RECORD": f"/dev/fd/{RECORD_FD}"}
        for module in entry["pytest"]:
            options = ["-k", entry["only"]] if "only" in entry else []
            command = ["sh", "-c", f'exec {RECORD_FD}>&2 "$@"', "sh", *PYTEST, *options,
                       f"{GUEST_TOP}/{module}"]
            name = f"{entry['name']}.{Path(module).stem}"
            yield Job(name, command, "pytest", module, environment, **common)
    else:
        build = top / entry["meson"]
        for test in meson_tests(build):
            if Path(test["cmd"][0]).parent == build / "tests":
                yield _of_meson(top, entry["name"], test, environment, common)


def _of_meson(top: Path, name: str, test: dict, more: dict, common: dict) -> Job:
    def there(text: str) -> str:
        return text.replace(str(top), GUEST_TOP)

    program = test["name"].split(" / ")[-1]
    environment = more | {key: there(value) for key, value in test.get("env", {}).items()}
    says_tap = "CMOCKA_MESSAGE_OUTPUT" in environment
    return Job(f"{name}.{program}", [there(word) for word in test["cmd"]],
               "tap" if says_tap else "status", program, environment, **common)
