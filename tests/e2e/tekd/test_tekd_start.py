# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd starts and stops where files are not as they should be: a clear error, and no residue."""
import errno
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

import pytest
from conftest import eventually, needs
from tekd_client import ENTER, HELLO, LEAVE, STATUS, Closed, is_fast, scheduling
from tekd_daemon import TEKD, USUAL, Other, daemon, pytestmark, tekd, thread

assert daemon and tekd and thread and pytestmark  # which pytest finds by their names


def fails(command, **options):
    """Its messages: it must end by itself, soon, with status 1."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                           **options)
    assert ended.returncode == 1, ended
    assert ended.stderr.startswith("tekd: ") and "panicked" not in ended.stderr
    return ended.stderr


# The configuration


def nonsense(path):
    path.write_bytes(b"\x00\xff[[grant" * 100)


def huge(path):
    path.write_bytes(b"# nothing\n" * 200_000)


def fifo(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def directory(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def device(path):
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def for_everybody(path):
    path.write_text(USUAL)
    path.chmod(0o666)


def of_another_user(path):
    path.write_text(USUAL)
    os.chown(path, 54321, 54321)


def missing(path):
    path.unlink(missing_ok=True)


CONFIGURATIONS = pytest.mark.parametrize("make, seen", [
    (nonsense, "UTF-8"), (huge, "1 MiB"), (fifo, "no file"), (directory, "no file"),
    (device, "no file"),
    (for_everybody, "chmod go-w"), (of_another_user, "user 54321 owns it"),
    (missing, "No such file"),
])


@CONFIGURATIONS
def test_a_file_that_is_no_configuration_is_reported_and_nothing_begun(daemon, make, seen):
    make(daemon.config)
    for options in ["--check"], []:
        assert seen in fails(daemon.command(*options))
        assert not daemon.state.exists() and not daemon.socket.exists()


@CONFIGURATIONS
def test_a_file_that_is_replaced_by_none_changes_nothing(tekd, thread, make, seen):
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    make(tekd.config)
    tekd.process.send_signal(signal.SIGHUP)
    tekd.logs(seen)
    tekd.logs("what was read before stays in force")
    assert is_fast(thread) and client.ask(HELLO).error == 0


def test_a_file_that_is_replaced_again_and_again_is_read_whole_or_not_at_all(tekd, thread):
    client = tekd.client()
    stop = threading.Event()

    def replace():
        n = 0
        while not stop.is_set():
            new = tekd.config.with_suffix(".new")
            if n % 3 == 0:
                os.mkfifo(new)
            else:
                new.write_text(USUAL + f"threads = {4 + n % 5}\n")
            new.rename(tekd.config)
            n += 1

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        for _ in range(200):
            tekd.process.send_signal(signal.SIGHUP)
            assert client.ask(ENTER, thread).error == 0
            assert client.ask(LEAVE, thread).error == 0
    finally:
        stop.set()
        replacing.join()
    assert tekd.end() == 0
    # The message about a mistake in it would have its line.
    assert not re.search(r"tekd\.toml:\d", tekd.log.read_text())


# The state directory


def link_to_a_file(state, victim):
    state.mkdir(mode=0o700)
    (state / "journal").symlink_to(victim)


def second_name_of_a_file(state, victim):
    state.mkdir(mode=0o700)
    (state / "journal").hardlink_to(victim)


def fifo_for_a_journal(state, _):
    state.mkdir(mode=0o700)
    os.mkfifo(state / "journal", 0o600)


def directory_for_a_journal(state, _):
    (state / "journal").mkdir(parents=True)


def journal_of_another_user(state, _):
    state.mkdir(mode=0o700)
    (state / "journal").write_text("")
    os.chown(state / "journal", 54321, 54321)


def link_to_a_directory(state, victim):
    (victim.parent / "elsewhere").mkdir()
    state.symlink_to(victim.parent / "elsewhere")


def directory_of_another_user(state, _):
    state.mkdir(mode=0o700)
    os.chown(state, 54321, 54321)


def directory_for_everybody(state, _):
    state.mkdir()
    state.chmod(0o777)


def file_for_a_directory(state, _):
    state.write_text("")


@pytest.mark.parametrize("make", [
    link_to_a_file, second_name_of_a_file, fifo_for_a_journal, directory_for_a_journal,
    journal_of_another_user,
    link_to_a_directory, directory_of_another_user, directory_for_everybody, file_for_a_directory,
])
def test_a_state_that_somebody_else_could_have_made_is_not_used(daemon, tmp_path, make):
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    victim.chmod(0o600)
    daemon.config.write_text(USUAL)
    make(daemon.state, victim)
    try:
        for options in [], ["--restore"]:
            assert str(daemon.state) in fails(daemon.command(*options))
        assert victim.read_text() == "precious\n"
        assert not daemon.socket.exists()
        elsewhere = tmp_path / "elsewhere"
        assert not elsewhere.exists() or not list(elsewhere.iterdir())
    finally:
        if daemon.state.is_symlink() or daemon.state.is_file():
            daemon.state.unlink()
        else:
            shutil.rmtree(daemon.state)


def test_a_state_in_a_file_system_that_cannot_be_written_is_reported(daemon, tmp_path):
    place = tmp_path / "mounted"
    place.mkdir()
    daemon.config.write_text(USUAL)
    daemon.state = place / "state"
    mount = [needs("unshare"), "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"',
             str(place)]
    assert "mount its file system writable" in fails([*mount, *daemon.command()])
    assert not daemon.socket.exists()


class Small:
    """A file system of 64 KiB that only tekd sees."""

    def __init__(self, daemon, tmp_path):
        self.place = tmp_path / "mounted"
        self.place.mkdir()
        daemon.state = self.place / "state"
        self.prefix = [needs("unshare"), "--mount", "sh", "-c",
                       'mount -t tmpfs -o size=64k,mode=755 none "$0" && exec "$@"',
                       str(self.place)]
        self.daemon = daemon

    @property
    def root(self):
        return pathlib.Path(f"/proc/{self.daemon.process.pid}/root{self.place}")

    def fill(self):
        with open(self.root / "filler", "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC

    def clear(self):
        (self.root / "filler").unlink()


@pytest.fixture
def small(daemon, tmp_path):
    small = Small(daemon, tmp_path)
    daemon.start(USUAL, prefix=small.prefix)
    return small


def test_where_the_journal_cannot_grow_nothing_is_changed(small, daemon, thread):
    before, own = scheduling(thread), threading.get_native_id()
    client = daemon.client()
    small.fill()
    refused = client.ask(ENTER, thread)
    assert (refused.error, scheduling(thread)) == (errno.ENOSPC, before)
    assert "make room on its file system" in refused.text
    small.clear()
    assert client.ask(ENTER, thread).error == 0
    small.fill()
    # Each present change has its line; there is room for some more, and then no more.
    for n in range(1000):
        if (refused := client.ask(ENTER, thread, priority=n % 40 - 20)).error:
            break
        assert is_fast(thread)
    assert refused.error == errno.ENOSPC
    assert client.ask(ENTER, own).error == errno.ENOSPC and not is_fast(own)
    assert client.ask(LEAVE, thread).error == 0
    assert scheduling(thread) == before
    small.clear()
    assert client.ask(ENTER, thread).error == 0


def test_on_a_small_disk_it_goes_on_for_as_long_as_little_is_in_force(small, daemon, thread):
    client, own = daemon.client(), threading.get_native_id()
    assert client.ask(ENTER, own).error == 0
    for _ in range(700):
        assert client.ask(ENTER, thread).error == 0
        assert client.ask(LEAVE, thread).error == 0
    assert sum(file.stat().st_size for file in (small.root / "state").iterdir()) < 32 << 10
    assert is_fast(own)


def test_with_a_full_disk_a_stop_gives_everything_back(small, daemon, thread):
    before = scheduling(thread)
    client = daemon.client()
    assert client.ask(ENTER, thread).error == 0
    small.fill()
    assert daemon.end() == 0
    assert scheduling(thread) == before
    assert "failed" not in daemon.log.read_text()


def test_with_a_full_disk_what_a_killed_tekd_left_is_undone(daemon, tmp_path, thread):
    before = scheduling(thread)
    place = tmp_path / "mounted"
    place.mkdir()
    daemon.state = place / "state"
    # Both daemons see it: the one that is killed, and the one that restores.
    script = ('mount -t tmpfs -o size=64k,mode=755 none "$0" && { "$@"; '
              'cat /dev/zero > "$0/filler" 2>/dev/null; "$@" --restore; echo "$?"; ls -A "$0"; }')
    command = [needs("unshare"), "--mount", "sh", "-c", script, str(place), *daemon.command()]
    daemon.config.write_text(USUAL)
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        eventually(daemon.socket.exists)
        client = daemon.client()
        assert client.ask(ENTER, thread).error == 0
        os.kill(client.json(STATUS)["pid"], signal.SIGKILL)
        seen, _ = shell.communicate(timeout=60)
    finally:
        shell.kill()
    assert seen.startswith("1 changes were undone") and seen.endswith("\n0\nfiller\n"), seen
    assert scheduling(thread) == before


def test_without_its_journal_tekd_writes_another_and_without_its_directory_changes_nothing(tekd,
                                                                                           thread):
    before, own = scheduling(thread), threading.get_native_id()
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    (tekd.state / "journal").unlink()
    assert client.ask(ENTER, own).error == 0
    tekd.end(signal.SIGKILL)
    tekd.start()
    assert scheduling(thread) == before and not is_fast(own)
    client = tekd.client()
    assert client.ask(ENTER, thread).error == 0
    shutil.rmtree(tekd.state)
    refused = client.ask(ENTER, own)
    assert "was removed" in refused.text and not is_fast(own)
    assert client.ask(LEAVE, thread).error == 0
    assert scheduling(thread) == before
    assert tekd.end() == 0
    assert not tekd.state.exists()


# Its files


def test_directories_that_tekd_made_are_gone_and_those_that_were_there_are_not(daemon, tmp_path):
    daemon.state = tmp_path / "a" / "b" / "state"
    daemon.socket = tmp_path / "there" / "c" / "tekd"
    (tmp_path / "there").mkdir()
    daemon.start(USUAL)
    assert daemon.client().ask(HELLO).error == 0
    assert daemon.end() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "tekd.toml", "there"]
    assert not list((tmp_path / "there").iterdir())


def test_a_restore_leaves_nothing_of_a_tekd_that_was_killed(daemon):
    daemon.start(USUAL)
    daemon.end(signal.SIGKILL)
    assert daemon.socket.exists()
    subprocess.run(daemon.command("--restore"), timeout=60, check=True, stdout=subprocess.DEVNULL)
    assert not daemon.socket.exists() and not daemon.state.exists()


# Stops


@pytest.mark.parametrize("signals", [
    [signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM, signal.SIGTERM],
    [signal.SIGHUP, signal.SIGINT] * 2,
])
def test_whatever_asks_it_to_stop_everything_is_given_back_and_no_file_left(tekd, thread, signals):
    before = scheduling(thread)
    with Other(tekd) as other:
        had = scheduling(other.tid)
        assert other.do("enter")["error"] == 0
        assert tekd.client().ask(HELLO).error == 0
        client = tekd.client()
        assert client.ask(ENTER, thread).error == 0
        tekd.process.send_signal(signal.SIGSTOP)  # so that the signals arrive together
        for sign in signals:
            tekd.process.send_signal(sign)
        tekd.process.send_signal(signal.SIGCONT)
        time.sleep(0.001)
        tekd.process.send_signal(signals[-1])
        assert tekd.process.wait(60) == 0
        assert (scheduling(thread), scheduling(other.tid)) == (before, had)
    assert sorted(path.name for path in tekd.directory.iterdir()) == ["log", "tekd.toml"]


def test_a_stop_in_the_midst_of_requests_gives_everything_back(daemon, thread):
    before = scheduling(thread)
    for n in range(20):
        daemon.start(USUAL)
        client = daemon.client()
        stopper = threading.Timer(0.002 * n, daemon.process.terminate)
        stopper.start()
        try:
            while True:
                client.ask(ENTER, thread, priority=n)
                client.ask(LEAVE, thread)
        except Closed:
            pass
        stopper.join()
        assert daemon.process.wait(60) == 0
        assert scheduling(thread) == before
        assert sorted(path.name for path in daemon.directory.iterdir()) == ["log", "tekd.toml"]


# Users that may start it


def test_tekd_refuses_to_run_set_uid(daemon, open_directory, as_nobody):
    program = open_directory / "tekd-set-uid"
    shutil.copy(TEKD, program)
    try:
        for mode, group in (0o4755, 0), (0o2755, 0):
            os.chown(program, 0, group)
            program.chmod(mode)
            for options in ["--check"], ["--restore"], ["--socket", str(open_directory / "s")]:
                # setpriv itself has no more rights by then, so that these are the program's.
                command = [*as_nobody[:-2], str(program), "--state", str(open_directory / "state"),
                           *options]
                assert "set-uid" in fails(command)
    finally:
        program.unlink()
    assert not (open_directory / "s").exists() and not (open_directory / "state").exists()
    assert not daemon.socket.exists()


def test_a_user_without_rights_can_start_one_that_changes_nothing_for_anybody(
        daemon, open_directory, as_nobody):
    place = open_directory / "nobodys"
    place.mkdir()
    os.chown(place, 65534, 65534)
    daemon.state, daemon.socket = place / "state", place / "tekd"
    # It cannot change root's processes, and reports that for each request.
    program = open_directory / "tekd"
    shutil.copy(TEKD, program)
    command = [*as_nobody, str(program), *daemon.command()[1:]]
    daemon.config = place / "tekd.toml"
    command[command.index("--config") + 1] = str(daemon.config)
    daemon.config.write_text(USUAL)
    with open(daemon.log, "w", encoding="utf-8") as log:
        daemon.process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
    eventually(daemon.serves)
    own = threading.get_native_id()
    before = scheduling(own)
    assert daemon.client().ask(ENTER, own).error != 0
    assert scheduling(own) == before
    assert daemon.end() == 0
    assert not daemon.state.exists() and not daemon.socket.exists()


def test_with_few_descriptors_tekd_serves_fewer_and_ends_well(daemon, thread):
    before = scheduling(thread)
    daemon.start(USUAL, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
    clients = []
    client = daemon.client()
    assert client.ask(ENTER, thread).error == 0
    for _ in range(40):
        clients.append(daemon.client())
    assert client.ask(LEAVE, thread).error == 0
    for other in clients:
        other.close()
    eventually(daemon.answers)
    assert scheduling(thread) == before
    assert daemon.end() == 0
