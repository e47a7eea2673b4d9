// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text in fixed-size fields.

/// The bytes before the first NUL; all of them when there is none.
pub fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The text of a field, fit to be shown on a terminal: what is not UTF-8 becomes U+FFFD, and a
/// control character its escape, so that no thread can name itself into somebody's terminal.
pub fn printable(field: &[u8]) -> String {
    let mut shown = String::with_capacity(field.len());
    for character in String::from_utf8_lossy(until_nul(field)).chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
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
}
