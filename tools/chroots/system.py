"""One clean system in a directory: made by debootstrap, entered through tools/chroots/enter."""

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

from . import sources

ENTER = Path(__file__).with_name("enter")
PR_SET_CHILD_SUBREAPER = 36
# The packages that README.md tells a user to install. tools/setup installs the remaining ones.
BY_HAND = ["git", "make"]
# Copied from this machine, so that name resolution and trusted certificates are the same.
COPIED = ["/etc/resolv.conf", "/etc/hosts", "/etc/hostname"]
CERTIFICATES = "usr/local/share/ca-certificates"


class Failed(Exception):
    """A system could not be made or removed; the text is the reason."""


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, so that end_children() finds them."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def end_children() -> None:
    """End all descendants that are left, such as daemons, which keep mounts in use."""
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    while children := [int(pid) for pid in own.read_text(encoding="ascii").split()]:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _wait(child: subprocess.Popen) -> int:
    """Wait for a child, reaping orphans meanwhile as process 1 does. Then end what it left."""
    try:
        while child.returncode is None:
            pid, status = os.wait()
            if pid == child.pid:
                child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        end_children()
    return child.returncode


def _show(output: BinaryIO, log: Path | None) -> None:
    with open(log or os.devnull, "ab") as held:
        while chunk := os.read(output.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            held.write(chunk)
            held.flush()


class System:
    """A root directory with a suite's packages."""

    def __init__(self, root: Path, suite: str, archives: Path | None):
        self.root = root
        self.suite = suite
        self.archives = archives

    def run(self, *command: str, log: Path | None = None) -> int:
        """The exit status of a command. Its output is shown, and appended to `log`."""
        # pylint: disable-next=consider-using-with
        child = subprocess.Popen(
            [ENTER, self.root, self.archives or "", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        shown = threading.Thread(target=_show, args=(child.stdout, log))
        shown.start()
        status = _wait(child)
        shown.join()
        child.stdout.close()
        return status

    def shell(self) -> int:
        """An interactive shell."""
        # pylint: disable-next=consider-using-with
        return _wait(subprocess.Popen([ENTER, self.root, self.archives or "", "bash"]))

    def put(self, tree: Path, into: str) -> Path:
        """Clone a tree's HEAD. A present clone is updated to it and keeps its build directory."""
        there = self.root / into.lstrip("/")
        if not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "clone", "--quiet", f"file://{tree}", there], check=True)
        else:
            for command in (
                ["fetch", "--quiet", f"file://{tree}", "HEAD"],
                ["reset", "--quiet", "--hard", "FETCH_HEAD"],
            ):
                subprocess.run(["git", "-C", there, *command], check=True)
        return there

    def remove(self) -> None:
        end_children()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        root = str(self.root).replace(" ", r"\040")
        if f" {root}/" in mounts or f" {root} " in mounts:
            raise Failed(
                f"{self.root} is kept, because a file system is mounted in it: umount that, then "
                f"rm -rf --one-file-system {shlex.quote(str(self.root))}"
            )
        shutil.rmtree(self.root)


def make(suite: str, cache: Path | None) -> System:
    """A new system. With `cache`, that directory keeps the bare system and the packages."""
    root = Path(tempfile.mkdtemp(prefix=f"tek-{suite}.")).resolve()  # as mountinfo has it
    root.chmod(0o755)
    archives = cache / f"{suite}.archives" if cache else None
    if archives:
        archives.mkdir(parents=True, exist_ok=True)
    system = System(root, suite, archives)
    try:
        held = cache / f"{suite}.tar" if cache else None
        if held and held.exists():
            subprocess.run(["tar", "-C", root, "-xpf", held], check=True)
        else:
            _debootstrap(system)
            if held:
                new = f"{held}.{os.getpid()}"  # another run may keep one, too
                subprocess.run(["tar", "-C", root, "-cpf", new, "."], check=True)
                os.replace(new, held)
        _make_ready(system)
    except BaseException:
        system.remove()
        raise
    return system


def _debootstrap(system: System) -> None:
    own = sources.own_sources()
    first, *_ = sources.sources_of(system.suite, own, sources.own_suite(), sources.archive_has)
    command = [
        "debootstrap",
        "--variant=minbase",
        f"--keyring={sources.keyring(first.uri)}",
        f"--components={','.join(first.components)}",
        system.suite,
        str(system.root),
        first.uri,
    ]
    if not Path(f"/usr/share/debootstrap/scripts/{system.suite}").exists():
        # A suite newer than debootstrap: all suites of a distribution have the same script.
        command.append("gutsy" if "ubuntu" in first.uri else "sid")
    # debootstrap mounts file systems.
    made = subprocess.run(["unshare", "--mount", "--propagation", "private", *command], check=False)
    if made.returncode:
        raise Failed(f"debootstrap failed (exit status {made.returncode}).")


def _make_ready(system: System) -> None:
    """Write apt's sources and settings, copy files of this machine, install BY_HAND."""
    found = sources.sources_of(
        system.suite, sources.own_sources(), sources.own_suite(), sources.archive_has
    )
    apt = system.root / "etc/apt"
    for file in apt.glob("sources.list.d/*"):
        file.unlink()
    (apt / "sources.list").write_text("".join(f"{source.line()}\n" for source in found))
    (apt / "apt.conf.d/90machine").write_text(sources.settings())
    # A temporary system need not survive a crash of the machine.
    (system.root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    for file in COPIED:
        shutil.copy(file, system.root / file.lstrip("/"))
    for file in Path("/", CERTIFICATES).rglob("*.crt"):
        (system.root / CERTIFICATES).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, system.root / CERTIFICATES)
    for command in (["update"], ["upgrade"], ["install", "--no-install-recommends", *BY_HAND]):
        if system.run(
            "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2", "--yes", *command
        ):
            raise Failed(f"apt-get {command[0]} failed in {system.root}.")
