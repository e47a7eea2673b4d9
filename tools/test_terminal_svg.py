"""Tests of tools/terminal-svg: the screen of a command as SVG."""

import importlib.machinery
import importlib.util
import pathlib
import unittest
import xml.etree.ElementTree

PATH = pathlib.Path(__file__).with_name("terminal-svg")
LOADER = importlib.machinery.SourceFileLoader("terminal_svg", str(PATH))
terminal_svg = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("terminal_svg", LOADER))
LOADER.exec_module(terminal_svg)


def screen(text, columns=10, lines=2):
    drawn = terminal_svg.Screen(columns, lines)
    drawn.write(text)
    return drawn


def lines(drawn):
    return ["".join(character for character, _ in cells).rstrip() for cells in drawn.cells]


class TerminalSvg(unittest.TestCase):
    def test_the_cursor_decides_where_text_appears(self):
        self.assertEqual(lines(screen("old\x1b[2J\x1b[2;3Hab\x1b[1;1Hc")), ["c", "  ab"])

    def test_text_beyond_the_screen_is_left_out(self):
        self.assertEqual(lines(screen("0123456789abc")), ["0123456789", ""])

    def test_colours_and_bold_end_where_the_command_ends_them(self):
        cells = screen("\x1b[1;31ma\x1b[22mb\x1b[0mc\x1b[38;5;2;7md").cells[0]
        red, green = terminal_svg.COLOURS[1], terminal_svg.COLOURS[2]
        self.assertEqual([style for _, style in cells[:4]], [
            (red, None, True, False), (red, None, False, False), terminal_svg.PLAIN,
            (green, None, False, True)])

    def test_the_document_is_xml_with_the_text_of_the_screen(self):
        document = terminal_svg.svg(screen("a <b> & c"), 'top "x"')
        root = xml.etree.ElementTree.fromstring(document)
        texts = [text.text.rstrip() for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts, ["a <b> & c"])

    def test_a_command_is_ended_by_the_key_q(self):
        drawn = terminal_svg.record(["sh", "-c", "stty -icanon; echo ready; head -c 1"], 20, 3, 1)
        self.assertEqual(lines(drawn)[0], "ready")
