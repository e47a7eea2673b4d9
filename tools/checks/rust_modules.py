"""The modules of the crates: those of one folder depend on each other without a circle.

A module depends on what its `use` lines and its paths from `crate`, `self` and `super` name.  A
name that the folder's own file passes on by `pub use` counts as the module that has it.  Tests
may use any module, and a child may use what its folder's own file defines.

As a program, `python3 -m checks.rust_modules` in tools: prints each circle.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]  # the path below the crate; () is the crate itself
Graph = dict[str, set[str]]

NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r"|'(?:\\.[^']*|[^\\'])'"  # characters
    r'|\br(#*)".*?"\1|"(?:\\.|[^"\\])*"',  # strings
    re.DOTALL)
TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[[^\n]*\n)*(?:pub(?:\([^)]*\))? )?mod \w+ \{.*?^\}",
                   re.MULTILINE | re.DOTALL)
USE = re.compile(r"\buse\s+((?:crate|self|super)\b[^;]*);")
PATH = re.compile(r"\b((?:crate|self|super)(?:::\w+)+)")
PASSED_ON = re.compile(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]*);")
ALIAS = re.compile(r"\s+as\s+\w+$")


def circles(top: Path) -> list[str]:
    """A line for each circle, with one use for each step in it."""
    lines = []
    for source in sorted(top.glob("crates/*/src")):
        lines += [f"{source.parent.name}{folder}: {steps}"
                  for folder, steps in _circles_of(modules(source))]
    return lines


def modules(source: Path) -> dict[Module, str]:
    """The code of each module of a crate, without comments, strings and tests."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        if not path.stem.endswith("tests"):
            name = path.relative_to(source).with_suffix("").parts
            if name[-1] == "mod" or name in (("lib",), ("main",)):
                name = name[:-1]
            code = TESTS.sub("", NO_CODE.sub('""', path.read_text()))
            found[name] = found.get(name, "") + code
    return found


def uses(code: str, module: Module) -> set[Module]:
    """The full paths that a module names, with the name of the item at their end."""
    named = [path for text in USE.findall(code) for path in _flat(text)]
    named += [tuple(text.split("::")) for text in PATH.findall(USE.sub("", code))]
    return {_resolved(path, module) for path in named}


def _flat(text: str) -> Iterator[Module]:
    """The paths of a use with braces."""
    text = text.strip()
    head, brace, tail = text.partition("{")
    if not brace:
        yield tuple(ALIAS.sub("", text).split("::"))
        return
    prefix = tuple(part for part in head.strip().split("::") if part)
    for one in _split(tail[:tail.rindex("}")]):
        for path in _flat(one):
            yield prefix + (() if path == ("self",) else path)


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that are in no braces."""
    depth, begin = 0, 0
    for at, char in enumerate(text + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            if text[begin:at].strip():
                yield text[begin:at]
            begin = at + 1


def _resolved(path: Module, module: Module) -> Module:
    if path[0] == "crate":
        return path[1:]
    base, rest = module, path
    while rest and rest[0] in ("self", "super"):
        base, rest = base[:-1] if rest[0] == "super" else base, rest[1:]
    return base + rest


def _passed_on(code: dict[Module, str]) -> dict[Module, Module]:
    """Where a name is that a folder's own file passes on from a child."""
    where = {}
    for module, text in code.items():
        for passed in PASSED_ON.findall(text):
            for path in _flat(passed):
                child = module + path[path[0] == "self":]
                if child[:len(module) + 1] in code:
                    where[module + path[-1:]] = child
    return where


def _circles_of(code: dict[Module, str]) -> Iterator[tuple[str, str]]:
    where = _passed_on(code)
    graphs: dict[Module, Graph] = defaultdict(lambda: defaultdict(set))
    reasons: dict[tuple[Module, str, str], str] = {}
    for module, text in code.items():
        for path in sorted(uses(text, module)):
            used = where.get(path, path)
            while used not in code:
                used = used[:-1]
            same = _common(module, used)
            if same < min(len(module), len(used)):
                user, other = module[same], used[same]
                graphs[module[:same]][user].add(other)
                reasons.setdefault((module[:same], user, other),
                                   f"{'::'.join(module)} uses {'::'.join(path)}")
    for folder, graph in sorted(graphs.items()):
        for circle in _strongly_connected(graph):
            steps = [reasons[folder, user, other] for user in circle
                     for other in sorted(graph[user] & set(circle))]
            yield "".join(f"::{name}" for name in folder), "; ".join(steps)


def _common(one: Module, other: Module) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b),
                min(len(one), len(other)))


def _strongly_connected(graph: Graph) -> list[list[str]]:
    """The sets of modules that reach each other."""
    reached = {module: _reached(graph, module) for module in sorted(graph)}
    circles = []
    for module, those in reached.items():
        if module in those and not any(module in circle for circle in circles):
            circles.append(sorted(other for other in those if module in reached.get(other, ())))
    return circles


def _reached(graph: Graph, begin: str) -> set[str]:
    reached, left = set(), [begin]
    while left:
        new = graph.get(left.pop(), set()) - reached
        reached |= new
        left += new
    return reached


def main() -> int:
    lines = circles(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "the modules of the crates have no circle")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
