// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text in fixed-size fields.

/// The bytes before the first NUL; all of them when there is none.
pub fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The text of a field as it is, for programs; what is not UTF-8 becomes U+FFFD.
pub fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(field)).into_owned()
}

/// The text of a field, fit to be shown on a terminal: what is not UTF-8 becomes U+FFFD, and a
/// control character its escape, so that no thread can name itself into somebody's terminal.
pub fn printable(field: &[u8]) -> String {
    let mut shown = String::with_capacity(field.len());
    for character in String::from_utf8_lossy(until_nul(field)).chars() {
        if character.is_control() || turns_text(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a character changes the direction in which those around it are shown: text with such
/// ones reads as something else than it is.
fn turns_text(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}')
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
    fn a_name_cannot_turn_the_text_around_it() {
        assert_eq!(printable("ui\u{202e}oot".as_bytes()), "ui\\u{202e}oot");
        for turns in "\u{200e}\u{200f}\u{202a}\u{2066}\u{2069}\u{61c}".chars() {
            assert!(printable(turns.to_string().as_bytes()).is_ascii());
        }
        assert_eq!(printable("détection שלום".as_bytes()), "détection שלום");
    }

    #[test]
    fn programs_get_the_text_itself() {
        assert_eq!(text(b"a\nb\xff\0rest"), "a\nb\u{fffd}");
    }
}
