# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek lab fetch and tek lab list: from a small archive that is made here, and from broken ones."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from conftest import BUILD, eventually
from debian import Archive, Keys, Server, without_proxies

TEK = BUILD / "bin" / "tek"

pytestmark = [pytest.mark.spread, pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb", "gpg"))), reason="needs apt, dpkg and gpg")]


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    # The agent's socket has a short path.
    keys = Keys(tmp_path_factory.mktemp("keys") / "k")
    yield keys
    keys.close()


@pytest.fixture
def archive(tmp_path, keys):
    return Archive(tmp_path / "archive", keys)


@pytest.fixture
def server(archive):
    server = Server(archive)
    yield server
    server.close()


class Lab:
    """tek lab with a cache of its own."""

    def __init__(self, cache, archive):
        self.cache = cache
        self.mirror = str(archive.top)
        self.keyring = archive.keys.public
        self.environment = without_proxies()

    def command(self, verb, *arguments):
        return [TEK, "lab", verb, "--cache", self.cache, "--mirror", self.mirror,
                "--keyring", self.keyring, *arguments]

    def start(self, *arguments, kind="rt"):
        return subprocess.Popen(
            self.command("fetch", "--kind", kind, *arguments), env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def fetch(self, *arguments, kind="rt", status=0):
        """The result of a fetch, and its messages."""
        process = self.start("--json", *arguments, kind=kind)
        out, seen = process.communicate(timeout=60)
        print(seen)
        assert process.returncode == status, seen
        assert self.leftovers() == []
        got = json.loads(out)["kinds"] if out else []
        return (got[0] if got else None), seen

    def list(self):
        done = subprocess.run(self.command("list", "--json"), env=self.environment, check=True,
                              capture_output=True, timeout=60)
        return {row["kind"]: row for row in json.loads(done.stdout)["kinds"]}

    def leftovers(self):
        return [path for path in self.cache.glob(".*")] if self.cache.exists() else []

    def kernels(self):
        return sorted(path.name for path in self.cache.glob("kernels/*") if path.is_dir())


@pytest.fixture
def lab(tmp_path, archive):
    return Lab(tmp_path / "cache", archive)


def text(path):
    return pathlib.Path(path).read_text()


def test_the_newest_of_the_series_is_taken_and_noted_with_its_checksums(archive, lab):
    for version in ("7.2.9", "7.2.12", "7.2.6", "7.3.4"):
        archive.add_kernel("trixie-backports", version)
    archive.add_kernel("trixie-backports", "7.2.13", flavour="amd64")
    archive.publish()
    got, _ = lab.fetch()
    assert got["kernel"]["release"] == "7.2.12+deb13-rt-amd64"
    assert text(got["image"]) == "image 7.2.12+deb13-rt-amd64"
    assert got["modules"] is None
    packages = {package["name"]: package for package in got["kernel"]["packages"]}
    assert set(packages) == {f"linux-{part}-7.2.12+deb13-rt-amd64" for part in ("binary", "base")}
    for package in packages.values():
        assert package["version"] == "7.2.12-1~bpo13+1"
        assert f"SHA256: {package['sha256']}" in text(archive.index("trixie-backports"))
    assert lab.list()["rt"]["cached"] == got["kernel"]
    assert lab.list()["v1"]["cached"] is None


def test_what_is_in_the_cache_needs_no_network_and_no_apt(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    first, _ = lab.fetch()
    lab.mirror = "http://127.0.0.1:1"
    lab.environment["PATH"] = "/nowhere"
    again, seen = lab.fetch()
    assert (again, seen) == (first, "")


@pytest.mark.parametrize("damaged", [b"image 7", b"IMAGE 7.2.9+deb13-rt-amd64"])
def test_a_damaged_kernel_is_reported_and_fetched_again(archive, lab, damaged):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    first, _ = lab.fetch()
    pathlib.Path(first["image"]).write_bytes(damaged)
    mirror, lab.mirror = lab.mirror, "http://127.0.0.1:1"
    got, seen = lab.fetch(status=1)
    assert got is None and f"{first['image']} is damaged" in seen
    lab.mirror = mirror
    for arguments in ([], ["--newest"]):
        pathlib.Path(first["image"]).write_bytes(damaged)
        got, seen = lab.fetch(*arguments)
        assert got == first and text(got["image"]) == "image 7.2.9+deb13-rt-amd64"
        assert f"{got['image']} is damaged" in seen and "is fetched anew" in seen
    assert lab.fetch() == (first, "")


def test_a_kernel_of_the_wrong_size_is_not_listed_and_that_is_reported(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    image = pathlib.Path(lab.fetch()[0]["image"])
    image.write_bytes(b"image")
    done = subprocess.run(lab.command("list", "--json"), env=lab.environment, check=True,
                          capture_output=True, text=True, timeout=60)
    assert {row["cached"] for row in json.loads(done.stdout)["kinds"]} == {None}
    assert f"{image} is damaged (5 bytes instead of 26)" in done.stderr


def test_a_record_that_makes_no_sense_is_reported_and_fetched_anew(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    first, _ = lab.fetch()
    record = lab.cache / "kernels" / "rt.json"
    record.write_text("{\n")
    got, seen = lab.fetch()
    assert got == first
    assert f"{record} makes no sense" in seen and "is fetched anew" in seen
    assert lab.fetch() == (first, "")


def test_a_newer_one_replaces_the_old_one_if_asked_for(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.fetch()
    archive.add_kernel("trixie-backports", "7.2.10")
    archive.publish()
    assert lab.fetch()[0]["kernel"]["release"] == "7.2.9+deb13-rt-amd64"
    assert lab.fetch("--newest")[0]["kernel"]["release"] == "7.2.10+deb13-rt-amd64"
    assert lab.kernels() == ["linux-binary-7.2.10+deb13-rt-amd64_7.2.10-1~bpo13+1_amd64"]


def test_without_network_a_search_for_a_newer_one_ends_with_the_one_in_the_cache(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.fetch()
    lab.mirror = "http://127.0.0.1:1"
    got, seen = lab.fetch("--newest")
    assert got["kernel"]["release"] == "7.2.9+deb13-rt-amd64"
    assert "cannot be reached" in seen
    assert "Taking 7.2.9+deb13-rt-amd64 from the cache" in seen


def test_modules_come_when_they_are_wanted_and_the_image_is_not_fetched_again(
        archive, lab, server):
    release = archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.mirror = server.uri
    lab.fetch()
    server.asked.clear()
    got, _ = lab.fetch("--modules")
    assert text(pathlib.Path(got["modules"]) / "kernel/a/extra.ko") == "a module"
    assert "built-in" in text(pathlib.Path(got["modules"]) / "modules.builtin")
    fetched = [path for path in server.asked if "/pool/" in path]
    assert len(fetched) == 1 and f"linux-modules-{release.split('+')[0]}" in fetched[0]
    assert lab.fetch()[0]["modules"] == got["modules"]


def test_modules_come_with_a_kernel_that_cannot_talk_without_them(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9", config="CONFIG_VIRTIO_CONSOLE=m\n")
    archive.publish()
    assert lab.fetch()[0]["modules"] is not None


def test_in_the_middle_of_an_update_the_newest_that_is_complete_is_taken(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.add("trixie-backports", "linux-binary-7.2.10+deb13-rt-amd64", "7.2.10-1~bpo13+1",
                {"usr/lib/modules/7.2.10+deb13-rt-amd64/vmlinuz": "lonely"})
    archive.publish()
    assert lab.fetch()[0]["kernel"]["release"] == "7.2.9+deb13-rt-amd64"


def test_where_the_suite_is_missing_the_other_kernel_is_taken_and_the_reason_reported(archive, lab):
    archive.add_old_kernel()
    archive.publish()
    got, seen = lab.fetch()
    assert got["kernel"]["kernel"] == "rt-stable"
    assert text(got["image"]) == "image 6.1.0-9-rt-amd64"
    assert text(pathlib.Path(got["modules"]) / "kernel/a/extra.ko") == "a module"
    assert "cannot read suite trixie-backports" in seen
    assert "Taking kernel rt-stable instead: Debian 12's PREEMPT_RT kernel" in seen
    listed = lab.list()["rt"]
    assert listed["cached"] is None and listed["instead"] == got["kernel"]


def test_a_run_takes_at_once_what_was_taken_instead_and_a_fetch_searches_again(
        archive, lab, tmp_path):
    archive.add_old_kernel()
    archive.publish()
    lab.fetch()
    for name in ("busybox", "qemu-system-x86_64"):  # without which nothing would be searched
        program = tmp_path / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
    run = subprocess.run(lab.command("run", "--", "true"),
                         env=lab.environment | {"PATH": str(tmp_path / "programs")},
                         capture_output=True, text=True, timeout=60)
    assert run.stderr.startswith("tek: Taking kernel rt-stable, as before: there was no rt; ")
    assert "apt" not in run.stderr and "trixie" not in run.stderr
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    assert lab.fetch()[0]["kernel"]["kernel"] == "rt"


def test_an_index_that_does_not_fit_its_signature_is_not_used(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.add_old_kernel()
    archive.publish()
    index = archive.index("trixie-backports")
    index.write_text(text(index).replace("7.2.9", "7.2.8"))
    got, seen = lab.fetch()
    assert got["kernel"]["kernel"] == "rt-stable"
    assert "in the middle of an update" in seen


def test_a_package_with_a_wrong_checksum_is_not_used(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    for deb in (archive.top / "pool").glob("linux-binary-*"):
        deb.write_bytes(deb.read_bytes().replace(b"image", b"IMAGE"))
    got, seen = lab.fetch(status=1)
    assert got is None and lab.kernels() == []
    assert "what came is not what the signed index says, and was not used" in seen
    assert "--mirror" in seen
    assert lab.list()["rt"]["cached"] is None


def test_an_archive_signed_by_somebody_else_is_not_used(archive, lab, tmp_path):
    archive.add_kernel("trixie-backports", "7.2.9")
    peers = archive.keys = Keys(tmp_path / "o")
    archive.publish()
    peers.close()
    got, seen = lab.fetch(status=1)
    assert got is None and lab.kernels() == []
    assert "not signed by the keys that may do so" in seen and "--keyring" in seen


def test_an_archive_without_signature_is_not_used(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    signed = archive.top / "dists" / "trixie-backports" / "InRelease"
    plain = text(signed).split("\n\n", 1)[1].split("-----BEGIN PGP SIGNATURE")[0]
    signed.unlink()
    signed.with_name("Release").write_text(plain)
    _, seen = lab.fetch(status=1)
    assert "not signed by the keys that may do so" in seen


def test_without_network_it_reports_that_and_the_cure(lab):
    lab.mirror = "http://127.0.0.1:1"
    got, seen = lab.fetch(status=1)
    assert got is None
    assert "the archive cannot be reached" in seen and "proxy" in seen and "--mirror" in seen


@pytest.mark.parametrize("missing", ["apt-get", "dpkg-deb"])
def test_without_debians_tools_it_names_the_packages_and_the_way_without(
        archive, lab, tmp_path, missing):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in pathlib.Path("/usr/bin").iterdir():
        if program.name != missing:
            (programs / program.name).symlink_to(program)
    lab.environment["PATH"] = str(programs)
    _, seen = lab.fetch(status=1)
    assert f"{missing} cannot be started" in seen
    assert "packages apt and dpkg" in seen and "--kernel FILE" in seen
    assert lab.kernels() == []


@pytest.mark.parametrize("room, what", [
    ("24k", "make room"),  # no room for apt's state
    ("512k", "needs 1 MB in"),  # nor for the package
    ("1100k", "the disk is full"),  # nor for its files, of which it has no size
    ("2900k", "needs 3 MB in"),  # this one has a size
])
def test_on_a_full_disk_it_reports_that_and_leaves_nothing(archive, lab, room, what):
    size = "Installed-Size: 2000\n" if what == "needs 3 MB in" else ""
    archive.add("trixie-backports", "linux-binary-7.2.9+deb13-rt-amd64", "1",
                {"usr/lib/modules/7.2.9+deb13-rt-amd64/vmlinuz": b"x" * 900_000}, more=size)
    for part in ("base", "modules"):
        archive.add("trixie-backports", f"linux-{part}-7.2.9+deb13-rt-amd64", "1",
                    {"usr/lib/modules/7.2.9+deb13-rt-amd64/config": ""})
    archive.publish()
    lab.cache.mkdir()
    mount = ["unshare", "--mount", "sh", "-c",
             f"mount -t tmpfs -o size={room} tmpfs \"$0\" || exit 77\n"
             "\"$@\"; status=$?; ls -A \"$0\" \"$0\"/kernels 2>&1; exit $status", lab.cache]
    done = subprocess.run([*mount, *lab.command("fetch", "--kind", "rt")], env=lab.environment,
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("needs root")
    print(done.stdout, done.stderr)
    assert done.returncode == 1, done.stderr
    assert what in done.stderr and "make room" in done.stderr and "--cache" in done.stderr
    assert "instead" not in done.stderr, "the other kernel would not fit either"
    assert ".making" not in done.stdout and "linux-binary" not in done.stdout


def processes_of(lab):
    """The processes with the cache in their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(lab.cache) in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def test_one_that_was_killed_leaves_nothing_that_the_next_would_use(archive, lab, server):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.mirror = server.uri
    server.stops_in = "linux-binary"
    process = lab.start()
    assert server.stopped.wait(60)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    eventually(lambda: processes_of(lab) == [])
    assert lab.leftovers() != [] and lab.kernels() == []
    assert lab.list()["rt"]["cached"] is None
    server.stops_in = None
    server.goes_on.set()
    got, _ = lab.fetch()
    assert text(got["image"]) == "image 7.2.9+deb13-rt-amd64"


def test_two_at_once_fetch_it_once(archive, lab, server):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.mirror = server.uri
    server.stops_in = "linux-binary"
    first = lab.start()
    assert server.stopped.wait(60)
    second = lab.start()
    seen = second.stderr.readline()
    server.goes_on.set()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert "Waiting for another tek" in seen
    assert sum("linux-binary" in path for path in server.asked) == 1


def test_a_connection_that_breaks_off_is_reported_and_nothing_is_used(archive, lab, server):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.mirror = server.uri
    deb = next((archive.top / "pool").glob("linux-binary-*"))
    deb.write_bytes(deb.read_bytes()[:-1000])
    _, seen = lab.fetch(status=1)
    assert "was not used" in seen
    assert lab.kernels() == []


def test_packages_of_another_architecture_come_with_what_they_need_and_relative_links(
        archive, lab):
    lib = "lib/arm-linux-gnueabihf"
    archive.add_old_kernel(release="6.1.0-9-armmp")
    archive.add("bookworm", "libc6", "2.36-9", {f"{lib}/libm.so.6": "libm"}, "armhf")
    archive.add("bookworm", "libc6-dev", "2.36-9", {f"usr/{lib}/libm.so": f"-> /{lib}/libm.so.6"},
                "armhf", depends="libc6 (= 2.36-9)")
    for name in ("busybox-static", "libcmocka-dev", "libstdc++-12-dev", "musl-dev", "zlib1g-dev"):
        archive.add("bookworm", name, "1", {f"usr/share/{name}": name}, "armhf")
    archive.publish()
    got, _ = lab.fetch(kind="board")
    sysroot = pathlib.Path(got["sysroot"]["path"])
    assert {"libc6", "libc6-dev"} < {package["name"] for package in got["sysroot"]["packages"]}
    link = sysroot / "usr" / lib / "libm.so"
    assert text(link) == "libm" and not link.readlink().is_absolute()
    lab.mirror = "http://127.0.0.1:1"
    assert lab.fetch(kind="board")[0] == got


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are(lab):
    process = lab.start(kind="none")
    _, seen = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "no kind none; there are arm64, board, filesystems, hotplug" in seen


@pytest.mark.parametrize("mirror", ["example.org", "http://a b", "http://a\nTrusted: yes"])
def test_an_address_that_is_none_is_refused(lab, mirror):
    lab.mirror = mirror
    _, seen = lab.fetch(status=1)
    assert "is no address of an archive" in seen


def test_blanks_in_the_caches_path_are_fine_and_what_apt_cannot_take_is_refused(
        archive, lab, tmp_path):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.cache = tmp_path / "the cache"
    lab.fetch()
    lab.cache = tmp_path / 'the "cache'
    assert "apt cannot use" in lab.fetch(status=1)[1]
    lab.cache = tmp_path / "third"
    lab.keyring = tmp_path / "my keys.gpg"
    assert f"cannot read {lab.keyring}: No such file" in lab.fetch(status=1)[1]
    lab.keyring.write_bytes(archive.keys.public.read_bytes())
    assert f"apt cannot use {lab.keyring}" in lab.fetch(status=1)[1]


def test_the_table_shows_what_is_in_the_cache(archive, lab):
    archive.add_kernel("trixie-backports", "7.2.9")
    archive.publish()
    lab.fetch()
    done = subprocess.run(lab.command("list"), env=lab.environment, capture_output=True, text=True,
                          timeout=60, check=True)
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert "7.2.9+deb13-rt-amd64 (7.2.9-1~bpo13+1)" in lines["rt"]
    assert " no " in lines["board"]
    assert str(lab.cache) in done.stdout
