"""Tests of the check of lib/'s names."""

import tempfile
import unittest
from pathlib import Path

from checks import names

TOP = Path(__file__).resolve().parent.parent


class Names(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as top:
            for name, text in files.items():
                path = Path(top) / "lib" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return names.breaches(Path(top))

    def test_the_names_of_lib_are_unique(self):
        self.assertEqual(names.breaches(TOP), [])

    def test_a_library_has_its_own_prefix(self):
        self.assertEqual(self.breaches({"sync/cond.c": "void tek__cond_signal(void)\n{\n}\n"}),
                         ["lib/sync/cond.c: tek__cond_signal does not begin with tek_sync__"])

    def test_the_symbols_of_a_library_have_its_prefix(self):
        self.assertEqual(self.breaches({"preload/uthread/exec.c": "int tek__there;\n"}),
                         ["lib/preload/uthread/exec.c: tek__there does not begin with tek_ut__"])

    def test_a_function_has_one_definition(self):
        self.assertEqual(self.breaches({
            "base/line.c": "void tek__line(void)\n{\n}\n",
            "stack/line.c": "void tek__line(void)\n{\n}\n"}),
            ["tek__line is defined in lib/base/line and in lib/stack/line"])

    def test_a_struct_has_one_definition(self):
        self.assertEqual(self.breaches({"sync/cond.h": "struct tek_cond {\n};\n",
                                        "uthread/cond.h": "struct tek_cond {\n};\n"}),
                         ["struct tek_cond is defined in lib/sync/cond and in lib/uthread/cond"])

    def test_a_static_name_is_free(self):
        self.assertEqual(self.breaches({"base/line.c": "static void add(void)\n{\n}\n",
                                        "stack/line.c": "static void add(void)\n{\n}\n"}), [])
