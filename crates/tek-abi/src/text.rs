// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text in fixed-size fields.

/// The bytes before the first NUL; all of them when there is none.
pub fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The text of a field as it is, for programs; bytes that are not UTF-8 become U+FFFD.
pub fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(field)).into_owned()
}

/// The text of a field, fit to be shown on a terminal. Bytes that are not UTF-8 become U+FFFD;
/// unprintable characters become escapes, so that no thread name can control a user's terminal.
pub fn printable(field: &[u8]) -> String {
    let mut shown = String::with_capacity(field.len());
    for character in String::from_utf8_lossy(until_nul(field)).chars() {
        if is_printable(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
    }
    shown
}

/// As [`printable`], for a text of several lines, which stay lines.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(|line| printable(line.as_bytes())).collect::<Vec<_>>().join("\n")
}

/// Whether a terminal shows a character and does nothing else. Control characters (C0, DEL, C1)
/// move its cursor and more; U+2028 and U+2029 end a line. Bidirectional controls reverse the text
/// around them, so that it reads as something else.
pub fn is_printable(character: char) -> bool {
    let reverses_text = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_line = matches!(character, '\u{2028}' | '\u{2029}');
    !character.is_control() && !reverses_text && !ends_line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_ends_at_its_first_nul_or_at_its_end() {
        assert_eq!(printable(b"touch\0rest"), "touch");
        assert_eq!(printable(b"sixteen-bytes-xx"), "sixteen-bytes-xx");
        assert_eq!(printable(b""), "");
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(printable(b"\x1b[2Jgone\n"), "\\u{1b}[2Jgone\\n");
        assert_eq!(printable(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_name_cannot_reverse_the_text_around_it() {
        assert_eq!(printable("ui\u{202e}oot".as_bytes()), "ui\\u{202e}oot");
        for marks in "\u{200e}\u{200f}\u{202a}\u{2066}\u{2069}\u{61c}".chars() {
            assert!(printable(marks.to_string().as_bytes()).is_ascii());
        }
        assert_eq!(printable("détection שלום".as_bytes()), "détection שלום");
    }

    #[test]
    fn a_name_cannot_end_the_line_it_is_in() {
        assert_eq!(printable("a\u{2028}b\u{2029}\u{85}".as_bytes()), "a\\u{2028}b\\u{2029}\\u{85}");
        assert_eq!(printable(b"a\x7f"), "a\\u{7f}");
        assert_eq!(printable("\u{9b}2J".as_bytes()), "\\u{9b}2J");
        assert_eq!(printable_lines("a\x1b\nb\r\n"), "a\\u{1b}\nb\\r\n");
    }

    #[test]
    fn programs_get_the_text_itself() {
        assert_eq!(text(b"a\nb\xff\0rest"), "a\nb\u{fffd}");
    }
}
