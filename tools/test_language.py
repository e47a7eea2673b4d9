"""The lint of comments and lines: each rule fails on a made-up file, and passes on a good one."""

import unittest

from checks import language


def breaches(name: str, text: str) -> list[str]:
    return language.breaches_of(name, name.rsplit(".", 1)[1].replace("py", "python"), text)


class Language(unittest.TestCase):
    def test_a_sentence_that_begins_with_a_relative_pronoun_is_a_breach(self):
        for word in ("Who", "Whom", "Whoever", "Whose"):
            text = f"/* It waits. {word} holds the lock wakes it. */\nint one;\n"
            self.assertEqual(len(breaches("one.c", text)), 1, word)
        self.assertEqual(breaches("one.c", "/* The thread that holds it wakes it. */\n"), [])

    def test_a_thread_is_not_a_he(self):
        self.assertEqual(len(breaches("one.py", '"""The waiter does his work."""\n')), 1)
        self.assertEqual(breaches("one.py", '"""The waiter does its work."""\n'), [])

    def test_a_line_over_100_columns_is_a_breach_unless_nothing_can_break_it(self):
        self.assertEqual(len(breaches("one.c", "int " + ", ".join(["one"] * 40) + ";\n")), 1)
        self.assertEqual(len(breaches("one.c", "\t" * 12 + "int one = 1;\n")), 1)
        self.assertEqual(breaches("one.c", f"/* {'x' * 120} */\n"), [])

    def test_code_of_rust_is_read_too_except_within_raw_strings(self):
        wide = f"let a = b({'1, ' * 40});\n"
        self.assertEqual(len(language.breaches_of("one.rs", "rust", wide)), 1)
        raw = 'const A: &str = r#"\n' + "one two " * 20 + '\n"#;\n'
        self.assertEqual(language.breaches_of("one.rs", "rust", raw), [])

    def test_a_block_of_more_than_eight_lines_is_a_breach_outside_headers_and_heads(self):
        block = "/*\n" + " * It is long.\n" * 8 + " */\n"
        self.assertEqual(len(breaches("one.c", f"int one;\n{block}int two;\n")), 1)
        self.assertEqual(breaches("one.c", block), [])
        self.assertEqual(breaches("one.c", "int one;\n/* Short. */\n"), [])

    def test_code_and_strings_are_not_read_as_sentences(self):
        self.assertEqual(breaches("one.c", 'const char *one = "Who waits";\n/* `his` */\n'), [])


if __name__ == "__main__":
    unittest.main()
