# SPDX-License-Identifier: MIT OR Apache-2.0
"""README.md and docs/guide/: each command that a reader finds there works as written."""
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field

import documents
import pytest
from conftest import BUILD, PATIENCE

pytestmark = pytest.mark.spread
loads_every_cpu = pytest.mark.alone()

TOP = BUILD.parent
GUIDE = TOP / "docs" / "guide"
TEK = BUILD / "bin" / "tek"
README = TOP / "README.md"

# Commands that a test does not run: how the line begins, and why. Their options are checked.
NOT_RUN = {
    "make ": "builds or installs the tree that the test runs from",
    "sudo make ": "changes the machine",
    "sudo systemctl ": "changes the machine",
    "tools/setup ": "installs packages",
    "build/bin/tek top --sort": "needs a terminal: tests/e2e/top/test_top.py",
    "build/bin/tek kthreads --watch": "needs a terminal: tests/e2e/kthreads/test_kthreads.py",
    "build/bin/tek lab ": "boots a machine: tests/e2e/lab/test_lab.py and make check-lab",
    "build/bin/tek bench ": "takes long and needs a quiet machine: tests/e2e/bench/",
    "build/bin/tek exporter\n": "serves until it is ended: tests/e2e/exporter/test_exporter.py",
}


@dataclass
class Expected:
    """What the commands of a page need and print."""
    prints: list = field(default_factory=list)  # patterns
    # Pattern of two times, in seconds or in minutes and seconds: without TEK, and under it.
    gain: str = ""
    programs: list = field(default_factory=list)
    real_time: bool = False
    root: bool = False
    seconds: int = 120


PAGES = {
    "README.md": Expected([r"tek:  gzip \[\d+\]  gzip"], r"^real\s+(\d+)m([\d.]+)s$", ["gzip"],
                          real_time=True),
    "guide/allocators.md": Expected([r'"right":true', r"touch to picture"]),
    "guide/api.md": Expected([r"^time-critical$"], programs=["cc", "c++"], real_time=True),
    "guide/critical.md": Expected([r"\]  ui-draw \[", r"\]  touch \[.* -5 "],
                                  r"touch to picture: ([\d.]+) ms on average", real_time=True),
    "guide/doctor.md": Expected([r"rt-privilege", r"rt-trial"]),
    "guide/exporter.md": Expected([r"^tek_tekd_up "]),
    "guide/groups.md": Expected([r"background for names xz", r"background +10 .* [1-9]\d* +1 "],
                                programs=["xz"], root=True),
    "guide/kthreads.md": Expected([r"kthreadd +kthreadd"]),
    "guide/locks.md": Expected([r'"program":"dedup".*"right":true',
                                r'"streamcluster".*"right":true']),
    "guide/placement.md": Expected([r'"right":true', r"time-critical"], real_time=True),
    "guide/profile.md": Expected([r"WHERE THE THREADS' TIME WENT", r"CRITICAL PATH"]),
    "guide/rules.md": Expected([r"^gas +gas detection +fast", r"^net-sync +cloud +none"],
                               real_time=True),
    "guide/stacks.md": Expected([r"had 24\.0M and used", r"3 kinds had \d+K and used", r"would do",
                                 r"What would help", r"gas_watch +examples/fridge\.c"],
                                programs=["gcc"]),
    "guide/suggest.md": Expected([r"touch .* time-critical$", r"ui-draw .* time-critical$"],
                                 real_time=True),
    "guide/tekd.md": Expected([r"time-critical, real-time priority \d+, for 2s",
                               r"^mode +responsiveness", r"stopped; \d+ changes were undone"],
                              root=True),
    "guide/threads.md": Expected([r"ui-draw +- +fast +tek +draw", r"It was created by fridge",
                                  r"responsiveness mode, 2 Fast"], real_time=True),
    "guide/uthreads.md": Expected([r"trace\.json: \d+ switches"], programs=["xz"]),
}


# Only root runs pages that need root, and root needs no sudo.
SUDO = """#!/bin/sh
[ "$1" != -b ] || { shift; "$@" & echo $! >> shims/started; exit; }
exec "$@"
"""
# Load and daemons that a page starts are not to outlive the test.
AT_THE_END = """end() {
	kill $(jobs -p) 2>/dev/null || true
	for pid in $(cat shims/started 2>/dev/null); do
		! grep -q "$PWD" /proc/$pid/cmdline 2>/dev/null || kill $pid
	done
}
trap end EXIT
"""


def not_run(line):
    """The reason why a test does not run this line, if there is one."""
    return next((reason for start, reason in NOT_RUN.items()
                 if f"{line.strip()}\n".startswith(start)), None)


def pages():
    """README and the pages of the guide, by name."""
    return {page.name if page == README else f"guide/{page.name}": page
            for page in [README, *sorted(GUIDE.glob("*.md"))]}


@pytest.fixture
def in_the_tree():
    if not README.exists() or BUILD.name != "build":
        pytest.skip("the build is not in the tree that the documents are of")


@pytest.fixture
def paste(in_the_tree, tmp_path, monkeypatch):
    """Runs lines in a directory with links to the tree, and returns their output."""
    for name in ("build", "bench", "data", "docs", "examples", "include"):
        (tmp_path / name).symlink_to(TOP / name)
    monkeypatch.setenv("TEK_STACK_PROFILES", str(tmp_path / "profiles"))
    monkeypatch.delenv("TEK_SOCKET", raising=False)
    (tmp_path / "shims").mkdir()
    sudo = tmp_path / "shims" / "sudo"
    sudo.write_text(SUDO)
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")

    def run(script, seconds):
        # Another run of this test may have control groups of the page's name.
        script = script.replace("tek-guide", f"tek-guide-{os.getpid()}")
        with subprocess.Popen(["bash", "-e", "-c", AT_THE_END + script], cwd=tmp_path, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, start_new_session=True) as bash:
            try:
                output, _ = bash.communicate(timeout=seconds * PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(bash.pid, signal.SIGTERM)
                pytest.fail(f"after {seconds * PATIENCE} s it still runs: {script}")
        assert bash.returncode == 0, f"{script}\n{output}"
        return output

    return run


def may_be_real_time():
    return subprocess.run(["chrt", "--rr", "1", "true"], stderr=subprocess.DEVNULL).returncode == 0


def require(expected):
    """Skips a page that this machine cannot run."""
    missing = [program for program in expected.programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if expected.real_time and not may_be_real_time():
        pytest.skip("needs the right to real-time priorities")
    if expected.root and os.geteuid() != 0:
        pytest.skip("needs root")


def seconds(match):
    """The time that a match has: seconds, or minutes and seconds."""
    *minutes, rest = map(float, match.groups())
    return rest + 60 * sum(minutes)


@loads_every_cpu
@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_commands_of_a_page_work_and_print_what_it_shows(name, paste):
    expected = PAGES[name]
    require(expected)
    page = TOP / name if name == "README.md" else TOP / "docs" / name
    output = paste(documents.script(page, not_run), expected.seconds)
    missing = [text for text in expected.prints if not re.search(text, output, re.MULTILINE)]
    assert not missing, f"{missing} in\n{output}"
    if expected.gain:
        without, under_tek = (seconds(match) for match in re.finditer(expected.gain, output, re.M))
        assert under_tek < without / 2, output


def test_each_page_with_commands_is_run(in_the_tree):
    with_commands = {name for name, page in pages().items()
                     if documents.script(page, not_run).strip()}
    assert with_commands == set(PAGES)


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_options_of_commands_that_are_not_run_exist(name, in_the_tree):
    page = pages()[name]
    for block in documents.blocks(page):
        for line in documents.lines(block) if block.language == "sh" else []:
            if not_run(line):
                for words in documents.tek_options(line):
                    done = subprocess.run([TEK, *words, "--help"], text=True, capture_output=True,
                                          timeout=60)
                    assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("name", ["README.md", "docs/papers.md", "docs/results.md",
                                  *(f"docs/{name}" for name in sorted(pages()) if "/" in name)])
def test_the_commands_in_the_text_of_a_page_exist(name, in_the_tree):
    commands = re.findall(r"`(tek [^`]+)`", (TOP / name).read_text())
    for words in (words for command in commands for words in documents.tek_options(command)):
        done = subprocess.run([TEK, *words, "--help"], text=True, capture_output=True, timeout=60)
        # Text may leave the value of an option out, or have a word in its place.
        unknown = re.search("unexpected argument|unrecognized subcommand", done.stderr)
        assert not unknown, f"tek {words}\n{done.stderr}"


def test_each_reason_not_to_run_a_command_is_needed(in_the_tree):
    left_out = [line.strip() + "\n" for page in pages().values() for block in documents.blocks(page)
                if block.language == "sh" for line in documents.lines(block)]
    assert [start for start in NOT_RUN
            if not any(line.startswith(start) for line in left_out)] == []


def test_each_program_that_a_page_runs_from_the_build_is_built(in_the_tree):
    text = "".join(page.read_text() for page in pages().values())
    named = set(re.findall(r"\bbuild/(?:bin|bench|examples)/[\w/-]*\w", text))
    assert "build/examples/fridge" in named
    assert [name for name in sorted(named) if not (TOP / name).exists()] == []


def links(page):
    """The targets of links from a page to files of the tree."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    return [(page.parent / target).resolve() for target in targets]


def test_each_link_between_documents_leads_somewhere(in_the_tree):
    linking = [page for pattern in ("*.md", "docs/**/*.md", "crates/*/*.md", "examples/*.md")
               for page in TOP.glob(pattern)]
    dead = [f"{page.relative_to(TOP)}: {target}" for page in linking
            for target in links(page) if not target.exists()]
    assert dead == []
