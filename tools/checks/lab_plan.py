"""Makes jobs for `tek lab run --jobs` of lab/tests.toml."""

import re
import tomllib
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

GUEST_TOP = "/tek"  # where a guest has the project's files
RECORD_FD = 9  # pytest_record.py writes there: results come out even of a guest that dies
PYTEST = ["/usr/bin/python3", "-B", "-m", "pytest", "-v", "-p", "checks.pytest_record",
          "-p", "no:cacheprovider", f"--rootdir={GUEST_TOP}"]


# Limits of lab/tests.toml are for a guest that has two idle cores. Other guests run beside it, and
# some machines are slow. A long limit costs time only if a test hangs.
PATIENCE = 3


class Mistake(Exception):
    """lab/tests.toml is wrong; the text says where."""


@dataclass(frozen=True)
class Job:
    """One command in a guest, and the format of its output."""

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
    """Jobs that share a guest, because they need the same machine and the same files."""

    kind: str
    sets: tuple[str, ...]
    memory: str | None
    cpus: int | None
    in_turns: bool
    alone: bool  # no other guest runs meanwhile
    jobs: list[Job] = field(default_factory=list)
    seconds: int = 0  # estimated duration


@dataclass(frozen=True)
class Choice:
    """Which tests of a kind run: all, those of one name, or the smoke set."""

    kind: str
    only: str = ""  # the name of an entry or of a job
    smoke: bool = False


TESTS = ("meson", "pytest", "rust", "command")
KEYS = {*TESTS, "name", "kinds", "with", "limit", "memory", "cpus", "in-turns", "fresh", "here",
        "environment", "only", "format", "alone", "seconds", "smoke", "tests"}


def read(path: Path) -> tuple[list[dict], dict[str, list[str]]]:
    """The entries of lab/tests.toml, and [prepare]: commands by kind or set of files."""
    with path.open("rb") as stream:
        document = tomllib.load(stream)
    entries = document.get("tests", [])
    machines = _machines(path.with_name("kinds.toml"))
    for entry in entries:
        wrong = _mistake(entry, path.parents[1], machines)
        if wrong:
            raise Mistake(f"{path}: {entry.get('name', 'a test without a name')}: {wrong}")
    return entries, document.get("prepare", {})


def _machines(path: Path) -> dict[str, dict]:
    with path.open("rb") as stream:
        return tomllib.load(stream)["kind"]


def _mistake(entry: dict, top: Path, machines: dict[str, dict]) -> str:
    """What is wrong with an entry of the file; empty if it is right."""
    for key in entry.keys() - KEYS:
        return f"there is no `{key}`; there are {', '.join(sorted(KEYS))}"
    if not isinstance(entry.get("name"), str):
        return "it needs a name"
    if not entry.get("here") and not entry.get("kinds"):
        return "it needs kinds, or here = true"
    if sum(key in entry for key in TESTS) != 1:
        return f"it needs one of {', '.join(TESTS)}"
    for key in ("kinds", "pytest", "rust", "command", "with", "tests"):
        words = entry.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return f'`{key}` is a list of strings, such as ["a", "b"]'
    for kind in set(entry.get("kinds", [])) - machines.keys():
        return f"there is no kind {kind}; there are {', '.join(sorted(machines))}"
    for module in entry.get("pytest", []):
        if not (top / module).is_file():
            return f"there is no {module}"
    return _mistake_of_smoke(entry, top)


def _mistake_of_smoke(entry: dict, top: Path) -> str:
    """What is wrong with an entry's `smoke`, such as a test that has another name now."""
    modules = {Path(module).name: top / module for module in entry.get("pytest", [])}
    if not isinstance(entry.get("smoke", {}), dict):
        return "`smoke` needs a kind, such as smoke.rt = true"
    for kind, chosen in entry.get("smoke", {}).items():
        if kind not in entry.get("kinds", []):
            return f"`smoke.{kind}`: the entry has no kind {kind}"
        for name in [] if chosen is True else chosen:
            module, _, test = name.partition("::")
            if modules and module not in modules:
                return f"`smoke.{kind}`: the entry has no module {module}"
            text = modules[module].read_text() if modules else ""
            if test and not re.search(rf"^def {re.escape(test.split('[')[0])}\(", text, re.M):
                return f"`smoke.{kind}`: {module} has no {test}"
            if name not in entry.get("rust", [name]):
                return f"`smoke.{kind}`: the entry has no program {name}"
    return ""


def kinds(entries: list[dict]) -> list[str]:
    """The kinds that have tests, in the order of the file."""
    return list(dict.fromkeys(kind for entry in entries for kind in entry.get("kinds", [])))


def here(entries: list[dict]) -> list[tuple[str, int]]:
    """The pytest modules that run on this machine and boot guests, with estimated seconds."""
    return [(module, entry.get("seconds", 0)) for entry in entries if entry.get("here")
            for module in entry["pytest"]]


def kinds_of_smoke(entries: list[dict]) -> list[str]:
    """The kinds that have tests in the smoke set."""
    return [kind for kind in kinds(entries)
            if any(kind in entry.get("smoke", {}) for entry in entries)]


def needs(entries: list[dict], choice: Choice) -> list[str]:
    """Names that [prepare] may have: the kind, and the sets of files of the chosen guests."""
    sets = (name for entry in entries if _may_be_chosen(entry, choice)
            for name in entry.get("with", []))
    return list(dict.fromkeys([choice.kind, *sets]))


def boots(top: Path, entries: list[dict], choice: Choice, meson_tests) -> list[Boot]:
    """The boots. `meson_tests` returns a build directory's tests, as `meson introspect --tests`."""
    made: dict[tuple, Boot] = {}
    for entry in entries:
        if not _may_be_chosen(entry, choice):
            continue
        jobs = [job for job in _jobs(top, entry, choice, meson_tests)
                if choice.only in ("", entry["name"], job.name)]
        # The smoke set has few jobs: fewer boots are worth more than less in each guest, and one
        # that does not see the load of this machine more than CPUs that run at the same time.
        machine = (entry.get("memory"), entry.get("cpus"),
                   choice.smoke or entry.get("in-turns", False), entry.get("alone", False))
        sets = tuple(entry.get("with", []))
        key = machine if choice.smoke else (sets, *machine)
        boot = made.setdefault(key, Boot(choice.kind, sets, *machine))
        boot.sets = tuple(dict.fromkeys([*boot.sets, *sets]))
        boot.jobs += jobs
        boot.seconds += entry.get("seconds", 0)
    _forbid_twins(choice.kind, made.values())
    return [boot for boot in made.values() if boot.jobs]


def megabytes(top: Path, boot: Boot) -> int:
    """The memory of its guest."""
    text = boot.memory or _machines(top / "lab/kinds.toml")[boot.kind]["memory"]
    return int(text[:-1]) * {"M": 1, "G": 1024}[text[-1]]


def _may_be_chosen(entry: dict, choice: Choice) -> bool:
    """Whether a job of the entry can be among the chosen ones."""
    if choice.kind not in entry.get("kinds", []):
        return False
    if choice.smoke and choice.kind not in entry.get("smoke", {}):
        return False
    return choice.only in ("", entry["name"]) or choice.only.startswith(entry["name"] + ".")


def _forbid_twins(kind: str, made) -> None:
    """Two jobs of one name would write to the same files."""
    names = [job.name for boot in made for job in boot.jobs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Mistake(f"lab/tests.toml: two tests of the kind {kind} are called {twice}")


def _jobs(top: Path, entry: dict, choice: Choice, meson_tests):
    common = {"limit": PATIENCE * entry.get("limit", 0), "fresh": entry.get("fresh", False)}
    environment = {"TEK_BUILD": f"{GUEST_TOP}/build", "TEK_TEST_PATIENCE": str(PATIENCE)}
    environment |= entry.get("environment", {})
    smoke = entry["smoke"][choice.kind] if choice.smoke else True
    if "command" in entry:
        format = entry.get("format", "status")
        yield Job(entry["name"], entry["command"], format, entry["name"], environment, **common)
    elif "pytest" in entry:
        for module in entry["pytest"]:
            tests = [f"{GUEST_TOP}/{module}"] if smoke is True else [
                f"{GUEST_TOP}/{Path(module).parent}/{name}" for name in smoke
                if name.split("::")[0] == Path(module).name]
            if tests:
                yield _of_pytest(entry, module, tests, environment, common)
    elif "rust" in entry:
        for program in entry["rust"]:
            if smoke is True or program in smoke:
                yield Job(f"{entry['name']}.{program}",
                          [f"{GUEST_TOP}/build/rust-tests/{program}"], "libtest", program,
                          environment, **common)
    else:
        build = top / entry["meson"]
        for test in meson_tests(build):
            if _is_wanted(test, build / "tests", entry.get("tests")):
                job = _of_meson(top, entry["name"], test, environment, common)
                if smoke is True or job.title in smoke:
                    yield job


def is_of(job: Job, name: str) -> bool:
    """Whether the job has a test of that name."""
    return name == job.title or name.startswith(tuple(job.title + end for end in ("::", "/", ": ")))


def narrowed(job: Job, name: str) -> Job:
    """The job with this test only, if its program can select one."""
    if job.format == "pytest" and "::" in name:
        words = [word for word in job.command if not word.startswith(f"{GUEST_TOP}/{job.title}")]
        return replace(job, command=[*words, f"{GUEST_TOP}/{name}"])
    if job.format == "libtest" and ": " in name:
        return replace(job, command=[*job.command, name.split(": ", 1)[1], "--exact"])
    return job


def _of_pytest(entry: dict, module: str, tests: list[str], environment: dict, common: dict) -> Job:
    environment = environment | {"PYTHONPATH": f"{GUEST_TOP}/tools",
                                 "CHECK_RECORD": f"/dev/fd/{RECORD_FD}"}
    options = ["-k", entry["only"]] if "only" in entry else []
    command = ["sh", "-c", f'exec {RECORD_FD}>&2 "$@"', "sh", *PYTEST, *options, *tests]
    return Job(f"{entry['name']}.{Path(module).stem}", command, "pytest", module, environment,
               **common)


def _is_wanted(test: dict, directory: Path, patterns: list[str] | None) -> bool:
    """Whether `tests` of an entry selects a program.

    Without patterns: the programs in the directory. With patterns: those in it or below it, if the
    last pattern that matches has no `!`.
    """
    program = Path(test["cmd"][0])
    if patterns is None:
        return program.parent == directory
    name = test["name"].split(" / ")[-1]
    fit = [pattern for pattern in patterns if fnmatchcase(name, pattern.removeprefix("!"))]
    return directory in program.parents and bool(fit) and not fit[-1].startswith("!")


def _of_meson(top: Path, name: str, test: dict, more: dict, common: dict) -> Job:
    def there(text: str) -> str:
        return text.replace(str(top), GUEST_TOP)

    program = test["name"].split(" / ")[-1]
    environment = more | {key: there(value) for key, value in test.get("env", {}).items()}
    is_tap = "CMOCKA_MESSAGE_OUTPUT" in environment
    return Job(f"{name}.{program}", [there(word) for word in test["cmd"]],
               "tap" if is_tap else "status", program, environment, **common)
