"""Tests of tools/packages.txt: a build has what it promises, and it lists all that is needed."""

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from checks import packages, results
from checks.process import Context

TOP = Path(__file__).resolve().parent.parent
PASSED, FAILED, SKIPPED = results.Outcome
# What meson.build may do without, and what brings it. A name of a package is listed with `makes`.
OPTIONAL = {
    "cmocka": "libcmocka-dev",
    "zlib": "zlib1g-dev",
    "ck": "libck-dev",
    "st": "libst-dev",
    "pth": "libpth-dev",
    "boost": "libboost-fiber-dev",
    "dbus-1": "libdbus-1-dev",
    "musl-gcc": "musl-tools",
    "go": None,  # no document advises to install it: tools/packages has it among the programs
    "dbus-daemon": None,  # only a test runs it, and it is a package of the list
    "m": None,  # a part of the C library
}
# What end-to-end tests look for, with needs("..."), and the package that brings it.  A clean system
# skips a test whose program is of no listed package.
PROVIDED = {
    "apt-get": None,  # every system of Debian has it
    "bash": None,  # the same
    "cc": "gcc",
    "gcc": "gcc",
    "g++": "g++",
    "gdb": "gdb",
    "dbus-daemon": "dbus-daemon",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mariadb": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "mariadbd": "mariadb-server",
    "memcached": "memcached",
    "node": "nodejs",
    "perl": None,
    "pigz": "pigz",
    "prlimit": None,
    "redis-benchmark": "redis-tools",
    "redis-cli": "redis-tools",
    "redis-server": "redis-server",
    "strace": "strace",
    "sysbench": "sysbench",
    "unbound": "unbound",
    "valgrind": "valgrind",
    "xz": "xz-utils",
    "go": None,  # see above: its test is skipped without it
    "zsh": "zsh",
    "fish": "fish",
    "unshare": None,  # util-linux, without which there is no Debian
    "setpriv": None,  # the same
    "ldd": None,  # of the C library
    "fakeroot": "fakeroot",
    # Of binutils, which gcc needs.
    "nm": None,
    "objdump": None,
    "readelf": None,
}
FOUND = re.compile(
    r"(?:dependency|find_library|find_program)\('([^']+)'[^\n]*(?:\n[^\n]*)?required: false"
)


class List(unittest.TestCase):
    def test_every_line_has_the_purpose_of_its_package(self):
        for package in packages.listed(TOP):
            self.assertGreater(len(package.about), 5, package)
            self.assertNotRegex(package.about, r"^the same$", package)

    def test_no_name_is_listed_twice_in_a_section(self):
        names = [
            (package.section, name) for package in packages.listed(TOP) for name in package.names
        ]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_all_that_meson_may_do_without_is_promised_by_a_package(self):
        promising = {
            name for package in packages.listed(TOP) if package.makes for name in package.names
        }
        searched = {
            name
            for file in sorted(TOP.glob("*/**/meson.build"))
            if "build/" not in str(file)
            for name in FOUND.findall(file.read_text())
        }
        self.assertGreaterEqual(searched, {"cmocka", "musl-gcc", "boost"})
        for name in searched:
            self.assertIn(name, OPTIONAL)
            self.assertIn(OPTIONAL[name], promising | {None})

    def test_a_program_that_no_package_of_the_list_has_is_watched(self):
        info = (TOP / "tools/packages").read_text()
        self.assertRegex(info, r"PROGRAMS='.*\bgo\b.*'")

    def test_every_program_that_a_test_needs_is_of_a_package_of_the_list(self):
        listed = {name for package in packages.listed(TOP) for name in package.names}
        needed = {
            name
            for folder in ("tests/e2e", "lab/tests")
            for file in (TOP / folder).rglob("*.py")
            for name in re.findall(r'needs\("([^"]+)"', file.read_text())
        }
        self.assertGreater(len(needed), 15)
        for name in needed:
            self.assertIn(name, PROVIDED)
            self.assertIn(PROVIDED[name], listed | {None})

    def test_names_of_the_two_debians_are_alternatives(self):
        titles = [package.title for package in packages.listed(TOP)]
        self.assertIn("libmimalloc2.0 or libmimalloc3", titles)
        self.assertIn("libtcmalloc-minimal4 or libtcmalloc-minimal4t64", titles)


class Versions(unittest.TestCase):
    def test_compilers_are_distinguished_from_packages(self):
        info = subprocess.run(
            [TOP / "tools/packages", "versions"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.splitlines()
        self.assertTrue(any(line.startswith("compiler ") for line in info))
        for line in info:
            self.assertRegex(line, r"^(compiler|program|module|package) \S")


class Promises(unittest.TestCase):
    """Of a tree with two test programs, one of which is configured."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name).resolve()
        self.context = Context(self.top, self.top / "build", verbose=False)
        for name in ("tools", "tests/c", "build/meson-info", "build/asan/meson-info"):
            (self.top / name).mkdir(parents=True)
        for name in ("env", "packages"):
            (self.top / "tools" / name).write_text((TOP / "tools" / name).read_text())
            (self.top / "tools" / name).chmod(0o755)
        for name in ("one", "two"):
            (self.top / f"tests/c/test_{name}.c").touch()
        self.listed("dpkg")

    def listed(self, name):
        (self.top / "tools/packages.txt").write_text(
            f"[tests]\n{name} # tests\n\tmakes tests/c/test_*.c\n\tmakes lib/a.so -DHAVE_IT\n"
        )

    def configured(
        self, *sources, files=("lib/a.so",), definitions=("-DHAVE_IT",), directory="build"
    ):
        (self.top / directory / "meson-info/intro-targets.json").write_text(
            json.dumps(
                [
                    {
                        "filename": [f"{self.top}/{directory}/{name}" for name in files],
                        "target_sources": [
                            {
                                "sources": [
                                    f"{self.top}/tests/uthread/../c/{name}" for name in sources
                                ],
                                "parameters": list(definitions),
                            },
                            {"linker": ["cc"]},
                        ],
                    }
                ]
            )
        )
        return packages.promised(
            self.context, self.top / directory, only_tests=directory != "build"
        )

    def test_a_build_that_has_all_passes(self):
        cases = self.configured("test_one.c", "test_two.c")
        self.assertEqual([case.outcome for case in cases], [PASSED])

    def test_a_test_program_that_is_not_configured_is_a_failure(self):
        (case,) = self.configured("test_one.c")
        self.assertEqual(case.outcome, FAILED)
        self.assertIn("tests/c/test_two.c", case.reason)
        self.assertIn("meson-log.txt", case.reason)

    def test_a_pattern_that_no_source_has_promises_nothing(self):
        packages = "[tests]\ndpkg # t\n\tmakes tests/c/none_*.c\n"
        (self.top / "tools/packages.txt").write_text(packages)
        (case,) = self.configured("test_one.c")
        self.assertEqual(case.outcome, PASSED)

    def test_a_library_may_have_its_version_behind_its_name(self):
        (case,) = self.configured("test_one.c", "test_two.c", files=("lib/a.so.1.2",))
        self.assertEqual(case.outcome, PASSED)

    def test_a_missing_file_or_definition_is_a_failure(self):
        for lack in ({"files": ()}, {"definitions": ()}):
            (case,) = self.configured("test_one.c", "test_two.c", **lack)
            self.assertEqual(case.outcome, FAILED)

    def test_a_package_that_is_not_installed_is_a_failure_with_its_cure(self):
        self.listed("no-such-package")
        (case,) = self.configured("test_one.c")
        self.assertEqual(case.outcome, FAILED)
        self.assertIn("run `tools/setup tests` to install no-such-package", case.reason)

    def test_one_that_the_system_does_not_have_is_skipped_with_that_reason(self):
        self.listed("no-such-package | nor-this")
        (self.top / "build/setup.lacking").write_text(
            "no-such-package nor-this\toptional\ttests\tno source has it\n"
        )
        (case,) = self.configured("test_one.c")
        self.assertEqual(case.outcome, SKIPPED)
        self.assertIn(
            "no-such-package or nor-this is unavailable (no source has it)", case.reason
        )

    def test_a_sanitized_build_promises_only_tests(self):
        (case,) = self.configured(
            "test_one.c", "test_two.c", files=(), definitions=(), directory="build/asan"
        )
        self.assertEqual(case.outcome, PASSED)
        (case,) = self.configured("test_one.c", directory="build/asan")
        self.assertEqual(case.outcome, FAILED)

    def test_packages_of_other_processors_promise_nothing(self):
        (self.top / "tools/packages.txt").write_text(
            "[tests]\ndpkg # tests\n\tmakes [none,neither] tests/c/test_*.c\n"
            "other [none] # tests\n\tmakes a\n"
        )
        self.assertEqual(self.configured(), [])


if __name__ == "__main__":
    unittest.main()
