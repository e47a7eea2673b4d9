# SPDX-License-Identifier: MIT OR Apache-2.0
"""`make install` puts all files where programs expect them, and `make uninstall` removes all."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, needs
from paths import TOP
from installation import INSTALLS, built_for, records_held

pytestmark = INSTALLS

# Libraries that programs are linked with.
LINKED = ["libtek", "libtek-sync-native", "libtek-uthread-native"]


PRINTS_ITS_MAPS = r"""
#include <stdio.h>
#include <tek/tek.h>
int main(void)
{
	char line[4096];
	tek_critical_leave();
	for (FILE *maps = fopen("/proc/self/maps", "r"); fgets(line, sizeof(line), maps);)
		fputs(line, stdout);
}
"""


def make(target, destination):
    command = ["make", "-C", TOP, target, f"DESTDIR={destination}", f"PREFIX={built_for()}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def destination(tmp_path_factory):
    """The path of an installation in an empty directory, below one that did not exist."""
    if BUILD != TOP / "build" or shutil.which("make") is None:
        pytest.skip("needs make, and the build in its usual place")
    directory = tmp_path_factory.mktemp("install") / "new" / "root"
    with records_held():
        done = make("install", directory)
        assert done.returncode == 0, done.stdout + done.stderr
        yield directory


@pytest.fixture(scope="module")
def prefix(destination):
    return destination / built_for().lstrip("/")


def soname(library):
    info = subprocess.run([needs("readelf"), "-d", library], capture_output=True, text=True,
                          timeout=20, check=True)
    return re.search(r"\(SONAME\).*\[(.*)\]", info.stdout)[1]


@pytest.mark.parametrize("name", LINKED)
def test_a_library_that_programs_are_linked_with_has_a_version_and_the_links_to_it(prefix, name):
    link = prefix / "lib" / f"{name}.so"
    assert soname(link) == f"{name}.so.0"
    assert link.is_symlink() and (prefix / "lib" / soname(link)).resolve() == link.resolve()
    assert re.fullmatch(rf"{name}\.so\.\d+\.\d+\.\d+", link.resolve().name)
    # The loader's cache would have the same links: nothing is left for ldconfig to do.
    before = sorted((prefix / "lib").iterdir())
    ldconfig = shutil.which("ldconfig", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if ldconfig:
        subprocess.run([ldconfig, "-N", "-n", prefix / "lib"], timeout=20, check=True)
        assert sorted((prefix / "lib").iterdir()) == before


def test_a_program_that_is_linked_and_run_under_tek_has_the_library_once(prefix, tmp_path):
    source = tmp_path / "maps.c"
    source.write_text(PRINTS_ITS_MAPS)
    program = tmp_path / "maps"
    subprocess.run([needs("cc"), source, "-o", program, f"-I{prefix}/include", f"-L{prefix}/lib",
                    "-ltek", f"-Wl,-rpath,{prefix}/lib"], timeout=60, check=True)
    for preloaded in "libtek.so", "libtek.so.0":
        ended = subprocess.run([program],
                               env={**os.environ, "LD_PRELOAD": f"{prefix}/lib/{preloaded}"},
                               capture_output=True, text=True, timeout=60, check=True)
        mapped = set(re.findall(r"/(libtek\.so\S*)", ended.stdout))
        assert mapped == {(prefix / "lib" / "libtek.so").resolve().name}
        assert len(re.findall(r"r-xp .*/libtek\.so", ended.stdout)) == 1, ended.stdout
    ended = subprocess.run([prefix / "bin" / "tek", "run", "--", program], capture_output=True,
                           text=True, timeout=60, check=True)
    assert len(re.findall(r"r-xp .*/libtek\.so", ended.stdout)) == 1, ended.stdout


def test_the_licences_are_installed(prefix):
    documents = prefix / "share" / "doc" / "tek"
    for licence in TOP.glob("LICENSE-*"):
        assert (documents / licence.name).read_bytes() == licence.read_bytes()
    has_library = (prefix / "lib" / "libtek-libm-musl.so").exists()
    if has_library and os.path.exists("/usr/share/doc/musl-dev/copyright"):
        assert "musl" in (documents / "LICENSE-musl").read_text()


def test_each_unit_names_pages_that_are_installed(prefix):
    units = list((prefix / "lib" / "systemd" / "system").glob("*.service"))
    assert {unit.name for unit in units} == {"tekd.service", "tek-exporter.service"}
    for unit in units:
        pages = re.findall(r"man:([\w.-]+)\((\d)\)", unit.read_text())
        assert (unit.stem, "8" if unit.stem == "tekd" else "1") in pages
        for name, section in pages:
            page = prefix / "share" / "man" / f"man{section}" / f"{name}.{section}"
            assert page.exists(), (unit, name)


def test_uninstalled_nothing_is_left_of_two_installations(destination):
    (destination.parents[1] / "other").mkdir()
    assert make("install", destination).returncode == 0
    done = make("uninstall", destination)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in destination.parents[1].iterdir()] == ["other"]
    assert "make install" in make("uninstall", destination).stderr


def test_foreign_files_stay_and_those_of_an_older_version_go(tmp_path):
    if BUILD != TOP / "build" or shutil.which("make") is None:
        pytest.skip("needs make, and the build in its usual place")
    prefix = tmp_path / built_for().lstrip("/")
    (prefix / "lib").mkdir(parents=True)
    with records_held():
        (prefix / "lib" / "libtek.so.0.0.1").touch()
        (prefix / "lib" / "libothers.so").touch()
        (BUILD / "installed-files").write_text(
            f"{prefix}/lib/libtek.so.0.0.1\n{tmp_path}/elsewhere\n")
        (tmp_path / "elsewhere").touch()
        assert make("install", tmp_path).returncode == 0
        assert not (prefix / "lib" / "libtek.so.0.0.1").exists()
        assert (tmp_path / "elsewhere").exists()
        (prefix / "share" / "doc" / "tek" / "notes").touch()
        assert make("uninstall", tmp_path).returncode == 0
    left = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*"))
    assert left == ["lib", "lib/libothers.so", "share", "share/doc", "share/doc/tek",
                    "share/doc/tek/notes"]
