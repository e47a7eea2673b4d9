"""The work of programs that do something and end."""

import re
import struct
from pathlib import Path

from .runner import Run

PAGES = Path(__file__).resolve().parents[2] / "tests/programs"


def ffmpeg(run: Run) -> str:
    film = run.directory / "film.avi"
    quiet = ("ffmpeg", "-nostdin", "-v", "error", "-y", "-threads", "4")
    source = ("-f", "lavfi", "-i", "testsrc=duration=2:size=320x240:rate=25")
    run.output(*quiet, *source, "-c:v", "mpeg4", "-threads", "4", film)
    hashes = run.output(*quiet, "-i", film, "-f", "framemd5", "-")
    return f"{sum(not line.startswith('#') for line in hashes.splitlines())} frames"


def gstreamer(run: Run) -> str:
    film = run.directory / "film.gray"
    elements = (
        "videotestsrc num-buffers=50 ! video/x-raw,width=160,height=120 ! queue ! videoconvert"
        f" ! video/x-raw,format=GRAY8 ! queue ! filesink location={film}"
    )
    registry = {"GST_REGISTRY": str(run.held / "gstreamer.registry")}
    run.output("gst-launch-1.0", "-q", *elements.split(), **registry)
    return f"{film.stat().st_size} bytes"


def stress(run: Run) -> str:
    stressors = ("mutex", "pthread", "futex", "sem", "switch")
    words = [word for name in stressors for word in (f"--{name}", "1")]
    # Ended by time: with --mutex-ops the stressor mutex fails if its first thread does them all.
    seen = run.output("stress-ng", "--timeout", "2", "--stdout", *words)
    done = [line for line in seen.splitlines() if "successful run completed" in line]
    return f"{len(done)} successful run"


def rt_tests(run: Run) -> str:
    """300 ms of two real-time threads that sleep, and a hand-over between two threads."""
    seen = run.output("cyclictest", "-q", "-t", "2", "-p", "5", "-i", "1000", "-l", "300")
    run.output("ptsematest", "-q", "-t", "1", "-p", "5", "-i", "1000", "-l", "200")
    # The second thread sleeps for longer, so it gets less far before the first one ends.
    cycles = [int(number) for number in re.findall(r"^T:.*C: *(\d+)", seen, re.MULTILINE)]
    return f"{sum(number > 100 for number in cycles)} threads"


def firefox(run: Run) -> str:
    picture, profile = run.directory / "page.png", run.directory / "profile"
    profile.mkdir(exist_ok=True)
    run.output(
        "firefox-esr",
        "--no-remote",
        "--profile",
        profile,
        "--headless",
        "--window-size=320,240",
        "--screenshot",
        picture,
        (PAGES / "page.html").as_uri(),
        HOME=str(run.directory),
    )
    return picture_size(picture.read_bytes())


def picture_size(png: bytes) -> str:
    """The size that the header of a PNG file has."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        return "no PNG file"
    width, height = struct.unpack(">II", png[16:24])
    return f"{width} x {height}"


def chromium(run: Run) -> str:
    page = run.output(
        "chromium",
        "--headless",
        "--no-sandbox",  # refused to root otherwise
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={run.directory}/profile",
        "--dump-dom",
        (PAGES / "page.html").as_uri(),
        HOME=str(run.directory),
    )
    found = re.search(r"<p id=.*?</p>", page)
    return found[0] if found else page
