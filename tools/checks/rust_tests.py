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
# Tests of tek-bpf that load programs for the kernel, which is root's, and the kernel's types have to be there.
# Of the workspace, because one package alone would be built anew, with fewer features of its libraries.
WITH_PROGRAMS = ["--workspace", "--test", "kthreads", "--test", "network"]
CAP_SYS_ADMIN = 21
# A test of tekd's hears from the kernel of a process that it starts, which root does in the first network namespace.
WITH_NEWS = ["--workspace", "--bins"]
CAP_NET_ADMIN = 12
# What failed tests printed comes behind all results; a panic's words follow the line that says where it was.
OUTPUT = re.compile(r"^---- (.+) stdout ----$")
PANIC = re.compile(r"^thread '.*' .*panicked at .*:$")
TOTAL = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")


BUILD = ["tools/cargo", "test", "--locked", "--workspace", "--no-run"]


def build(context: Context) -> list[Case]:
    """Only what went wrong comes back."""
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
    if hears_news():
        cases = with_ignored(context, cases, "rust-news", WITH_NEWS)
    if finished.hung or (finished.status and not any(c.outcome.value == "failed" for c in cases)):
        cases.append(failed("cargo test", finished.how, finished.log))
    return cases


def alone(context: Context, name: str) -> list[Case]:
    """The one test of that name, `BINARY: PATH`. Others with that path in other programs run too."""
    binary, path = name.split(": ", 1)
    documentation = binary.startswith("doc tests of ")
    which = ["--doc"] if documentation else ["--lib", "--bins", "--tests"]
    chosen = [path] if documentation else ["--include-ignored", "--exact", path]
    finished = run(context, "rust-alone", ["tools/cargo", "test", "--locked", "--workspace", "--no-fail-fast",
                                           *which, "--", "--test-threads=1", *chosen])
    return [case for case in parse(finished.output, finished.log) if case.name == name]


def is_root_with(right: int) -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    rights = int(re.search(r"CapEff:\s*(\w+)", status)[1], 16)
    return os.geteuid() == 0 and bool(rights >> right & 1)


def can_load_programs() -> bool:
    return is_root_with(CAP_SYS_ADMIN) and Path("/sys/kernel/btf/vmlinux").exists()


def hears_news() -> bool:
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

    Each test binary announces how many tests it runs and sums them up at its end: a sum
    that never came is a binary that died, and a result line that a test's own output
    garbled is made up for from the sum.
    """
    cases: list[Case] = []
    found, announced = [], None
    told, panics, before = "", {}, ""
    printed: dict[str, list[str]] = {}

    def close(total) -> None:
        nonlocal found, announced, panics, printed, told
        if announced is None:
            return
        cases.extend(replace(case, reason=panics.get(case.name, case.reason),
                             output="\n".join(printed.get(case.name, []))) for case in found)
        if total is None:
            lost = announced - len(found)
            cases.append(failed(binary, f"died with {lost} of {announced} tests untold", log))
        else:
            seen = [sum(c.outcome.value == o for c in found) for o in ("passed", "failed", "skipped")]
            makers = (passed, lambda n: failed(n, "failed", log), lambda n: skipped(n, "ignored"))
            for count, known, make in zip(total, seen, makers):
                cases.extend(make(f"{binary}: a test whose line was garbled")
                             for _ in range(count - known))
        found, announced, panics, printed, told = [], None, {}, {}, ""

    for line in text.splitlines():
        if PANIC.match(before):
            panics.setdefault(told, line)
        before = line
        if match := OUTPUT.match(line):
            told = f"{binary}: {match[1]}"
            printed[told] = []
        elif match := BINARY.match(line):
            close(None)
            binary = match[1] or f"doc tests of {match[2]}"
        elif match := ANNOUNCED.match(line):
            close(None)
            announced = int(match[1])
        elif match := TOTAL.match(line):
            close([int(match[i]) for i in (1, 2, 3)])
        elif told and told in printed:
            printed[told].append(line)
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
