"""The tests of lab/tests.toml, which run in guests that `tek lab run` boots."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock

from . import e2e_tests, lab_plan, rust_tests, tap
from .lab_boots import Work, run_all
from .lab_plan import Choice
from .process import BUILD_SILENCE, Context, describe_status, run, side_by_side
from .results import Case, failed, passed, skipped

SKIPPED = 77  # the exit status of a skipped test; its last line is the reason
NO_KERNEL = 1  # the exit status of `tek lab fetch` if a kernel or package is unavailable
# Seconds that `tek lab run` may be silent beyond the limit of a job: to boot, and to end a job.
SILENCE = 900
# Seconds that a guest may take to boot, beside other guests and compilers.
BOOT_LIMIT = 300
# How often tests run again if their kernel died of a defect of emulation.
RUNS_MORE = 3
# The machine code of a tracepoint that is off, a no-op; <> marks the instruction pointer.
NOTHING = "<0f> 1f 44 00 00"
# The function in which another CPU waits while it patches the kernel's code.
WAITING = "text_poke_bp_batch+"
HOST = "lab-host"  # the suite of tests that run on this machine and boot guests
HOST_SILENCE = 900  # seconds; one of its tests may boot several guests


def suites(top: Path, smoke: bool = False) -> list[str]:
    """A suite for each kind of machine, and HOST."""
    entries, _ = lab_plan.read(top / "lab/tests.toml")
    if smoke:
        return [f"lab-{kind}" for kind in lab_plan.kinds_of_smoke(entries)]
    return [f"lab-{kind}" for kind in lab_plan.kinds(entries)] + (
        [HOST] if lab_plan.here(entries) else [])


def single_suites(top: Path) -> list[str]:
    """Suites of one entry of the file or of one of its jobs: lab-KIND:NAME."""
    entries, _ = lab_plan.read(top / "lab/tests.toml")
    found = []
    for kind in lab_plan.kinds(entries):
        jobs = [job.name for boot in lab_plan.boots(top, entries, Choice(kind), _meson_tests)
                for job in boot.jobs]
        names = [entry["name"] for entry in entries if kind in entry.get("kinds", [])]
        found += [f"lab-{kind}:{name}" for name in dict.fromkeys(names + jobs)]
    return found


class Lab:
    """The chosen suites. When the first suite runs, the boots of all run side by side."""

    def __init__(self, top: Path, names: list[str], smoke: bool = False):
        self.entries, self.prepare = lab_plan.read(top / "lab/tests.toml")
        self.choices = {name: _choice(name, smoke) for name in names if name != HOST}
        self.names = names
        self.cases: dict[str, list[Case]] | None = None
        self.locks = {choice.kind: Lock() for choice in self.choices.values()}
        self.fetched: dict[str, Prepared] = {}

    def suites(self) -> dict:
        """The functions of the suites, as tools/check needs them."""
        return {name: partial(self._suite, name) for name in self.names}

    def _suite(self, name: str, context: Context) -> list[Case]:
        if self.cases is None:
            self.cases = {}  # if the next line fails, no suite tries again
            self.cases = run_all(self._works(context))
        return self.cases.get(name, [])

    def _works(self, context: Context) -> list[Work]:
        """Builds the files of the guests, and returns all boots."""
        needs = {name for choice in self.choices.values()
                 for name in lab_plan.needs(self.entries, choice)}
        commands = list(dict.fromkeys(tuple(command) for name, command in self.prepare.items()
                                      if name in needs))
        ended = dict(zip(commands, side_by_side(partial(_prepare, context, SKIPPED), commands)))
        built = {name: ended[tuple(self.prepare[name])] for name in needs & self.prepare.keys()}
        works = [work for name in self.choices for work in self._works_of(context, name, built)]
        if HOST in self.names:
            works += [Work(HOST, partial(_here, context, context.top / module), seconds)
                      for module, seconds in lab_plan.here(self.entries)]
        return works

    def _works_of(self, context: Context, suite: str, built: dict[str, "Prepared"]) -> list[Work]:
        choice = self.choices[suite]
        needs = lab_plan.needs(self.entries, choice)
        failures = list(dict.fromkeys(built[name].failure for name in needs
                                      if name in built and built[name].failure))
        try:
            boots = lab_plan.boots(context.top, self.entries, choice, _meson_tests)
        except lab_plan.Mistake as mistake:
            failures, boots = [*failures, failed(suite, str(mistake))], []
        works = [Work(suite, lambda: failures)] if failures else []
        for boot in boots:
            of_boot = [built[name] for name in (boot.kind, *boot.sets) if name in built]
            lacking = next((prepared.lacking for prepared in of_boot if prepared.lacking), "")
            if any(prepared.failure for prepared in of_boot):
                continue
            run_it = partial(self._fetch_and_boot, context, boot)
            works.append(Work(suite, partial(_skipped, boot, lacking)) if lacking else
                         Work(suite, run_it, boot.seconds,
                              lab_plan.megabytes(context.top, boot), boot.alone))
        return works

    def _fetch_and_boot(self, context: Context, boot: lab_plan.Boot) -> list[Case]:
        suite = f"lab-{boot.kind}"
        with self.locks[boot.kind]:
            is_first = boot.kind not in self.fetched
            if is_first:
                fetch = (_lab(context), "lab", "fetch", "--kind", boot.kind)
                self.fetched[boot.kind] = _prepare(context, NO_KERNEL, fetch)
        fetched = self.fetched[boot.kind]
        if fetched.failure:
            return [fetched.failure] if is_first else []
        return _skipped(boot, fetched.lacking) if fetched.lacking else _boot(
            context, boot, _unused(context.logs / suite))


def ways(top: Path, smoke: bool = False) -> dict:
    """How one test of each suite runs alone: in a guest like that of the suite."""
    names = [*suites(top, smoke), *([] if smoke else single_suites(top))]
    return {name: _alone_here if name == HOST else partial(_alone, _choice(name, smoke))
            for name in names}


def _alone(choice: Choice, context: Context, name: str) -> list[Case]:
    lab = Lab(context.top, [])
    for boot in lab_plan.boots(context.top, lab.entries, choice, _meson_tests):
        for job in boot.jobs:
            if lab_plan.is_of(job, name):
                single = replace(boot, jobs=[lab_plan.narrowed(job, name)])
                return _boot(context, single, _unused(context.logs / f"lab-{choice.kind}"))
    return []


def _alone_here(context: Context, name: str) -> list[Case]:
    return e2e_tests.run_pytest(context, f"{HOST}-alone", [context.top / name], HOST_SILENCE)


def _choice(suite: str, smoke: bool) -> Choice:
    kind, _, only = suite.removeprefix("lab-").partition(":")
    return Choice(kind, only, smoke)


def _skipped(boot: lab_plan.Boot, why: str) -> list[Case]:
    return [skipped(job.title, why) for job in boot.jobs]


def _unused(directory: Path) -> Path:
    """A new directory in it for the results of a boot: `tek lab run` needs an empty one."""
    for number in count(1):
        with suppress(FileExistsError):
            (directory / str(number)).mkdir(parents=True)
            return directory / str(number)
    raise AssertionError


def _here(context: Context, module: Path) -> list[Case]:
    return e2e_tests.run_pytest(context, f"{HOST}-{module.stem}", [module], HOST_SILENCE)


def _meson_tests(build: Path) -> list[dict]:
    file = build / "meson-info/intro-tests.json"
    return json.loads(file.read_text()) if file.exists() else []


def _lab(context: Context) -> str:
    return str(context.build / "bin/tek")


@dataclass(frozen=True)
class Prepared:
    """The failure of a preparation, or what this machine lacks; both empty on success."""

    failure: Case | None = None
    lacking: str = ""


def _prepare(context: Context, lacks: int, command: tuple[str, ...]) -> Prepared:
    """Run a command, whose exit status `lacks` means that something is unavailable."""
    name = " ".join([Path(command[0]).name, *command[1:]])
    finished = run(context, f"lab-{name.replace(' ', '-')}", [*command], BUILD_SILENCE)
    if not finished.status:
        return Prepared()
    words = [line for line in finished.output.splitlines() if line.strip()]
    if finished.status == lacks and not finished.hung:
        return Prepared(lacking=f"{name}: {words[-1] if words else finished.how}")
    return Prepared(failed(name, finished.how, finished.log))


def _boot(context: Context, boot: lab_plan.Boot, results: Path) -> list[Case]:
    ended, otherwise = _run_jobs(context, boot, results)
    written = {job.name: results / job.name for job in boot.jobs}
    for number in range(RUNS_MORE):
        again = replace(boot, jobs=[job for job in boot.jobs
                                    if died_of_emulation(ended.get(job.name, {}))])
        if not again.jobs:
            break
        directory = results.with_name(f"{results.name}-again-{number + 1}")
        records_again, _ = _run_jobs(context, again, directory)
        for name, record in records_again.items():
            ended[name] = record | {"again": True}
            written[name] = directory / name
    cases = []
    for job in boot.jobs:
        record = ended.get(job.name)
        of_job = cases_of_job(job, record, written[job.name], otherwise)
        cases += _with_report(of_job, written[job.name], (record or {}).get("again", False))
    return cases


def died_of_emulation(record: dict) -> bool:
    """Whether the kernel hit a breakpoint of its own that it had removed already.

    The kernel patches code by breakpoints when it switches a tracepoint. A second emulated CPU may
    hit one too late, even without TEK (docs/lab.md). Linux 7.2 panics. Linux 6.1 retries for ever,
    and its watchdog reports a CPU at the patched no-op, or the CPU that waits while it patches.
    """
    console = record.get("console", [])
    if record.get("outcome") == "hung":
        lockups = [at for at, line in enumerate(console) if "BUG: soft lockup" in line]
        stands = sum(any(NOTHING in line for line in console[at:at + 12]) for at in lockups)
        waits = sum(WAITING in line for line in console)
        return stands >= 2 or (bool(lockups) and waits >= 2)
    return record.get("outcome") == "panicked" and any("Oops: int3:" in line for line in console)


def _run_jobs(context: Context, boot: lab_plan.Boot, results: Path) -> tuple[dict[str, dict], str]:
    """The record of each job by name, and the reason why other jobs have none."""
    jobs = results.with_suffix(".json")
    jobs.write_text(json.dumps([job.as_json() for job in boot.jobs], indent=1))
    command = [_lab(context), "lab", "run", "--kind", boot.kind, "--jobs", str(jobs),
               "--results", str(results), "--boot-limit", str(BOOT_LIMIT),
               # at the same paths, which are compiled into the C tests
               "--add", str(context.top / "tests/profiles"),
               "--add", str(context.top / "tests/vectors")]
    if boot.sets:
        command += ["--manifest", str(context.top / "lab/manifest.toml")]
    command += [word for name in boot.sets for word in ("--with", name)]
    for option, value in (("--memory", boot.memory), ("--cpus", boot.cpus)):
        command += [option, str(value)] if value else []
    command += ["--in-turns"] if boot.in_turns else []
    # A log for each boot, because boots run side by side.
    finished = run(context, f"lab-{boot.kind}-{results.name}", command,
                   SILENCE + max(job.limit for job in boot.jobs))
    ended = {record["job"]: record for record in records(finished.output)}
    words = [line for line in finished.output.splitlines() if line.startswith("tek: ")]
    return ended, words[-1] if words else finished.how


def _with_report(cases: list[Case], directory: Path, again: bool = False) -> list[Case]:
    """The cases with the report that the test wrote to $OUT/report, such as measurements."""
    report = _text(directory / "files/report").rstrip()
    if again:
        report = (f"{cases[0].name}: ran again, because a defect of emulation killed the kernel\n"
                  f"{report}").rstrip()
    return [replace(cases[0], report=report), *cases[1:]] if report else cases


def records(output: str) -> list[dict]:
    """The JSON records in the output of `tek lab run --jobs`."""
    found = []
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if "job" in record and "outcome" in record:
                found.append(record)
    return found


def how_it_ended(record: dict) -> str:
    """The end of a job in words; those of process.describe_status if it ended by itself."""
    outcome = record["outcome"]
    if outcome == "exited":
        return describe_status(record["status"])
    if outcome == "killed":
        memory = ", the guest had no memory left" if record.get("out_of_memory") else ""
        return describe_status(-record["signal"]) + memory
    words = {
        "timed-out": "did not end in time",
        "not-started": "could not be started",
        "panicked": "the guest's kernel panicked",
        "hung": "the guest did not answer any more",
        "stopped": "the guest powered off or rebooted",
        "qemu-died": "QEMU ended",
        "not-booted": "no guest came up",
    }.get(outcome, outcome)
    where = _where_it_failed(record.get("console", [])) if outcome == "panicked" else ""
    return ": ".join(part for part in (words, record.get("why"), where) if part)


def _where_it_failed(console: list[str]) -> str:
    """The first faults that a panicking kernel reports, and the call trace."""
    text = [re.sub(r"^\s*(\[[^]]*\]\s*)+", "", line) for line in console]
    faults = [line for line in text if re.match(r"(BUG|Oops|RIP|.*fault|kernel BUG)\b", line)]
    begin = next((at for at, line in enumerate(text) if line.startswith("Call Trace:")), len(text))
    calls = re.findall(r"^([\w.]+)\+0x", "\n".join(text[begin:]), re.M)
    return "; ".join(faults[:3] + ([" < ".join(calls[:12])] if calls else []))


def cases_of_job(job: lab_plan.Job, record: dict | None, directory: Path,
                 otherwise: str) -> list[Case]:
    """The cases of one job. `otherwise` is the reason if there is no record of the job."""
    if record is None:
        return [failed(job.title, f"tek lab run did not report it ({otherwise})")]
    how = how_it_ended(record)
    seen, complained = (_text(directory / name) for name in ("stdout", "stderr"))
    log = _write_log(directory, job, how, record, seen, complained)
    status = record["status"] if record["outcome"] == "exited" else None
    if job.format == "tap":
        return tap.judge(tap.parse(seen, job.title, log), job.title, status, how, log)
    if job.format == "libtest":
        return rust_tests.judge(seen, job.title, status, how, log)
    if job.format == "pytest":
        return e2e_tests.judge(_events(complained), job.title, status, how, log)
    if status == 0:
        return [passed(job.title)]
    if status == SKIPPED:
        return [skipped(job.title, _last_line(seen))]
    last = _last_line(complained) if record["outcome"] == "exited" else ""
    return [failed(job.title, f"{how}: {last}" if last else how, log)]


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _events(text: str) -> list[str]:
    """The lines of pytest_record.py on standard error."""
    return [line for line in text.splitlines() if line.startswith('{"event": ')]


def _write_log(directory: Path, job: lab_plan.Job, how: str, record: dict, seen: str,
               complained: str) -> Path:
    """Write one file with all that is known of a job, and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "log"
    parts = [f"$ {' '.join(job.command)}", f"{how}, after {record.get('seconds', 0):.1f} s, "
             f"in boot {record.get('boot', '?')}"]
    if record.get("left"):
        parts.append(f"left behind: {', '.join(record['left'])}")
    if record.get("console"):
        parts += ["", "---- last lines of the console ----", *record["console"]]
    parts += ["", "---- standard output ----", seen, "---- standard error ----", complained]
    log.write_text("\n".join(parts))
    return log

