# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where tests find files of the project."""
import pathlib

E2E = pathlib.Path(__file__).resolve().parent
TOP = E2E.parents[1]
ABI = TOP / "abi"
PROGRAMS = E2E / "programs"
