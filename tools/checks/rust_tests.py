"""The Rust tests: cargo test, read from what libtest prints."""

import os
import re
from dataclasses import replace
from pathlib import Path

from .process import BUILD_SILENCE, Context, run
from .results import Case, failed, passed, skipped

BINARY = re.compile(r"^\s+(?:Running .*/(.+)-[0-9a-f]+\)|Doc-tests (\S+))$")
ANNOUNCED = re.compile(r"^running (\d+) tests?$")
RESULT = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored)(?:, (.*))?$")
# Tests of tek-bpf that load BPF programs, for which root needs the kernel's types (BTF).
# --workspace, because one package alone would be compiled again, with fewer features of its
# dependencies.
WITH_PROGRAMS = ["--workspace", "--test", "kthreads", "--test", "storage", "--test", "wakes",
                 "--test", "network", "--test", "locks", "--test", "locks_forged",
                 "--test", "answers", "--test", "dbus", "--test", "waits_cost"]
CAP_SYS_ADMIN = 21
# A test of tekd receives the kernel's events about a process, for which it needs root in the
# initial network namespace.
WITH_NEWS = ["--workspace", "--bins"]
CAP_NET_ADMIN = 12
# The output of failed tests comes after all results; a panic's message is on the line after its
# place.
OUTPUT = re.compile(r"^---- (.+) stdout ----$")
PANIC = re.compile(r"^thread '.*' .*panicked at .*:$")
TOTAL = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")


# Property tests take the same cases in each run, so that none fails by chance.  tools/nightly takes
# different cases, and many more.
os.environ.setdefault("PROPTEST_RNG_SEED", "1")

BUILD = ["tools/cargo", "test", "--locked", "--workspace", "--no-run"]


def build(context: Context) -> list[Case]:
    """Returns failures only."""
    built = run(context, "rust", BUILD, BUILD_SILENCE)
    return [failed("cargo test --no-run", built.how, built.log)] if built.status else []


def cargo_test(context: Context) -> list[Case]:
    if wrong := build(context):
        return wrong
    finished = run(context, "rust",
                   ["tools/cargo", "test", "--locked", "--workspace", "--no-fail-fast"])
    cases = parse(finished.output, finished.log)
    if can_load_programs():
        cases = with_ignored(context, cases, "rust-root", WITH_PROGRAMS)
    if receives_news():
        cases = with_ignored(context, cases, "rust-news", WITH_NEWS)
    if finished.hung or (finished.status and not any(c.outcome.value == "failed" for c in cases)):
        cases.append(failed("cargo test", finished.how, finished.log))
    return cases


def alone(context: Context, name: str) -> list[Case]:
    """The test `BINARY: PATH`. Tests with that path in other programs run, too.

    A failed build, and a program that died, have no PATH: they do not run again.
    """
    binary, _, path = name.partition(": ")
    if not path:
        return [failed(name, "is no single test")]
    documentation = binary.startswith("doc tests of ")
    which = ["--doc"] if documentation else ["--lib", "--bins", "--tests"]
    chosen = [path] if documentation else ["--include-ignored", "--exact", path]
    finished = run(context, "rust-alone", [
        "tools/cargo", "test", "--locked", "--workspace", "--no-fail-fast", *which, "--",
        "--test-threads=1", *chosen])
    return [case for case in parse(finished.output, finished.log) if case.name == name]


def is_root_with(right: int) -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    rights = int(re.search(r"CapEff:\s*(\w+)", status)[1], 16)
    return os.geteuid() == 0 and bool(rights >> right & 1)


def can_load_programs() -> bool:
    return is_root_with(CAP_SYS_ADMIN) and Path("/sys/kernel/btf/vmlinux").exists()


def receives_news() -> bool:
    # The kernel makes this file in the first network namespace, where it has news of processes.
    connector = Path("/proc/net/connector")
    return (is_root_with(CAP_NET_ADMIN) and connector.exists()
            and "cn_proc" in connector.read_text(encoding="ascii"))


def with_ignored(context: Context, cases: list[Case], name: str, which: list[str]) -> list[Case]:
    """Runs those that were ignored because they need root, too: one after the other, because each
    sees the critical threads of all."""
    finished = run(context, name,
                   ["tools/cargo", "test", "--locked", *which,
                    "--no-fail-fast", "--", "--ignored", "--test-threads=1"])
    ran = parse(finished.output, finished.log)
    if finished.status and not any(case.outcome.value == "failed" for case in ran):
        ran.append(failed(f"cargo test {' '.join(which)} -- --ignored", finished.how, finished.log))
    names = {case.name for case in ran}
    return [case for case in cases if case.name not in names] + ran


def judge(text: str, program: str, status: int | None, how: str, log) -> list[Case]:
    """Cases from the output of one test program, which ended so."""
    cases = parse(text, log, program)
    if not cases or (status != 0 and not any(c.outcome.value == "failed" for c in cases)):
        cases.append(failed(program, how, log))
    return cases


def parse(text: str, log=None, binary: str = "cargo test") -> list[Case]:
    """Cases from the output of cargo test, or of the one test program `binary`.

    Each test binary announces the number of its tests and ends with their totals. A binary
    without totals died. Totals also count tests whose result line is garbled by output.
    """
    cases: list[Case] = []
    found, announced = [], None
    failing, panics, before = "", {}, ""
    printed: dict[str, list[str]] = {}

    def close(total) -> None:
        nonlocal found, announced, panics, printed, failing
        if announced is None:
            return
        cases.extend(replace(case, reason=panics.get(case.name, case.reason),
                             output="\n".join(printed.get(case.name, []))) for case in found)
        if total is None:
            lost = announced - len(found)
            cases.append(failed(binary, f"died with {lost} of {announced} tests missing", log))
        else:
            seen = [sum(case.outcome.value == outcome for case in found)
                    for outcome in ("passed", "failed", "skipped")]
            makers = (passed, lambda n: failed(n, "failed", log), lambda n: skipped(n, "ignored"))
            for count, known, make in zip(total, seen, makers):
                cases.extend(make(f"{binary}: a test whose line was garbled")
                             for _ in range(count - known))
        found, announced, panics, printed, failing = [], None, {}, {}, ""

    for line in text.splitlines():
        if PANIC.match(before):
            panics.setdefault(failing, line)
        before = line
        if match := OUTPUT.match(line):
            failing = f"{binary}: {match[1]}"
            printed[failing] = []
        elif match := BINARY.match(line):
            close(None)
            binary = match[1] or f"doc tests of {match[2]}"
        elif match := ANNOUNCED.match(line):
            close(None)
            announced = int(match[1])
        elif match := TOTAL.match(line):
            close([int(match[i]) for i in (1, 2, 3)])
        elif failing:
            printed[failing].append(line)
        elif match := RESULT.match(line):
            name = f"{binary}: {match[1]}"
            if match[2] == "ok":
                found.append(passed(name))
            elif match[2] == "ignored":
                found.append(skipped(name, match[3] or "ignored"))
            else:
                found.append(failed(name, "failed", log))
    close(None)
    return cases
