# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tek bench matrix`: short runs of its cells. These tests do not judge the measurements."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from conftest import BUILD, children_of, eventually, needs
from test_bench import bench, document_of

pytestmark = pytest.mark.alone("the matrix")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

SHORT = ["--events", "3", "--rounds", "1", "--hogs", "2"]
GROUPS = pathlib.Path("/sys/fs/cgroup")


def cells(tmp_path, rows, columns):
    """A short run: the measured cells, and the reasons of the other ones."""
    _, document = document_of(tmp_path, "matrix", "--rows", rows, "--columns", columns, *SHORT)
    measured = {f"{row['case']}/{row['variant']}": row for row in document["rows"]
                if row["metric"] == "response"}
    return measured, {entry["variant"]: entry["reason"] for entry in document["not_run"]}


def groups_of_benchmarks(pid="*"):
    return {path for path in GROUPS.rglob(f"tek-bench-{pid}-*") if path.is_dir()}


def build_without_options(build):
    """A copy of the build with the programs that every build has."""
    shutil.copytree(BUILD / "bin", build / "bin")
    (build / "bench/matrix").mkdir(parents=True)
    shutil.copy(BUILD / "bench/matrix/dependencies", build / "bench/matrix")
    return build


def test_a_matrix_has_each_cell_with_its_ratio(tmp_path):
    page = tmp_path / "result.html"
    done, document = document_of(tmp_path, "matrix", "--quick", "--rows", "mutex", "--columns",
                                 "alone,tek,pi-mutex", "--events", "5", "--rounds", "1",
                                 "--html", page)
    measured = {row["variant"]: row for row in document["rows"] if row["metric"] == "response"}
    not_run = [entry["variant"] for entry in document["not_run"]]
    in_row = [f"mutex/{column}" for column in measured]
    assert sorted(in_row + not_run) == ["mutex/alone", "mutex/pi-mutex", "mutex/tek"]
    assert all(row["n"] == 5 and row["case"] == "mutex" for row in measured.values())
    assert measured["alone"]["p50"] <= measured["alone"]["p99"] <= measured["alone"]["max"]
    assert "mutex" in done.stdout
    assert page.read_text().count("<svg") == len(measured)


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_ends_it_early_and_what_was_measured_is_reported(tmp_path, send):
    path, page = tmp_path / "result.json", tmp_path / "result.html"
    command = [BUILD / "bin" / "tek", "bench", "matrix", "--rows", "hogs", "--columns", "alone",
               "--events", "3", "--rounds", "1000", "--json", path, "--html", page]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        runs = set()
        # The first child finds out how fast the machine is; the next ones are runs.
        eventually(lambda: runs.update(children_of(running.pid)) or len(runs) > 3)
        send(running.pid, signal.SIGINT)
        printed, complaints = running.communicate(timeout=120)
    assert running.returncode == 128 + signal.SIGINT, complaints
    assert "SIGINT ended it early; these are the runs until then" in printed
    document = json.loads(path.read_text())
    assert document["ended_by"] == "SIGINT" and document["failed"] == []
    measured = [row for row in document["rows"] if row["metric"] == "response"]
    assert [row["case"] for row in measured] == ["hogs"] and measured[0]["n"] >= 3
    assert "<svg" in page.read_text()


def test_a_matrix_names_an_empty_cell_with_the_reason():
    done = bench("matrix", "--rows", "rwlock", "--columns", "alone,pi-mutex", *SHORT)
    assert done.returncode == 0, done.stderr
    assert "empty: pi-mutex of rwlock: the row has no mutex" in done.stdout


def test_a_matrix_without_tek_is_not_asserted():
    done = bench("matrix", "--rows", "hogs", "--columns", "alone", *SHORT, "--assert")
    assert done.returncode == 1
    assert "measure the columns alone and tek" in done.stderr


def test_a_mutex_of_rust_and_a_service_on_a_message_bus_are_rows(tmp_path):
    needs("dbus-daemon")
    if not (BUILD / "bench/matrix/dependencies-dbus").exists():
        pytest.skip("needs libdbus-1-dev at the time of the build")
    measured, empty = cells(tmp_path, "rust-mutex,dbus", "alone,conventional")
    assert len(measured) == 4 and not empty


@pytest.mark.parametrize("row,server", [("redis", "redis-server"), ("memcached", "memcached"),
                                        ("mariadb", "mariadbd")])
def test_a_server_is_a_row(tmp_path, row, server):
    needs(server)
    if row == "mariadb" and not (BUILD / "bench/matrix/dependencies-mariadb").exists():
        pytest.skip("needs libmariadb-dev at the time of the build")
    measured, empty = cells(tmp_path, row, "alone,conventional")
    assert len(measured) == 2 and not empty
    assert not list(pathlib.Path("/tmp").glob("tek-matrix-*"))


def test_without_a_server_its_row_is_empty_with_the_cure(tmp_path, monkeypatch):
    if any(os.access(f"{place}/memcached", os.X_OK) for place in ("/usr/sbin", "/sbin")):
        pytest.skip("memcached is where administrators have their programs")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = bench("matrix", "--rows", "hogs,memcached", "--columns", "alone", *SHORT)
    assert done.returncode == 0, done.stderr
    assert "empty: alone of memcached: memcached is not installed; " in done.stdout
    assert "apt-get install memcached" in done.stdout


def test_without_libdbus_the_row_dbus_is_empty_with_the_cure(tmp_path):
    build = build_without_options(tmp_path / "build")
    done = bench("matrix", "--rows", "hogs,dbus", "--columns", "alone", *SHORT,
                 program=build / "bin/tek")
    assert done.returncode == 0, done.stderr
    assert "empty: alone of dbus: " in done.stdout
    assert "apt-get install libdbus-1-dev" in done.stdout


@needs_root
def test_hogs_can_belong_to_another_user(tmp_path):
    _, document = document_of(tmp_path, "matrix", "--rows", "user-hogs", "--columns",
                              "alone,conventional,tekd", "--events", "10", "--rounds", "1",
                              "--hogs", "2")
    assert not document["not_run"]
    assert {row["variant"] for row in document["rows"]} >= {"alone", "conventional", "tekd"}
    work = {row["variant"]: row["value"] for row in document["rows"]
            if row["metric"] == "background work"}
    assert work["conventional"] > 0


def test_more_memory_than_can_be_filled_is_an_empty_row(tmp_path):
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") <= 1 << 30:
        pytest.skip("this machine has so little memory that the row would be measured")
    measured, empty = cells(tmp_path, "hogs,memory", "alone")
    assert set(measured) == {"hogs/alone"}
    assert "too much to fill: tek lab run --kind irqthreads --memory 256M" in empty["memory/alone"]


def test_without_root_hogs_of_another_user_are_an_empty_row(open_directory, as_nobody):
    build = build_without_options(open_directory / "matrix")
    command = [*as_nobody, build / "bin/tek", "bench", "matrix", "--rows", "hogs,user-hogs",
               "--columns", "alone", *SHORT]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=280)
    assert done.returncode == 0, done.stderr
    assert "empty: alone of user-hogs: hogs of another user need root" in done.stdout


@needs_root
def test_groups_of_the_column_weights_are_removed_at_the_end(tmp_path):
    before = groups_of_benchmarks()
    measured, empty = cells(tmp_path, "hogs,user-hogs", "alone,weights")
    if "hogs/weights" in empty:
        pytest.skip(empty["hogs/weights"])
    assert set(measured) == {"hogs/alone", "hogs/weights", "user-hogs/alone",
                             "user-hogs/weights"}
    assert groups_of_benchmarks() <= before


@needs_root
def test_groups_of_a_killed_benchmark_are_removed():
    command = [BUILD / "bin" / "tek-bench", "matrix", "--rows", "hogs", "--columns",
               "alone,weights", "--rounds", "100", "--hogs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as running:
        def has_group():
            return groups_of_benchmarks(running.pid) or running.poll() is not None
        eventually(has_group)
        running.send_signal(signal.SIGKILL)
        printed = running.stdout.read()
    if running.returncode != -signal.SIGKILL:
        pytest.skip(f"needs control groups: {printed}")
    eventually(lambda: not groups_of_benchmarks(running.pid))


@needs_root
def test_tekd_with_backend_fair_leaves_the_other_columns_as_they_are(tmp_path, real_time):
    before = pathlib.Path("/proc/self/cgroup").read_text()
    measured, empty = cells(tmp_path, "hogs,mutex", "alone,chrt,tekd,tekd-fair")
    for row in ("hogs", "mutex"):
        assert f"{row}/alone" in measured
        for column in ("chrt", "tekd"):
            assert f"{row}/{column}" in measured, empty
        if f"{row}/tekd-fair" not in measured:
            pytest.skip(empty[f"{row}/tekd-fair"])
    assert pathlib.Path("/proc/self/cgroup").read_text() == before


@pytest.fixture
def system_bus(tmp_path, monkeypatch):
    """A system bus of this test, without services."""
    for program in ("dbus-daemon", "dbus-send"):
        needs(program)
    tmp_path.chmod(0o755)
    address = f"unix:abstract=tek-test-bus-{os.getpid()}"
    config = tmp_path / "bus.conf"
    config.write_text(f'<busconfig><type>system</type><listen>{address}</listen>'
                      '<auth>EXTERNAL</auth><policy context="default"><allow user="*"/>'
                      '<allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>'
                      '</policy></busconfig>')
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile",
               "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        daemon.stdout.readline()
        yield
        daemon.terminate()


def has_owner(name):
    call = ["dbus-send", "--system", "--print-reply", "--dest=org.freedesktop.DBus", "/",
            "org.freedesktop.DBus.NameHasOwner", f"string:{name}"]
    return "boolean true" in subprocess.run(call, stdout=subprocess.PIPE, text=True).stdout


@needs_root
def test_rtkit_makes_the_thread_real_time(tmp_path, system_bus, real_time):
    services = {"org.freedesktop.PolicyKit1": "/usr/lib/polkit-1/polkitd",
                "org.freedesktop.RealtimeKit1": "/usr/libexec/rtkit-daemon"}
    started = []
    try:
        for name, program in services.items():
            needs(program)
            # rtkit may not write files.
            started.append(subprocess.Popen([program], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL))
            eventually(lambda: has_owner(name))
        measured, empty = cells(tmp_path, "hogs,mutex", "alone,rtkit")
    finally:
        for service in reversed(started):
            service.terminate()
            service.wait()
    assert set(measured) == {"hogs/alone", "hogs/rtkit", "mutex/alone", "mutex/rtkit"}, empty


def test_without_rtkit_its_cells_are_empty_with_the_cure(tmp_path, system_bus):
    measured, empty = cells(tmp_path, "hogs", "alone,rtkit")
    assert set(measured) == {"hogs/alone"}
    assert "org.freedesktop.RealtimeKit1 was not provided" in empty["hogs/rtkit"]
    assert "apt-get install dbus-bin dbus polkitd rtkit" in empty["hogs/rtkit"]
