"""Tests of tools/format: only the version that laid the sources out may judge them."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from checks import process, results, style

TOOL = Path(__file__).with_name("format")


class Version(unittest.TestCase):
    def info(self, death="", **versions):
        """With these programs as the only ones in PATH, which then run `death`."""
        with tempfile.TemporaryDirectory() as directory:
            for name, version in versions.items():
                program = Path(directory, name.replace("_", "-"))
                program.write_text(
                    '#!/bin/sh\n[ "$1" = --version ] && '
                    f'echo "Debian clang-format version {version}.0.6"\n'
                    f'echo "{name}: $1"\n'
                    f'[ "$1" = --version ] || {{ {death or ":"}; }}\n'
                )
                program.chmod(0o755)
            return subprocess.run(
                [TOOL, "--check", "--only", "c"],
                env={**os.environ, "PATH": directory},
                capture_output=True,
                text=True,
                check=False,
            )

    def test_the_version_of_the_layout_is_found_under_either_name(self):
        for name in ("clang_format", "clang_format_14"):
            done = self.info(**{"clang_format": "19", name: "14"})
            self.assertEqual((done.returncode, done.stdout), (0, f"{name}: --dry-run\n"))

    def test_another_version_judges_nothing_and_reports_why(self):
        done = self.info(clang_format="19")
        self.assertEqual(done.returncode, 77)
        self.assertIn(
            "clang-format here is of version 19; the layout of C and C++ is that of version 14",
            done.stdout,
        )

    def test_a_formatter_that_dies_of_a_signal_is_a_failure(self):
        done = self.info(clang_format="14", death="kill -9 $$")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_missing_formatter_judges_nothing_and_reports_why(self):
        done = self.info()
        self.assertEqual(done.returncode, 77)
        self.assertIn("clang-format is missing", done.stdout)

    def test_the_style_check_is_skipped_with_that_reason(self):
        with tempfile.TemporaryDirectory() as directory:
            top = Path(directory)
            (top / "tools").mkdir()
            (top / "tools/it").write_text("#!/bin/sh\necho one\necho why not\nexit 77\n")
            (top / "tools/it").chmod(0o755)
            # pylint: disable-next=protected-access
            case = style._check(
                process.Context(top, top / "build", verbose=False), "it", ["tools/it"], "it"
            )
        self.assertEqual((case.outcome, case.reason), (results.Outcome.SKIPPED, "why not"))


if __name__ == "__main__":
    unittest.main()
