# SPDX-License-Identifier: MIT OR Apache-2.0
"""Common parts of the tests of `make install`."""
import contextlib
import json

import pytest

from conftest import BUILD


# These tests share build/stage.
INSTALLS = pytest.mark.alone("installation")


def built_for():
    """The prefix of the build; installing to another one would build again."""
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    return next(option["value"] for option in options if option["name"] == "prefix")


@contextlib.contextmanager
def records_held():
    """Keeps a test from changing the lists of `make uninstall`."""
    records = [BUILD / "installed-files", BUILD / "installed-directories"]
    held = {record: record.read_bytes() for record in records if record.exists()}
    for record in held:
        record.unlink()
    try:
        yield
    finally:
        for record in records:
            record.unlink(missing_ok=True)
        for record, text in held.items():
            record.write_bytes(text)
