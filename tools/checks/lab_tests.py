"""The tests that run in the kernel lab, in guests that `tek lab run` boots: lab/tests.toml."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from . import e2e_tests, lab_plan, rust_tests, tap
from .process import BUILD_SILENCE, Context, describe_status, run
from .results import Case, failed, passed, skipped

SKIPPED = 77  # the exit status of a program that says why it cannot be tested, in its last line
NO_KERNEL = 1  # that of `tek lab fetch` where a kernel or a package cannot be had
# Seconds that `tek lab run` may be silent beside the limit of a job: boots, and what ends a job.
SILENCE = 300
# How often tests are run again whose kernel died of being emulated.
RUNS_MORE = 3
# The bytes at which a CPU stands (<>), where a tracepoint that is off has an instruction that does nothing.
NOTHING = "<0f> 1f 44 00 00"
# Where another one waits for it that changes the kernel's code.
WAITING = "text_poke_bp_batch+"
HOST_SILENCE = 900  # its tests boot guests, several to a test


def suites(top: Path) -> dict:
    """A suite for each kind of machine, and one for what drives the lab from this machine. Of a kind
    some of the tests are a suite too: lab-KIND:NAME."""
    entries, prepare = lab_plan.read(top / "lab/tests.toml")
    made = {f"lab-{kind}": partial(_of_kind, entries, kind, prepare.get(kind), "")
            for kind in lab_plan.kinds(entries)}
    here = [top / path for path in lab_plan.here(entries)]
    return made | ({"lab-host": partial(_here, here)} if here else {})


def suites_by_name(top: Path) -> dict:
    """Those of single tests: lab-KIND:NAME."""
    entries, prepare = lab_plan.read(top / "lab/tests.toml")
    return {f"lab-{kind}:{entry['name']}": partial(_of_kind, entries, kind, prepare.get(kind),
                                                   entry["name"])
            for entry in entries for kind in entry.get("kinds", [])}


def _here(modules: list[Path], context: Context) -> list[Case]:
    return e2e_tests.run_pytest(context, "lab-host", modules, HOST_SILENCE)


def _of_kind(entries: list[dict], kind: str, prepare: list[str] | None, only: str,
             context: Context) -> list[Case]:
    suite = f"lab-{kind}"
    failure, lacking = _prepare(context, suite, kind, prepare)
    if failure:
        return [failure]
    try:
        boots = lab_plan.boots(context.top, entries, kind, _meson_tests, only)
    except lab_plan.Mistake as mistake:
        return [failed(suite, str(mistake))]
    if lacking:
        return [skipped(job.title, lacking) for boot in boots for job in boot.jobs]
    return [case for number, boot in enumerate(boots, 1)
            for case in _boot(context, suite, boot, context.logs / suite / str(number))]


def _meson_tests(build: Path) -> list[dict]:
    file = build / "meson-info/intro-tests.json"
    return json.loads(file.read_text()) if file.exists() else []


def _lab(context: Context) -> str:
    return str(context.build / "bin/tek")


def _prepare(context: Context, suite: str, kind: str,
             prepare: list[str] | None) -> tuple[Case | None, str]:
    """What failed, or why no machine of that kind can be booted here; neither if one can."""
    for command, lacks in (([_lab(context), "lab", "fetch", "--kind", kind], NO_KERNEL),
                           (prepare, SKIPPED)):
        finished = run(context, suite, command, BUILD_SILENCE) if command else None
        if finished and finished.status:
            words = [line for line in finished.output.splitlines() if line.strip()]
            name = command[0].rsplit("/", 1)[-1]
            if finished.status == lacks and not finished.hung:
                return None, f"{name}: {words[-1] if words else finished.how}"
            return failed(f"{suite}: {name}", finished.how, finished.log), ""
    return None, ""


def _boot(context: Context, suite: str, boot: lab_plan.Boot, results: Path) -> list[Case]:
    results.parent.mkdir(parents=True, exist_ok=True)
    ended, otherwise = _run_jobs(context, suite, boot, results)
    written = {job.name: results / job.name for job in boot.jobs}
    for number in range(RUNS_MORE):
        again = replace(boot, jobs=[job for job in boot.jobs
                                    if died_of_emulation(ended.get(job.name, {}))])
        if not again.jobs:
            break
        # tek lab run wants an empty one.
        directory = results.with_name(f"{results.name}-again-{number + 1}")
        records_again, _ = _run_jobs(context, suite, again, directory)
        for name, record in records_again.items():
            ended[name] = record | {"again": True}
            written[name] = directory / name
    return [case for job in boot.jobs
            for case in _with_told(cases_of_job(job, ended.get(job.name), written[job.name], otherwise),
                                   written[job.name], ended.get(job.name, {}).get("again", False))]


def died_of_emulation(record: dict) -> bool:
    """Whether the kernel met a breakpoint of its own that it knew nothing of any more. It puts them where it switches a
    tracepoint on or off; on several emulated CPUs one may still meet it later, without TEK too (docs/lab.md). Linux 7.2
    dies of it. Linux 6.1 tries again for ever, where the breakpoint is no more: watchdog after watchdog finds the CPU
    before the instruction that does nothing, or the one that has put the breakpoint there and waits for an answer."""
    console = record.get("console", [])
    if record.get("outcome") == "hung":
        lockups = [at for at, line in enumerate(console) if "BUG: soft lockup" in line]
        stands = sum(any(NOTHING in line for line in console[at:at + 12]) for at in lockups)
        waits = sum(WAITING in line for line in console)
        return stands >= 2 or (bool(lockups) and waits >= 2)
    return record.get("outcome") == "panicked" and any("Oops: int3:" in line for line in console)


def _run_jobs(context: Context, suite: str, boot: lab_plan.Boot,
              results: Path) -> tuple[dict[str, dict], str]:
    """How each job ended, by name, and what there is to say of those that are not told of."""
    jobs = results.with_suffix(".json")
    jobs.write_text(json.dumps([job.as_json() for job in boot.jobs], indent=1))
    command = [_lab(context), "lab", "run", "--kind", boot.kind, "--jobs", str(jobs),
               "--results", str(results),
               # where the C tests were told that it is
               "--add", str(context.top / "tests/profiles")]
    if boot.sets:
        command += ["--manifest", str(context.top / "lab/manifest.toml")]
    command += [word for name in boot.sets for word in ("--with", name)]
    for option, value in (("--memory", boot.memory), ("--cpus", boot.cpus)):
        command += [option, str(value)] if value else []
    command += ["--in-turns"] if boot.in_turns else []
    finished = run(context, suite, command, SILENCE + max(job.limit for job in boot.jobs))
    ended = {record["job"]: record for record in records(finished.output)}
    words = [line for line in finished.output.splitlines() if line.startswith("tek: ")]
    return ended, words[-1] if words else finished.how


def _with_told(cases: list[Case], directory: Path, again: bool = False) -> list[Case]:
    """A test writes what people are to read, such as numbers, into $OUT/told."""
    told = _text(directory / "files/told").rstrip()
    if again:
        told = f"{cases[0].name}: run again, because the emulated kernel died of its own\n{told}".rstrip()
    return [replace(cases[0], told=told), *cases[1:]] if told else cases


def records(output: str) -> list[dict]:
    """The JSON lines of `tek lab run --jobs`, among what else it says."""
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
    """The end of a job in words; as process.describe_status where it ended by itself."""
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
    """What a kernel that panics says was wrong first, and who had called whom."""
    text = [re.sub(r"^\s*(\[[^]]*\]\s*)+", "", line) for line in console]
    faults = [line for line in text if re.match(r"(BUG|Oops|RIP|.*fault|kernel BUG)\b", line)]
    begin = next((at for at, line in enumerate(text) if line.startswith("Call Trace:")), len(text))
    calls = re.findall(r"^([\w.]+)\+0x", "\n".join(text[begin:]), re.M)
    return "; ".join(faults[:3] + ([" < ".join(calls[:12])] if calls else []))


def cases_of_job(job: lab_plan.Job, record: dict | None, directory: Path,
                 otherwise: str) -> list[Case]:
    """The tests of one job. `otherwise` says how the lab ended, if it does not tell of the job."""
    if record is None:
        return [failed(job.title, f"tek lab run did not tell of it ({otherwise})")]
    how = how_it_ended(record)
    said, complained = (_text(directory / name) for name in ("stdout", "stderr"))
    log = _write_log(directory, job, how, record, said, complained)
    status = record["status"] if record["outcome"] == "exited" else None
    if job.format == "tap":
        return tap.judge(tap.parse(said, job.title, log), job.title, status, how, log)
    if job.format == "libtest":
        return rust_tests.judge(said, job.title, status, how, log)
    if job.format == "pytest":
        return e2e_tests.judge(_events(complained), job.title, status, how, log)
    if status == 0:
        return [passed(job.title)]
    if status == SKIPPED:
        return [skipped(job.title, _last_line(said))]
    last = _last_line(complained) if record["outcome"] == "exited" else ""
    return [failed(job.title, f"{how}: {last}" if last else how, log)]


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _events(text: str) -> list[str]:
    """The lines of pytest_record.py, among what else there is on standard error."""
    return [line for line in text.splitlines() if line.startswith('{"event": ')]


def _write_log(directory: Path, job: lab_plan.Job, how: str, record: dict, said: str,
               complained: str) -> Path:
    """One file with everything that a person wants to know of a job that failed."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "log"
    parts = [f"$ {' '.join(job.command)}", f"{how}, after {record.get('seconds', 0):.1f} s, "
             f"in boot {record.get('boot', '?')}"]
    if record.get("left"):
        parts.append(f"left behind: {', '.join(record['left'])}")
    if record.get("console"):
        parts += ["", "---- last lines of the console ----", *record["console"]]
    parts += ["", "---- standard output ----", said, "---- standard error ----", complained]
    log.write_text("\n".join(parts))
    return log

