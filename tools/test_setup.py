"""Tests of tools/setup, on a system whose package manager is a few scripts."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).parent
# Each reads the directory $SYSTEM, which has files named like packages: in `has` those that apt
# knows, with their versions; in `installed` those that are there; in `broken` those that cannot be
# installed.
SCRIPTS = {
    "dpkg": "case $1 in --print-architecture) echo amd64 ;; "
    '--compare-versions) [ "$(printf "%s\\n" "$4" "$2" | sort -V | head -n 1)" = "$4" ] ;; esac',
    "dpkg-query": 'for last; do :; done; [ -e "$SYSTEM/installed/$last" ] && printf installed',
    "apt-cache": 'if [ "$1" = pkgnames ]; then cd "$SYSTEM/has" && ls | grep "^$2"; exit 0; fi; '
    # As in a session whose language is German.
    'word=Installationskandidat; [ "$LC_ALL" != C ] || word=Candidate; '
    'printf "  $word: %s\\n" "$(cat "$SYSTEM/has/$2" 2>/dev/null || echo "(none)")"',
    "apt-get": """
echo "$*" >>"$SYSTEM/calls"
simulated=
for word; do case $word in --simulate) simulated=y ;; update) exit 0 ;; -*|install|*::*) ;; *)
	if ! [ -e "$SYSTEM/has/$word" ]; then echo "E: Unable to locate package $word"; exit 100; fi
	if [ -e "$SYSTEM/broken/$word" ]; then
		echo " $word : Conflicts: other but it is to be installed"
		exit 100
	fi
esac; done
for word; do case $word in -*|install|*::*) ;; *)
	echo "Inst $word (1.0 Debian)"
	[ "$simulated" ] || touch "$SYSTEM/installed/$word"
esac; done""",
    "cargo": "echo cargo 1.99.0",
    "systemctl": ":",
    "id": "echo ${FAKE_ID:-0}",
    "tee": "cat >/dev/null",
    "chmod": ":",
    "rustup": "exit 1",
    "sudo": "exit 1",
}
PACKAGES = """\
[build]
gcc # C compiler
multi [optional] # programs of 32 bits
[tests]
old1 | new2 # an allocator
gone # another library
[lab]
qemu # machines
[chroot]
strap # systems
"""


class Setup(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)
        self.system, commands = self.top / "system", self.top / "commands"
        for name in ("tools", "commands", "system/has", "system/installed", "system/broken"):
            (self.top / name).mkdir(parents=True)
        for name in ("env", "packages", "setup", "apt.sh", "cargo"):
            shutil.copy(TOOLS / name, self.top / "tools")
        (self.top / "tools/packages.txt").write_text(PACKAGES)
        (self.top / "Cargo.toml").write_text('rust-version = "1.88"\n')
        for name, text in SCRIPTS.items():
            (commands / name).write_text(f"#!/bin/sh\n{text}\n")
            (commands / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{commands}:/usr/bin:/bin",
            "SYSTEM": str(self.system),
        }
        self.has("gcc", "multi", "new2", "qemu", "strap")

    def has(self, *names, version="1.0"):
        for name in names:
            (self.system / "has" / name).write_text(version)

    def setup(self, *words, status=0, **environment):
        done = subprocess.run(
            [self.top / "tools/setup", *words],
            env=self.environment | environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=60,
        )
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def installed(self):
        return sorted(os.listdir(self.system / "installed"))

    def calls(self):
        file = self.system / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_the_available_alternative_is_installed(self):
        self.setup("tests")
        self.assertEqual(self.installed(), ["gcc", "multi", "new2"])

    def test_the_first_available_alternative_is_installed(self):
        self.has("old1")
        self.setup("tests")
        self.assertIn("old1", self.installed())
        self.assertNotIn("new2", self.installed())

    def test_an_alternative_that_is_there_is_enough(self):
        self.has("old1", "gone")
        (self.system / "installed/new2").touch()
        self.setup("tests")
        self.assertNotIn("old1", self.installed())

    def test_an_unavailable_package_is_reported_with_its_purpose_and_the_rest_is_installed(self):
        info = self.setup("tests")
        self.assertEqual(
            info.count("gone: another library (no apt source of this system has it)"), 1
        )
        self.assertEqual(self.installed(), ["gcc", "multi", "new2"])

    def test_an_unavailable_package_is_reported_once(self):
        self.setup("tests")
        calls = self.calls()
        self.assertEqual(self.setup("tests"), "")
        self.assertEqual(self.calls(), calls)

    def test_a_conflicting_package_is_reported_and_the_rest_is_installed(self):
        (self.system / "broken/multi").touch()
        info = self.setup("tests")
        self.assertEqual(self.installed(), ["gcc", "new2"])
        self.assertIn(
            "multi: programs of 32 bits (multi : Conflicts: other but it is to be installed)", info
        )

    def test_without_one_that_the_build_needs_it_ends(self):
        (self.system / "has/gcc").unlink()
        info = self.setup("tests", status=1)
        self.assertIn("gcc: C compiler (no apt source of this system has it)", info)
        self.assertIn("TEK cannot be built without gcc", info)
        self.assertIn("new2", self.installed())
        self.assertIn("gone\t", (self.top / "build/setup.lacking").read_text())
        self.setup("build", status=1)  # and does so again

    def test_unavailable_packages_of_tests_are_remembered_when_the_build_is_set_up(self):
        self.setup("tests")
        (self.system / "installed/multi").unlink()
        (self.system / "broken/multi").touch()
        self.setup("build")
        lacking = (self.top / "build/setup.lacking").read_text()
        self.assertEqual(
            [line.split("\t")[0] for line in lacking.splitlines()],
            ["multi", "old1 new2", "gone"][::2],
        )

    def test_other_sections_are_left_alone(self):
        self.setup("build")
        self.assertEqual(self.installed(), ["gcc", "multi"])
        self.setup("chroot")
        self.assertEqual(self.installed(), ["gcc", "multi", "strap"])

    def test_a_user_that_cannot_become_root_gets_the_command(self):
        info = self.setup("tests", status=1, FAKE_ID="1000")
        self.assertEqual(self.calls(), [])
        self.assertRegex(
            info, r"(?m)apt-get install --no-install-recommends gcc multi new2$"
        )
        self.assertTrue(info.endswith("Nothing can be built without gcc.\n"), info)

    def test_a_user_goes_on_without_what_only_tests_need(self):
        (self.system / "installed/gcc").touch()
        info = self.setup("tests", FAKE_ID="1000")
        self.assertRegex(info, r"apt-get install --no-install-recommends multi new2$")
        self.assertEqual(self.calls(), [])

    def test_a_newer_rust_is_taken_from_where_the_system_has_it(self):
        # Neither PATH nor /usr/bin, which a test cannot change, has a recent one.
        (self.top / "tools/cargo").write_text("#!/bin/sh\nexit 1\n")
        for version, names, found in (
            ("1.96", ("cargo-web", "rustfmt-web", "rust-web-clippy"), "cargo-web"),
            ("1.80", ("cargo-1.80",), "cargo-web"),
            ("1.89", ("cargo-1.89", "rustfmt-1.89", "rust-1.89-clippy"), "cargo-1.89"),
            ("1.90", ("cargo", "rustfmt", "rust-clippy"), "cargo"),
        ):
            with self.subTest(found=found, version=version):
                self.has(*names, version=version)
                for name in self.installed():
                    (self.system / "installed" / name).unlink()
                self.setup("tests")
                self.assertIn(found, self.installed())
                self.assertEqual(sum("cargo" in name for name in self.installed()), 1)


if __name__ == "__main__":
    unittest.main()
