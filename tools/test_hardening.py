"""Tests of the flags with which Ubuntu's compiler and packagers harden programs."""

import json
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).parents[1]
DATABASE = TOP / "build/compile_commands.json"
# Ubuntu 24.04's gcc has them in each compilation, before all other options.
HARDENED = ["-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", "-fstack-clash-protection",
            "-fcf-protection"]
# At -O0 the headers ignore _FORTIFY_SOURCE; with -flto the compiler does not report a symbol with
# two definitions.
FAST = ["-O1", "-g0", "-fno-lto"]


def interposers():
    """Per source of lib/preload: how each library compiles it."""
    for entry in json.loads(DATABASE.read_text()):
        source = (Path(entry["directory"]) / entry["file"]).resolve()
        if source.is_relative_to(TOP / "lib/preload") and entry["output"].startswith("lib/"):
            yield entry, source


def compile_hardened(entry, directory):
    """The compiler's messages; "" where it has none."""
    command = shlex.split(entry["command"])
    command = [part for part in command if part not in ("-MD", "-flto=auto")]
    for option in ("-MQ", "-MF"):
        at = command.index(option)
        del command[at:at + 2]
    command[command.index("-o") + 1] = str(Path(directory) / "object.o")
    at = next(i for i, part in enumerate(command) if part.startswith("-I"))
    command[at:at] = HARDENED
    done = subprocess.run(command + FAST, cwd=entry["directory"], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


@unittest.skipUnless(DATABASE.exists(), "nothing is built in build/")
class Hardening(unittest.TestCase):
    def test_functions_keep_their_names_beside_fortified_headers(self):
        """longjmp, _longjmp and siglongjmp became __longjmp_chk, which was defined three times."""
        entries = list(interposers())
        self.assertGreater(len(entries), 50)
        with tempfile.TemporaryDirectory() as directory:
            for entry, source in entries:
                with self.subTest(source=str(source.relative_to(TOP)), output=entry["output"]):
                    self.assertEqual(compile_hardened(entry, directory), "")


if __name__ == "__main__":
    unittest.main()
