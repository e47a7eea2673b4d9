"""Tests of tools/fresh-chroot: where packages come from, and that nothing is left of a system."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from checks import carried, process
from chroots import sources, system
from chroots.sources import Source

TOOLS = Path(__file__).parent
TARGETS = """\
http://a.example/debian/|bookworm|main|Packages
http://a.example/debian/|bookworm|main|DEP-11
http://a.example/debian/|bookworm|contrib|Packages
http://a.example/debian/|bookworm-updates|main|Packages
http://s.example/security/|bookworm-security|main|Packages
http://a.example/debian/|bookworm-backports|main|Packages
https://other.example/deb/|stable|main|Packages
https://u.example/ubuntu/|noble|universe|Packages
"""


class Sources(unittest.TestCase):
    def lines(self, suite, has=lambda source: True):
        found = sources.sources_of(suite, sources.parse(TARGETS), "bookworm", has)
        return [source.line() for source in found]

    def test_another_suite_comes_from_where_this_machines_own_comes_from(self):
        self.assertEqual(
            self.lines("trixie"),
            [
                "deb http://a.example/debian/ trixie main contrib",
                "deb http://a.example/debian/ trixie-updates main",
                "deb http://s.example/security/ trixie-security main",
            ],
        )

    def test_its_own_suite_is_as_it_is(self):
        self.assertIn("deb http://a.example/debian/ bookworm main contrib", self.lines("bookworm"))
        self.assertIn(
            "deb http://s.example/security/ bookworm-security main", self.lines("bookworm")
        )

    def test_a_suite_that_has_a_source_of_its_own_comes_from_there(self):
        self.assertEqual(
            self.lines("noble", lambda source: "ubuntu" in source.uri),
            ["deb https://u.example/ubuntu/ noble universe"],
        )

    def test_parts_that_an_archive_does_not_have_are_left_out(self):
        self.assertEqual(
            self.lines("sid", lambda source: source.suite == "sid"),
            ["deb http://a.example/debian/ sid main contrib"],
        )

    def test_a_suite_that_none_has_is_refused_with_a_cure(self):
        with self.assertRaisesRegex(sources.NoSource, "has the suite nowhere. Add one that has"):
            self.lines("nowhere", lambda source: False)

    def test_only_apts_settings_about_reaching_archives_are_copied(self):
        for line, taken in (
            ('Acquire::http::Proxy "http://p.example:3128";', True),
            ('Acquire::http "";', False),
            ('Acquire::Check-Valid-Until "false";', True),
            ('Acquire::Languages "none";', False),
            ('Acquire::GzipIndexes "true";', False),
        ):
            self.assertEqual(bool(sources.SETTINGS.match(line)), taken, line)


class Clone(unittest.TestCase):
    def test_a_clone_that_is_there_gets_what_is_committed_and_keeps_its_build(self):
        with tempfile.TemporaryDirectory() as directory:
            tree, there = Path(directory, "tree"), system.System(
                Path(directory, "root"), "any", None
            )

            def commit(text):
                (tree / "file").write_text(text)
                for words in (
                    ["add", "file"],
                    ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"],
                ):
                    subprocess.run(["git", "-C", tree, *words], check=True)

            subprocess.run(["git", "init", "--quiet", tree], check=True)
            commit("one")
            clone = there.put(tree, "/srv/tek")
            (clone / "build").mkdir()
            commit("two")
            there.put(tree, "/srv/tek")
            self.assertEqual((clone / "file").read_text(), "two")
            self.assertTrue((clone / "build").exists())


class Command(unittest.TestCase):
    def info(self, *words):
        return subprocess.run(
            [TOOLS / "fresh-chroot", *words], capture_output=True, text=True, check=False
        )

    def test_help_has_examples(self):
        self.assertIn(
            "tools/fresh-chroot --build-from bookworm trixie check", self.info("--help").stdout
        )

    def test_nonsense_is_refused(self):
        for words in (
            ["../etc", "check"],
            ["trixie", "nonsense"],
            ["trixie"],
            ["--in", "/nowhere", "trixie", "check"],
            ["--build-from", "bookworm", "trixie", "shell"],
            ["--build-from", "trixie", "trixie", "check"],
        ):
            self.assertEqual(self.info(*words).returncode, 2, words)


@unittest.skipUnless(os.geteuid() == 0, "needs root, for mounts")
class Entered(unittest.TestCase):
    """tools/chroots/enter, in a system that has this machine's programs."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name).resolve()
        for name in ("proc", "sys", "dev", "tmp", "run", "etc", "usr"):
            (self.root / name).mkdir()
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / name).symlink_to(f"usr/{name}")
        (self.root / "etc/mine").touch()

    def run_in(self, script):
        """System.run() in a process of its own, which adopts orphans and has no other children."""
        program = (
            f"import sys; sys.path.insert(0, {str(TOOLS)!r}); from pathlib import Path; "
            "from chroots import system; "
            "system.adopt_orphans(); "
            f"there = system.System(Path({str(self.root)!r}), 'any', None); "
            f"sys.exit(there.run('sh', '-c', {script!r}))"
        )
        # The machine's /usr is put into the new namespace first, which dies with it.
        command = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            f'mount --bind /usr {self.root}/usr && exec "$@"',
            "sh",
            sys.executable,
            "-B",
            "-c",
            program,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def test_its_root_is_the_directory_and_nothing_of_it_is_mounted_outside(self):
        before = Path("/proc/self/mountinfo").read_text()
        done = self.run_in(
            "ls /etc; ls -d /proc/self/fd /dev/null /sys/kernel; df / | wc -l; exit 7"
        )
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(
            done.stdout.split(), ["mine", "/dev/null", "/proc/self/fd", "/sys/kernel", "2"]
        )
        self.assertEqual(Path("/proc/self/mountinfo").read_text(), before)

    def test_users_may_have_namespaces_there_which_chroot_would_forbid(self):
        if subprocess.run(
            ["unshare", "--user", "true"], check=False, capture_output=True
        ).returncode:
            self.skipTest("user namespaces are not allowed on this machine")
        self.assertEqual(self.run_in("unshare --user true").returncode, 0)

    def test_a_daemon_that_is_left_behind_is_ended(self):
        done = self.run_in("setsid sleep 77 >/dev/null 2>&1 & echo $!")
        left = Path(f"/proc/{int(done.stdout)}")
        for _ in range(100):
            if not left.exists():
                break
            time.sleep(0.02)
        self.assertFalse(left.exists())

    def test_an_orphan_that_ends_is_no_zombie(self):
        done = self.run_in(
            "sh -c 'sleep 0.1 & echo $! >/tmp/orphan'; pid=$(cat /tmp/orphan); "
            "for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e /proc/$pid ] || exit 0; sleep 0.1; done; exit 1"
        )
        self.assertEqual(done.returncode, 0)


class Carried(unittest.TestCase):
    def test_those_that_meson_expects_to_fail_are_left_out(self):
        build = Path("/b")
        chosen = carried.runnable(
            [
                {"cmd": ["/b/tests/c/test_one"]},
                {"cmd": ["/b/bench/fair", "always"]},
                {"cmd": ["/usr/bin/python3", "x", "bench/fair"]},
            ],
            build,
        )
        self.assertEqual(
            [test["cmd"][0] for test in chosen], ["/b/tests/c/test_one", "/usr/bin/python3"]
        )

    def test_each_program_is_judged_by_what_it_prints(self):
        with tempfile.TemporaryDirectory() as directory:
            context = process.Context(Path(directory), Path(directory), verbose=False)
            tap = {"CMOCKA_MESSAGE_OUTPUT": "TAP"}
            for script, environment, outcomes in (
                ("echo 1..1; echo ok 1 - a", tap, ["passed"]),
                ("echo 1..2; echo ok 1 - a", tap, ["passed", "failed"]),
                ("exit 0", {}, ["passed"]),
                ("exit 1", {}, ["failed"]),
                ("echo none; exit 77", {}, ["skipped"]),
            ):
                cases = carried.run_test(
                    context,
                    {"name": "t", "cmd": ["sh", "-c", script], "env": environment, "timeout": 5},
                )
                self.assertEqual([case.outcome.value for case in cases], outcomes, script)

    def test_a_build_for_a_later_c_library_is_distinguished_from_one_that_fails(self):
        words = "x: version `GLIBC_2.9' not found\nversion `GLIBC_2.38' not found (required by x)"
        self.assertEqual(carried.TOO_OLD.findall(words), ["GLIBC_2.9", "GLIBC_2.38"])
        with tempfile.TemporaryDirectory() as directory:
            for name, script in (
                ("bin/tek", 'echo "version \\`GLIBC_2.9\' not found" >&2; exit 1'),
                ("bin/tekd", 'echo "version \\`GLIBC_2.38\' not found" >&2; exit 1'),
            ):
                file = Path(directory, name)
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"#!/bin/sh\n{script}\n")
                file.chmod(0o755)
            self.assertEqual(carried.too_old(Path(directory)), "GLIBC_2.38")

    def test_its_end_to_end_tests_are_there(self):
        for name in carried.END_TO_END:
            self.assertTrue([*(TOOLS.parent / "tests/e2e").glob(f"*/{name}.py")], name)


if __name__ == "__main__":
    unittest.main()
