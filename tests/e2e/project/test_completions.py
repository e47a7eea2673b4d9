# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shells complete the words of tek, and after these the words of the program that tek starts."""
import json
import os
import pathlib
import pty
import re
import select
import shlex
import subprocess
import time

import pytest

from conftest import BUILD, needs

COMPLETIONS = BUILD / "share" / "completions"
BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")

# A command with completions of its own, as its package would install them.
MADE_UP = """
complete -W '--wash --spin red,blue' made-up
"""

# Calls the function as readline does: COMP_WORDS split at COMP_WORDBREAKS, COMP_LINE, and three
# arguments.
READLINE = r"""
shopt -s extglob progcomp
{sources}
source {completions}/tek.bash
made-up() {{ :; }}
{made_up}
complete_line() {{
    COMP_LINE=$1 COMP_POINT=${{#1}} COMPREPLY=()
    mapfile -t COMP_WORDS < <(python3 - "$1" <<'PYTHON'
import re, sys
line = sys.argv[1]
words = re.findall(r"[=:]+|[^\s=:]+", line)
print("\n".join(words + ([""] if line.endswith((" ", "=", ":")) else [])))
PYTHON
)
    COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
    __tek_complete tek "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
    printf '%s\n' "${{COMPREPLY[@]}}"
}}
complete_line {line}
"""


@pytest.fixture(params=["with bash-completion", "alone"])
def bash(request):
    """The completions of bash for a line."""
    needs("bash")
    sources = ""
    if request.param != "alone":
        if not BASH_COMPLETION.exists():
            pytest.skip("bash-completion is not installed")
        sources = f"source {BASH_COMPLETION}"

    def offers(line):
        script = READLINE.format(sources=sources, completions=COMPLETIONS, made_up=MADE_UP,
                                 line=shlex.quote(line))
        ended = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True,
                               timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        return [word.rstrip() for word in ended.stdout.splitlines()]

    offers.knows_more = request.param != "alone"
    return offers


@pytest.mark.parametrize("before", [
    "tek run -- ", "tek run ", "tek run --critical ui --report ", "tek run --critical=ui* -- ",
    "tek run --model m:1 ",
    "tek run --place rtfifo,cores=0 --lock=mcs ", "tek profile ", "tek suggest -o x -- ",
    "tek lab run --kind rt -- ",
    "tek stack report -- ", "tek run -- tek run -- ",
])
def test_bash_completes_the_program_that_tek_starts(bash, before):
    if not bash.knows_more and before.count("tek") > 1:
        pytest.skip("completions of the program need bash-completion")
    assert "made-up" in bash(before + "made-")
    if bash.knows_more:
        assert bash(before + "made-up --w") == ["--wash"]
        assert bash(before + "made-up --wash --s") == ["--spin"]


@pytest.mark.parametrize("line, wanted", [
    ("tek ru", "run"), ("tek run --cri", "--critical"), ("tek run --report --cri", "--critical"),
    ("tek run --model ", "m:n"), ("tek run --place spr", "spread"), ("tek run --alloc tl", "tlsf"),
    ("tek ps --columns na", "name"), ("tek ps -o tid,na", "tid,name"),
    ("tek ps --sort rt", "rt-priority"),
    ("tek lab run --kind sm", "small"), ("tek stack report --pi", "--pid"), ("tek lab ru", "run"),
])
def test_bash_completes_teks_own_words_before_it(bash, line, wanted):
    assert wanted in bash(line)


@pytest.mark.parametrize("line", ["tek run --rules ", "tek run --rules=", "tek run --",
                                  "tek stack report made-"])
def test_bash_offers_no_program_where_none_can_be(bash, line):
    assert "made-up" not in bash(line)


class Terminal:
    """A shell at a terminal, with the completions of tek."""

    def __init__(self, command, environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", **environment})
        self.output = ""

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, pattern, seconds=30):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.output):
            assert time.monotonic() < end, self.output[-2000:]
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.output += os.read(self.terminal, 65536).decode(errors="replace")

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


@pytest.fixture
def zsh(tmp_path):
    needs("zsh")
    functions = tmp_path / "functions"
    functions.mkdir()
    (functions / "_tek").write_text((COMPLETIONS / "_tek").read_text())
    (functions / "_made-up").write_text(
        "#compdef made-up\n_arguments '--wash' '--spin' '*:colour:(red blue)'\n")
    (tmp_path / ".zshrc").write_text(
        f"fpath=({functions} $fpath)\nautoload -U compinit && compinit -u -D\nPROMPT='READY%% '\n"
        "made-up() { : }\nsetopt no_beep list_ambiguous\nunsetopt zle_bracketed_paste prompt_cr\n")
    terminal = Terminal(["zsh", "-i"], {"ZDOTDIR": str(tmp_path)})
    terminal.wait_for("READY% ")
    yield terminal
    terminal.close()


@pytest.mark.parametrize("before", ["tek run -- ", "tek run --critical ui ", "tek profile ",
                                    "tek lab run --kind rt -- "])
def test_zsh_completes_the_program_that_tek_starts(zsh, before):
    zsh.type(before + "made-u\t")
    zsh.wait_for(re.escape(before) + r"made-up ")
    zsh.type("--wa\t")
    zsh.wait_for(r"--wash")
    # An option of tek's is no option of the program.
    zsh.type("\x15" + before + "made-up --crit\tx")
    zsh.wait_for(r"made-up --critx")


def test_zsh_completes_teks_own_words_before_it(zsh):
    zsh.type("tek run --crit\t")
    zsh.wait_for("tek run --critical")
    zsh.type("\x15tek ps --columns rt-p\t")
    zsh.wait_for("rt-priority")


@pytest.fixture
def fish(tmp_path):
    """The completions of fish for a line."""
    needs("fish")

    def offers(line):
        script = (f"source {COMPLETIONS}/tek.fish; function made-up; end;"
                  "complete -c made-up -f -a 'red blue';"
                  "complete -c made-up -l wash; complete -c made-up -l spin;"
                  f"complete -C {shlex.quote(line)}")
        ended = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True,
                               text=True, timeout=60, check=False,
                               env={**os.environ, "HOME": str(tmp_path),
                                    "XDG_CONFIG_HOME": str(tmp_path)})
        assert ended.returncode == 0 and not ended.stderr, ended.stderr
        return [line.split("\t")[0] for line in ended.stdout.splitlines()]

    return offers


@pytest.mark.parametrize("before", [
    "tek run -- ", "tek run ", "tek run --critical ui --report ", "tek run --critical='ui*' -- ",
    "tek profile ",
    "tek suggest -o x -- ", "tek lab run --kind rt -- ", "tek stack report -- ",
    "tek run -- tek run -- ",
])
def test_fish_completes_the_program_that_tek_starts(fish, before):
    assert "made-up" in fish(before + "made-")
    assert set(fish(before + "made-up --")) >= {"--wash", "--spin"}
    assert "--critical" not in fish(before + "made-up --")
    assert fish(before + "made-up --wash re") == ["red"]


@pytest.mark.parametrize("line, wanted", [
    ("tek ru", "run"), ("tek run --cri", "--critical"), ("tek run --report --cri", "--critical"),
    ("tek run --model ", "m:n"), ("tek ps --columns na", "name"),
    ("tek lab run --kind sm", "small"),
])
def test_fish_completes_teks_own_words_before_it(fish, line, wanted):
    assert wanted in fish(line)
