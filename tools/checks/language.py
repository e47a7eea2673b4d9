"""How comments are written: width of lines, length of blocks, and the subjects of sentences.

No comment or docstring has a sentence that begins with `Who`, `Whom`, `Whoever` or `Whose`, or says
`he`, `his` or `him` of a thread.  No comment block outside a header or the head of a file has more
than eight lines; blocks of Rust are not measured.  No line is wider than 100 columns, except one
that nothing can break: a single word or string, or a line within a raw string of Rust.

As a program, `python3 -m checks.language` in tools: prints each breach.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

COLUMNS = 100
TAB = 8
BLOCK = 8

LANGUAGES = {
    ".c": "c", ".cpp": "c", ".h": "c", ".hpp": "c", ".py": "python", ".rs": "rust", ".sh": "shell",
}
HEADERS = (".h", ".hpp")
INTERPRETERS = {"python3": "python", "sh": "shell", "bash": "shell"}

SUBJECT = re.compile(r"(?:^|[.!?:;(]\s+|[(\"'])(Who(?:m|ever|se)?)\b", re.MULTILINE)
PRONOUN = re.compile(r"\b([Hh](?:e|is|im))\b(?!\.h)(?!, [A-Z]\.)")  # He, W.: an author
QUOTED = re.compile(r"`[^`]*`")
# A single word that nothing can break, after the sign of a comment: a path, or one string.
UNBREAKABLE = re.compile(
    r"""(?:/\*+|\*|//[/!]?|\#|-)?\s*
        (?:\S+|[A-Za-z]{0,2}"(?:\\.|[^"\\])*"|[A-Za-z]{0,2}'(?:\\.|[^'\\])*')
        [)\]},;:]*(?:\s*\*/|\s*\\)?""", re.VERBOSE)
C_TOKEN = re.compile(
    r"""\b[Rb]?r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])'"""
    r"""|(?P<comment>//[^\n]*|/\*.*?\*/)""", re.DOTALL)
MARKER = re.compile(r"^\s*(?:/\*+|\*+/|\*(?=\s|$)|//[/!]?|#+!?)?\s?", re.MULTILINE)


@dataclass
class Comment:
    line: int
    text: str
    alone: bool = True  # no code beside it
    docstring: bool = False

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1

    @property
    def words(self) -> str:
        """The text without marks and quoted code; a sentence may go on in the next line."""
        return QUOTED.sub("x", MARKER.sub("", self.text.removesuffix("*/")))


def language_of(path: Path) -> str | None:
    if path.suffix:
        return LANGUAGES.get(path.suffix)
    with path.open("rb") as stream:
        first = stream.readline(80).decode(errors="replace")
    if not first.startswith("#!"):
        return None
    words = re.split(r"[\s/]+", first.strip())
    return next((INTERPRETERS[word] for word in words if word in INTERPRETERS), None)


def tracked_files(top: Path) -> list[str]:
    """Those that git has; without git, for an archive of the sources, all that are there."""
    listed = subprocess.run(["git", "-C", str(top), "ls-files", "-z"], capture_output=True,
                            text=True, check=False)
    names = listed.stdout.split("\0") if listed.returncode == 0 else [
        path.relative_to(top).as_posix() for path in top.rglob("*")]
    return sorted(name for name in names if name and (top / name).is_file()
                  and not (top / name).is_symlink())


def breaches(top: Path) -> list[str]:
    """A line for each breach."""
    return [f"{name}:{line}" for name in tracked_files(top) if (language := language_of(top / name))
            for line in breaches_of(name, language, (top / name).read_text())]


def breaches_of(name: str, language: str, text: str) -> list[str]:
    """The breaches of one file: `LINE: what is wrong`."""
    comments = comments_of(language, text)
    lines = _wide(text, _raw_lines(text) if language == "rust" else set())
    for block in blocks_of(comments):
        lines += _sentences(block)
        if language != "rust" and Path(name).suffix not in HEADERS:
            lines += _long(block, text)
    return lines


def _wide(text: str, unbreakable: set[int]) -> list[str]:
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        width = len(line.expandtabs(TAB))
        if (width > COLUMNS and number not in unbreakable
                and not UNBREAKABLE.fullmatch(line.strip())):
            lines.append(f"{number}: has {width} columns, more than {COLUMNS}")
    return lines


def _raw_lines(text: str) -> set[int]:
    """The lines within raw strings of Rust: a line end in one is part of the value."""
    lines = set()
    for found in C_TOKEN.finditer(text):
        if found["hashes"] is not None:
            first = text.count("\n", 0, found.start()) + 1
            lines.update(range(first, first + found[0].count("\n") + 1))
    return lines


def _sentences(block: Comment) -> list[str]:
    lines = []
    for pattern, rule in ((SUBJECT, "begins a sentence; name the subject"),
                          (PRONOUN, "is no thread or program; name it")):
        for found in pattern.finditer(block.words):
            number = block.line + block.words.count("\n", 0, found.start(1))
            lines.append(f"{number}: `{found[1]}` {rule}")
    return lines


def _long(block: Comment, text: str) -> list[str]:
    if block.docstring or not block.alone or block.lines <= BLOCK or _is_head(block, text):
        return []
    return [f"{block.line}: a comment of {block.lines} lines, more than {BLOCK}"]


def _is_head(block: Comment, text: str) -> bool:
    """Whether nothing but an interpreter or blank lines are before it: it describes the file."""
    before = text.split("\n")[:block.line - 1]
    return all(not line.strip() or line.startswith("#!") for line in before)


def blocks_of(comments: list[Comment]) -> list[Comment]:
    """Comments of lines of their own that follow each other are one block."""
    blocks: list[Comment] = []
    for comment in comments:
        last = blocks[-1] if blocks else None
        if (last and last.alone and comment.alone and not comment.docstring
                and not last.docstring and last.line + last.lines == comment.line):
            blocks[-1] = Comment(last.line, f"{last.text}\n{comment.text}")
        else:
            blocks.append(comment)
    return blocks


def comments_of(language: str, text: str) -> list[Comment]:
    if language == "python":
        return _python_comments(text)
    if language == "shell":
        return [Comment(number, line) for number, line in enumerate(text.split("\n"), 1)
                if line.lstrip().startswith("#") and not line.startswith("#!")]
    return [Comment(text.count("\n", 0, found.start()) + 1, found["comment"],
                    _starts_line(text, found.start()))
            for found in C_TOKEN.finditer(text) if found["comment"]]


def _starts_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1:at].strip()


def _python_comments(text: str) -> list[Comment]:
    comments = [Comment(token.start[0], token.string, not token.line[:token.start[1]].strip())
                for token in tokenize.generate_tokens(io.StringIO(text).readline)
                if token.type == tokenize.COMMENT and not token.string.startswith("#!")]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (
                docstring := ast.get_docstring(node, clean=False)):
            comments.append(Comment(node.body[0].lineno, docstring, docstring=True))
    return sorted(comments, key=lambda comment: comment.line)


def main() -> int:
    lines = breaches(Path(__file__).resolve().parent.parent.parent)
    print("\n".join(lines) or "comments and lines are in order")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
