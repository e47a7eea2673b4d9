"""Which files of the tree are what: for the style checks and for tools/format."""

from pathlib import Path

C_DIRECTORIES = ("abi", "bpf", "include", "lib", "bench", "tests", "examples")
C_SUFFIXES = (".c", ".h", ".cpp", ".hpp")
SCRIPT_DIRECTORIES = ("tools", ".ci", "tests", "lab")


def c_files(top: Path) -> list[Path]:
    return sorted(path for name in C_DIRECTORIES for path in (top / name).rglob("*")
                  if path.suffix in C_SUFFIXES)


def public_headers(top: Path) -> list[Path]:
    return sorted([*(top / "abi").glob("*.h"), *(top / "include").rglob("*.h*")])


def shell_scripts(top: Path) -> list[Path]:
    files = (path for name in SCRIPT_DIRECTORIES for path in (top / name).rglob("*"))
    return sorted(path for path in files if path.is_file() and _is_shell(path))


def _is_shell(path: Path) -> bool:
    with path.open("rb") as stream:
        first = stream.readline(80)
    return first.startswith((b"#!/bin/sh", b"#!/bin/busybox sh", b"#!/bin/bash",
                             b"#!/usr/bin/env bash", b"# shellcheck"))


def man_pages(top: Path, build: Path) -> list[tuple[str, Path]]:
    """With the level from which mandoc's remarks count: generated ones are not ours to polish."""
    written, generated = (top / "docs/man").glob("*.[1-8]"), (build / "share/man").rglob("*.[1-8]")
    return [*(("warning", page) for page in sorted(written)),
            *(("error", page) for page in sorted(generated))]
