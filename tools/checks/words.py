"""Words that docs/terms.md tells to avoid are absent from identifiers of C, Rust and Python.

An identifier consists of words between underscores or camel humps.  Names of tests, which are
sentences about behaviour, are read as well.  `whose` is absent at the beginning only: it may follow
a thing, as in a_wait_whose_time_is_over.

Three words of the glossary are judged by place.  `zone` is a stack zone except in the engine, which
has non-preemptible sections.  `guard` and `profile` need a second word in texts; in code the module
or type is that word.  `door` and `find` mean nothing wrong alone.

As a program, `python3 -m checks.words` in tools: prints each breach.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from .language import C_TOKEN, language_of, tracked_files

AVOIDED = frozenset("""
    look looks looked hear hears heard tell tells told say says said who whom turn turns owed kept
    parks calm wish wishes home homes others means both unborn coming quick""".split())
# Words that are avoided only below a folder.
AVOIDED_IN = {"lib/uthread/": frozenset(("zone", "zones"))}
# Words that are avoided only at the beginning, and after `test`.
SUBJECTS = frozenset(("whoever", "whose"))

# Interfaces that other programs use: their names stay.
PUBLIC = {
    # abi/tek_message.h and crates/tek-abi: kinds of tekd's messages.
    "TEK_TELL_LEFT", "TEK_TELL_REFUSED", "TELL_LEFT", "TELL_REFUSED",
    # Options: tek bench --quick with its plan, tek lab run --in-turns.
    "quick", "QUICK", "in_turns",
    # The C library, the kernel, Rust's standard library, crossterm, the environment.
    "who", "__rusage_who_t", "IOPRIO_WHO_PROCESS", "Both", "Home", "HOME",
    # The red zone below the stack pointer is a term of the processors' ABIs.
    "TEK_STACK_RED_ZONE_BYTES",
}
PUBLIC_IN = {
    "who": {"lib/preload/uthread/state.c"},  # a parameter of getrusage(2) and setpriority(2)
}

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
NAME = re.compile(r"[A-Za-z_]\w*")
INCLUDE = re.compile(r"^\s*#\s*include.*$", re.MULTILINE)


def breaches(top: Path) -> list[str]:
    """A line for each file and identifier."""
    lines = []
    for name in tracked_files(top):
        language = language_of(top / name)
        if language in ("c", "rust", "python"):
            lines += [f"{name}:{line}"
                      for line in breaches_of(name, language, (top / name).read_text())]
    return lines


def breaches_of(name: str, language: str, text: str) -> list[str]:
    """The breaches of one file: `LINE: what is wrong`, once for each identifier."""
    first: dict[str, int] = {}
    for line, identifier in identifiers_of(language, text):
        first.setdefault(identifier, line)
    avoided = AVOIDED.union(*(words for folder, words in AVOIDED_IN.items()
                              if name.startswith(folder)))
    return [f"{line}: the name {identifier} has `{word}`; see docs/terms.md"
            for identifier, line in first.items() if not _is_public(name, identifier)
            for word in _wrong(identifier, avoided)]


def _is_public(name: str, identifier: str) -> bool:
    return identifier in PUBLIC and name in PUBLIC_IN.get(identifier, {name})


def _wrong(identifier: str, avoided: frozenset[str]) -> list[str]:
    words = words_of(identifier)
    begin = words[1:2] if words[:1] == ["test"] else words[:1]
    return ([word for word in words if word in avoided]
            + [word for word in begin if word in SUBJECTS])[:1]


def words_of(identifier: str) -> list[str]:
    return [word.lower() for part in identifier.split("_") for word in WORD.findall(part)]


def identifiers_of(language: str, text: str) -> Iterator[tuple[int, str]]:
    """Each identifier with its line; those of strings and comments are not read."""
    if language == "python":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string
        return
    code = C_TOKEN.sub(lambda found: " " + "\n" * found[0].count("\n"), text)
    if language == "c":
        code = INCLUDE.sub("", code)
    for number, line in enumerate(code.split("\n"), 1):
        for found in NAME.finditer(line):
            yield number, found[0]


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "names are in order")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
