"""Tests of tools/configure: a build directory follows what is installed."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).parent
MESON = """\
project('small', 'c', default_options: ['buildtype=plain'])
executable('always', 'main.c')
if dependency('cmocka', method: 'pkg-config', required: false).found()
  executable('test_some', 'main.c')
endif
"""
PACKAGES = "[build]\ngcc # C compiler\nno-such-package # nothing\n"
MODULE = "Name: cmocka\nDescription: none\nVersion: {}\nLibs:\nCflags:\n"


class Tree(unittest.TestCase):
    """A tree with tools/configure, whose pkg-config knows only what a test puts there."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.top = Path(self.directory.name)
        (self.top / "tools").mkdir()
        for name in ("env", "packages", "configure"):
            shutil.copy(TOOLS / name, self.top / "tools")
        (self.top / "tools/packages.txt").write_text(PACKAGES)
        (self.top / "meson.build").write_text(MESON)
        (self.top / "main.c").write_text("int main(void) { return 0; }\n")
        self.modules, self.commands = self.top / "modules", self.top / "commands"
        self.modules.mkdir()
        self.commands.mkdir()
        self.environment = {
            **os.environ,
            "PKG_CONFIG_LIBDIR": str(self.modules),
            "PATH": f"{self.commands}:{os.environ['PATH']}",
        }

    def run_in_tree(self, *command):
        done = subprocess.run(
            command,
            cwd=self.top,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def configure(self, *options):
        return self.run_in_tree("tools/configure", "build", *options)

    def targets(self):
        text = (self.top / "build/meson-info/intro-targets.json").read_text()
        return [target["name"] for target in json.loads(text)]

    def install(self, version="1.1"):
        (self.modules / "cmocka.pc").write_text(MODULE.format(version))


class Configure(Tree):
    def test_a_module_that_is_installed_later_is_used(self):
        self.configure()
        self.assertEqual(self.targets(), ["always"])
        self.install()
        self.assertIn("now module cmocka: 1.1", self.configure())
        self.assertEqual(self.targets(), ["always", "test_some"])

    def test_a_module_that_is_removed_is_no_longer_used(self):
        self.install()
        self.configure()
        (self.modules / "cmocka.pc").unlink()
        self.assertIn("no longer module cmocka: 1.1", self.configure())
        self.assertEqual(self.targets(), ["always"])

    def test_nothing_is_done_where_nothing_has_changed(self):
        self.configure()
        self.assertEqual(self.configure(), "")

    def test_options_stay(self):
        for change in (self.install, self.other_compiler):
            self.configure("-Dwarning_level=3")
            change()
            self.configure()
            info = json.loads((self.top / "build/meson-info/intro-buildoptions.json").read_text())
            self.assertIn(
                "3", [option["value"] for option in info if option["name"] == "warning_level"]
            )
            shutil.rmtree(self.top / "build")

    def test_another_compiler_makes_all_objects_anew(self):
        self.configure()
        self.run_in_tree("ninja", "-C", "build")
        self.other_compiler()
        self.configure()
        self.assertFalse((self.top / "build/always").exists())
        self.assertNotIn("no work to do", self.run_in_tree("ninja", "-C", "build"))

    def test_a_directory_of_which_nothing_is_known_is_configured_again(self):
        self.configure()
        (self.top / "build/packages").unlink()
        self.install()
        self.configure()
        self.assertEqual(self.targets(), ["always", "test_some"])

    def test_a_set_up_that_fails_is_tried_again(self):
        self.configure()
        self.install()
        (self.top / "meson.build").write_text("nonsense(")
        with self.assertRaises(AssertionError):
            self.configure()
        (self.top / "meson.build").write_text(MESON)
        self.configure()
        self.assertEqual(self.targets(), ["always", "test_some"])

    def other_compiler(self):
        """One that calls itself otherwise, as after an upgrade."""
        wrapper = self.commands / "cc"
        # Without this one in PATH: where cc is ccache that looks there for the compiler.
        path = shlex.quote(os.environ["PATH"])
        wrapper.write_text(f'#!/bin/sh\nPATH={path} cc "$@" | sed "1s/^cc (/cc (upgraded, /"\n')
        wrapper.chmod(0o755)


if __name__ == "__main__":
    unittest.main()
