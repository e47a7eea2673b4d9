"""Tests of the check of lib/'s layers."""

import tempfile
import unittest
from pathlib import Path

from checks import layers

TOP = Path(__file__).resolve().parent.parent


class Layers(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as top:
            for name, text in files.items():
                path = Path(top) / "lib" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return layers.breaches(Path(top))

    def test_lib_is_in_order(self):
        self.assertEqual(layers.breaches(TOP), [])

    def test_an_include_of_a_lower_folder_is_allowed(self):
        self.assertEqual(self.breaches({"stack/size.c": '#include "threads/thread.h"\n'}), [])

    def test_an_upward_include_fails(self):
        self.assertEqual(self.breaches({"threads/thread.c": '#include "life/create.h"\n'}),
                         ["lib/threads/thread.c: includes life/create.h"])

    def test_features_do_not_include_each_other(self):
        self.assertEqual(self.breaches({"place/local.c": '#include "stack/size.h"\n'}),
                         ["lib/place/local.c: includes stack/size.h"])

    def test_a_library_includes_only_what_it_shares_with_libtek(self):
        self.assertEqual(self.breaches({"uthread/table.c": '#include "threads/table.h"\n'
                                                           '#include "threads/thread.h"\n'}),
                         ["lib/uthread/table.c: includes threads/thread.h"])

    def test_an_upward_use_fails_without_an_include_too(self):
        self.assertEqual(self.breaches({
            "base/line.c": "void tek__place_leave(void);\nint "
                           "f(void)\n{\n\ttek__place_leave();\n}\n",
            "place/place.c": "void tek__place_leave(void)\n{\n}\n"}),
            ["lib/base/line.c: uses tek__place_leave of place/"])

    def test_an_upward_use_of_a_variable_fails(self):
        self.assertEqual(self.breaches({
            "base/line.c": "int f(void)\n{\n\treturn tek__config.on;\n}\n",
            "mediate/config.c": "struct tek_config tek__config;\n"}),
            ["lib/base/line.c: uses tek__config of mediate/"])

    def test_a_comment_uses_nothing(self):
        self.assertEqual(self.breaches({
            "base/line.c": "/* As tek__place_leave(). */\n",
            "place/place.c": "void tek__place_leave(void)\n{\n}\n"}), [])

    def test_a_folder_without_a_layer_is_an_error(self):
        with self.assertRaises(ValueError):
            self.breaches({"ident/thread.c": ""})
