"""Tests of tools/checks/objects.py: comments and inner names are not in the machine code."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from checks import objects

SOURCE = "static int {name}(int n) {{ return n {sign} 7; }} /* {comment} */ " \
         "int seen(int n) {{ return {name}(n); }}\n"


@unittest.skipUnless(shutil.which("cc") and shutil.which("objcopy"), "needs cc and objcopy")
class Objects(unittest.TestCase):
    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def build(self, build: str, **parts) -> Path:
        folder = self.top / build / "lib"
        folder.mkdir(parents=True)
        (folder / "a.c").write_text(SOURCE.format(**parts))
        subprocess.run(["cc", "-g", "-O2", "-shared", "-fPIC", "-o", "liba.so", "a.c"],
                       cwd=folder, check=True)
        return folder.parent

    def test_a_comment_and_a_static_name_change_no_section(self):
        old = objects.files_of(self.build("old", name="f", sign="+", comment="x"))
        new = objects.files_of(self.build("new", name="longer_name", sign="+", comment="other"))
        self.assertEqual(list(old), ["lib/liba.so"])
        self.assertEqual(objects.differing(old["lib/liba.so"], new["lib/liba.so"]), [])

    def test_other_code_is_found(self):
        old = objects.files_of(self.build("old", name="f", sign="+", comment="x"))
        new = objects.files_of(self.build("new", name="f", sign="-", comment="x"))
        self.assertEqual(objects.differing(old["lib/liba.so"], new["lib/liba.so"]), [".text"])

