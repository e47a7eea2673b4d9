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
    format: str  # tap, pytest, libtest or status
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
    in_turns: bool
    jobs: list[Job] = field(default_factory=list)


KEYS = {"name", "kinds", "meson", "pytest", "rust", "command", "with", "limit", "memory", "cpus",
        "in-turns", "fresh", "here", "environment", "only", "format"}


def read(path: Path) -> tuple[list[dict], dict[str, list[str]]]:
    """The entries of lab/tests.toml, and what is to be run before a kind's tests."""
    with path.open("rb") as stream:
        document = tomllib.load(stream)
    entries = document.get("tests", [])
    machines = _machines(path.with_name("kinds.toml"))
    for entry in entries:
        wrong = _mistake(entry, path.parents[1], machines)
        if wrong:
            raise Mistake(f"{path}: {entry.get('name', 'a test without a name')}: {wrong}")
    return entries, document.get("prepare", {})


def _machines(path: Path) -> set[str]:
    with path.open("rb") as stream:
        return set(tomllib.load(stream)["kind"])


def _mistake(entry: dict, top: Path, machines: set[str]) -> str:
    """What is wrong with an entry of the file; empty if nothing is."""
    for key in entry.keys() - KEYS:
        return f"there is no `{key}`; there are {', '.join(sorted(KEYS))}"
    if not isinstance(entry.get("name"), str):
        return "it needs a name"
    if not entry.get("here") and not entry.get("kinds"):
        return "it needs kinds, or here = true"
    if sum(key in entry for key in ("meson", "pytest", "rust", "command")) != 1:
        return "it needs one of meson, pytest, rust, command"
    for key in ("kinds", "pytest", "rust", "command", "with"):
        words = entry.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return f'`{key}` is a list of strings, such as ["a", "b"]'
    for kind in set(entry.get("kinds", [])) - machines:
        return f"there is no kind {kind}; there are {', '.join(sorted(machines))}"
    for module in entry.get("pytest", []):
        if not (top / module).is_file():
            return f"there is no {module}"
    return ""


def kinds(entries: list[dict]) -> list[str]:
    """The kinds that have tests, in the order of the file."""
    return list(dict.fromkeys(kind for entry in entries for kind in entry.get("kinds", [])))


def here(entries: list[dict]) -> list[str]:
    """The pytest modules that run on this machine, and boot what they need themselves."""
    return [module for entry in entries if entry.get("here") for module in entry["pytest"]]


def boots(top: Path, entries: list[dict], kind: str, meson_tests, only: str = "") -> list[Boot]:
    """What runs in guests of that kind, or of it the entries called `only`. `meson_tests` tells a
    build directory's tests, as `meson introspect --tests` does."""
    made: dict[tuple, Boot] = {}
    for entry in entries:
        if kind in entry.get("kinds", []) and only in ("", entry["name"]):
            key = (kind, tuple(entry.get("with", [])), entry.get("memory"), entry.get("cpus"),
                   entry.get("in-turns", False))
            boot = made.setdefault(key, Boot(*key))
            boot.jobs += _jobs(top, entry, meson_tests)
    for boot in made.values():
        names = [job.name for job in boot.jobs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Mistake(f"lab/tests.toml: two tests of the kind {kind} are called {twice}")
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
    elif "rust" in entry:
        for program in entry["rust"]:
            yield Job(f"{entry['name']}.{program}", [f"{GUEST_TOP}/build/rust-tests/{program}"],
                      "libtest", program, environment, **common)
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
