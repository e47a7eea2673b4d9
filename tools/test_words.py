"""The lint of names: each rule fails on a made-up file, and passes on a good one."""

import unittest

from checks import words


def breaches(name: str, text: str) -> list[str]:
    language = {"c": "c", "h": "c", "rs": "rust", "py": "python"}[name.rsplit(".", 1)[1]]
    return words.breaches_of(name, language, text)


class Words(unittest.TestCase):
    def test_an_avoided_word_between_underscores_or_humps_is_a_breach_in_each_language(self):
        self.assertEqual(breaches("a.c", "int take_turn;\n"),
                         ["1: the name take_turn has `turn`; see docs/terms.md"])
        self.assertEqual(len(breaches("a.c", "#define TURNS_MOST 3\n")), 1)
        self.assertEqual(len(breaches("a.rs", "struct TurnCount;\n")), 1)
        self.assertEqual(len(breaches("a.py", "def tell(): pass\n")), 1)
        self.assertEqual(len(breaches("a.py", "a.told = 1\n")), 1)

    def test_a_word_within_another_one_is_none(self):
        self.assertEqual(breaches("a.c", "int returned, tellers, whole, homepage_bytes;\n"), [])

    def test_strings_comments_and_includes_are_not_read(self):
        text = '#include "place/turn.h"\n/* turn */ const char *a = "turn"; // told\n'
        self.assertEqual(breaches("a.c", text), [])
        self.assertEqual(breaches("a.py", '"""told"""\na = "told"  # told\n'), [])

    def test_each_name_is_reported_once_with_its_first_line(self):
        lines = breaches("a.c", "\nint wish;\nwish = 1;\n")
        self.assertEqual([line.split(":")[0] for line in lines], ["2"])

    def test_a_sentence_is_read_as_a_short_name_is(self):
        self.assertEqual(breaches("a.c", "void a_waiter_gets_the_reason_at_once(void);\n"), [])
        self.assertEqual(breaches("a.c", "void a_waiter_is_told_the_reason(void);\n"),
                         ["1: the name a_waiter_is_told_the_reason has `told`; see docs/terms.md"])
        self.assertEqual(len(breaches("a.rs", "fn the_lock_is_of_the_one_who_waits() {}\n")), 1)

    def test_a_relative_pronoun_at_the_beginning_is_a_breach(self):
        for name in ("whose_lock_it_is_gets_it_first", "test_whoever_waits_for_it_wakes", "whose"):
            self.assertEqual(len(breaches("a.py", f"def {name}(): pass\n")), 1, name)
        self.assertEqual(breaches("a.py", "def test_a_wait_whose_time_is_over_ends(): pass\n"), [])

    def test_zones_are_of_stacks_only(self):
        self.assertEqual(breaches("lib/stack/a.c", "int zone;\n"), [])
        self.assertEqual(len(breaches("lib/uthread/a.c", "int zone;\n")), 1)

    def test_a_public_name_stays_where_it_is_public(self):
        self.assertEqual(breaches("abi/a.h", "#define TEK_TELL_LEFT 1\n"), [])
        self.assertEqual(breaches("lib/preload/uthread/state.c", "int a(int who);\n"), [])
        self.assertEqual(len(breaches("lib/a.c", "int a(int who);\n")), 1)


if __name__ == "__main__":
    unittest.main()
