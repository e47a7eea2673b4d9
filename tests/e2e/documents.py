# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands of README.md and docs/guide/, as a reader pastes them.

A block of the language `sh` is commands, one of `text` is their output.  A comment
`<!-- file: NAME -->` before any other block names the file that a reader puts it into.
"""
import re
import shlex
from dataclasses import dataclass

BLOCK = re.compile(r"(?:^<!-- file: (\S+) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(^|\s)#\s.*$")


@dataclass
class Block:
    """A fenced block of a page."""
    file: str  # empty unless a reader is to write it to a file
    language: str
    text: str


def blocks(page):
    """The blocks of a page, in order."""
    return [Block(file or "", language, text)
            for file, language, text in BLOCK.findall(page.read_text())]


def lines(block):
    """The lines of a block of commands, continued lines joined."""
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def script(page, left_out):
    """A shell script that writes the files of a page and runs its commands.

    `left_out` is told each line, and whether it is left out."""
    parts = []
    for block in blocks(page):
        if block.file:
            end = "END-OF-FILE"
            parts.append(f"cat > {shlex.quote(block.file)} <<'{end}'\n{block.text}{end}")
        elif block.language == "sh":
            parts += [line for line in lines(block) if not left_out(line)]
    return "\n".join(parts) + "\n"


def tek_options(line):
    """The words of each `tek` command of a line, up to `--`, without what the shell takes."""
    words = shlex.split(COMMENT.sub("", line))
    commands, words_of = [], None
    for word in words:
        if re.search(r"(^|/)tek$", word) and words_of is None:
            words_of = []
            commands.append(words_of)
        elif word in ("|", "&", "&&", ";", "--") or re.match(r"\d?[<>]", word):
            words_of = None
        elif words_of is not None:
            words_of.append(word.rstrip(";"))
    return commands
