"""The Rust tests: cargo test, read from what libtest prints."""

import re

from .process import BUILD_SILENCE, Context, run
from .results import Case, failed, passed, skipped

BINARY = re.compile(r"^\s+(?:Running .*/(.+)-[0-9a-f]+\)|Doc-tests (\S+))$")
ANNOUNCED = re.compile(r"^running (\d+) tests?$")
RESULT = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored)(?:, (.*))?$")
TOTAL = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")


def cargo_test(context: Context) -> list[Case]:
    built = run(context, "rust", ["tools/cargo", "test", "--locked", "--workspace", "--no-run"],
                BUILD_SILENCE)
    if built.status:
        return [failed("cargo test --no-run", built.how, built.log)]
    finished = run(context, "rust",
                   ["tools/cargo", "test", "--locked", "--workspace", "--no-fail-fast"])
    cases = parse(finished.output, finished.log)
    if finished.hung or (finished.status and not any(c.outcome.value == "failed" for c in cases)):
        cases.append(failed("cargo test", finished.how, finished.log))
    return cases


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

    def close(total) -> None:
        nonlocal found, announced
        if announced is None:
            return
        cases.extend(found)
        if total is None:
            lost = announced - len(found)
            cases.append(failed(binary, f"died with {lost} of {announced} tests untold", log))
        else:
            seen = [sum(c.outcome.value == o for c in found) for o in ("passed", "failed", "skipped")]
            makers = (passed, lambda n: failed(n, "failed", log), lambda n: skipped(n, "ignored"))
            for count, known, make in zip(total, seen, makers):
                cases.extend(make(f"{binary}: a test whose line was garbled")
                             for _ in range(count - known))
        found, announced = [], None

    for line in text.splitlines():
        if match := BINARY.match(line):
            close(None)
            binary = match[1] or f"doc tests of {match[2]}"
        elif match := ANNOUNCED.match(line):
            close(None)
            announced = int(match[1])
        elif match := TOTAL.match(line):
            close([int(match[i]) for i in (1, 2, 3)])
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
