"""Tests of tools/demo and of what tools/setup installs for it."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from checks import packages

TOP = Path(__file__).resolve().parents[1]
# Each writes how it was called to the file `calls`.
STUB = '#!/bin/sh\necho "${0##*/} $*" >> "$CALLS"\n'


class Demo(unittest.TestCase):
    """The script, with stubs in the place of all that it calls."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)
        for name in ("demo", "env"):
            self.put(f"tools/{name}", (TOP / "tools" / name).read_text())
        for name in ("tools/setup", "tools/configure", "tools/cargo", "bin/meson",
                     "build/demo/bin/tek", "build/cargo/demo/tek-bench"):
            self.put(name, STUB)
        self.put("build/cargo/demo/tek", STUB + "echo what $2 says\n")

    def put(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_demo(self, may):
        self.put("bin/chrt", STUB + f"exit {0 if may else 1}\n")
        calls = self.top / "calls"
        environment = {"PATH": f"{self.top}/bin:{os.environ['PATH']}", "CALLS": str(calls)}
        done = subprocess.run([self.top / "tools/demo"], text=True, capture_output=True,
                              check=False, env=os.environ | environment)
        return done, [line.split()[0] for line in calls.read_text().splitlines()]

    def test_without_the_right_to_real_time_priorities_nothing_is_installed_or_built(self):
        done, calls = self.run_demo(may=False)
        self.assertEqual((done.returncode, done.stdout, calls), (1, "", ["chrt"]))
        self.assertIn("Nothing was installed or built", done.stderr)
        self.assertIn("make demo", done.stderr)

    def test_the_demo_checks_its_right_then_installs_then_builds_then_measures(self):
        done, calls = self.run_demo(may=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls, ["chrt", "setup", "configure", "meson", "cargo", "tek", "tek"])

    def test_its_last_word_is_that_of_the_bench(self):
        done, _ = self.run_demo(may=True)
        self.assertEqual(done.stdout.splitlines()[-1], "what response says")

    def test_the_demo_has_build_directories_of_its_own(self):
        _, _ = self.run_demo(may=True)
        calls = (self.top / "calls").read_text()
        self.assertIn("configure build/demo -Ddemo=true\nmeson compile -C build/demo\n", calls)
        self.assertRegex(calls, r"\ncargo build --profile demo ")


class Packages(unittest.TestCase):
    def names(self, section):
        return {name for package in packages.listed(TOP) if package.section == section
                for name in package.names}

    def test_the_demo_needs_nothing_that_a_build_does_not(self):
        self.assertTrue(self.names("demo"))
        self.assertLessEqual(self.names("demo"), self.names("build"))

    def test_the_demo_needs_no_compiler_for_bpf_and_none_for_cxx(self):
        self.assertFalse({"clang", "llvm", "g++", "libelf-dev"} & self.names("demo"))


if __name__ == "__main__":
    unittest.main()
