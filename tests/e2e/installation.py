# SPDX-License-Identifier: MIT OR Apache-2.0
"""What tests of `make install` share."""
import contextlib
import json

import pytest

from conftest import BUILD


# There is one build/stage.
INSTALLS = pytest.mark.alone("installation")


def built_for():
    """The prefix that the build was made for; another one would have it built again."""
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    return next(option["value"] for option in options if option["name"] == "prefix")


@contextlib.contextmanager
def records_kept():
    """What `make uninstall` goes by is not to be changed by a test."""
    records = [BUILD / "installed-files", BUILD / "installed-directories"]
    kept = {record: record.read_bytes() for record in records if record.exists()}
    for record in kept:
        record.unlink()
    try:
        yield
    finally:
        for record in records:
            record.unlink(missing_ok=True)
        for record, text in kept.items():
            record.write_bytes(text)
