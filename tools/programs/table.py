"""The results as a Markdown table, and as JSON."""

import json
from collections.abc import Iterable

from .modes import MODES
from .verdict import Cell, Known, Verdict, change, expected

# The marks of docs/programs.md.
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"


def markdown(
    cells: Iterable[Cell],
    about: dict[str, str],
    versions: dict[str, str],
    known: tuple[Known, ...],
) -> str:
    by_program: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_program.setdefault(cell.program, {})[cell.mode] = cell
    names = [mode.name for mode in MODES]
    lines = [f"- {name}: {value}" for name, value in about.items()]
    lines += ["", f"| program | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    notes = []
    for program, row in by_program.items():
        title = f"{program} {versions.get(program, '')}".strip()
        skipped = row.get("native")
        if skipped and skipped.verdict is Verdict.SKIPPED:
            lines.append(f"| {title} |{' – |' * len(names)}")
            notes.append(f"- {program}: skipped: {escaped(skipped.why)}")
            continue
        lines.append(f"| {title} | {' | '.join(_word(row.get(name)) for name in names)} |")
        notes += _notes((row[name] for name in names if name in row), known)
    return "\n".join([*lines, "", *notes, ""]) if notes else "\n".join([*lines, ""])


def _word(cell: Cell | None) -> str:
    if cell is None:
        return " "
    return cell.verdict.value if cell.verdict is Verdict.WORKS else f"**{cell.verdict.value}**"


def _notes(cells: Iterable[Cell], known: tuple[Known, ...]) -> list[str]:
    """A line for each reason, with the modes that share it."""
    modes: dict[tuple[str, str], list[str]] = {}
    program = ""
    for cell in cells:
        program = cell.program
        if cell.verdict not in (Verdict.WORKS, Verdict.SKIPPED):
            entry = expected(cell, known)
            why = entry.reason if entry and change(cell, known) == 0 else cell.why
            modes.setdefault((cell.verdict.value, why), []).append(cell.mode)
    return [
        f"- {program}, {', '.join(names)}: {verdict}: {escaped(why)}"
        for (verdict, why), names in modes.items()
    ]


def escaped(text: str) -> str:
    """Text of a program, for a Markdown page."""
    printable = "".join(sign if sign.isprintable() else "?" for sign in text)
    for sign in "\\`*_|<>[]":
        printable = printable.replace(sign, f"\\{sign}")
    return printable


def inserted(page: str, text: str) -> str:
    """A page with a text between its two marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{text}{END}{after}"


def to_json(cells: Iterable[Cell], about: dict[str, str], versions: dict[str, str]) -> str:
    rows = [
        {
            "program": cell.program,
            "mode": cell.mode,
            "verdict": cell.verdict.value,
            "why": cell.why,
            "errors": list(cell.errors),
            "seconds": cell.seconds,
        }
        for cell in cells
    ]
    return json.dumps({"about": about, "versions": versions, "cells": rows}, indent=1) + "\n"


def from_json(text: str) -> tuple[list[Cell], dict[str, str], dict[str, str]]:
    stored = json.loads(text)
    cells = [
        Cell(
            row["program"],
            row["mode"],
            Verdict(row["verdict"]),
            row["why"],
            tuple(row["errors"]),
            row["seconds"],
        )
        for row in stored["cells"]
    ]
    return cells, stored["about"], stored["versions"]
