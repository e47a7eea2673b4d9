// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paragraphs broken into lines.
use console::measure_text_width;

/// The most columns of a character.
const WIDEST: usize = 2;

/// The lines of a paragraph, none wider than `width` unless a single character is. Each has the
/// indent of the paragraph, if that leaves room for characters.
pub fn wrap(paragraph: &str, width: usize) -> Vec<String> {
    let words = paragraph.trim_start_matches(' ');
    let most = (width / 2).min(width.saturating_sub(WIDEST));
    let indent = " ".repeat((paragraph.len() - words.len()).min(most));
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words.split(' ').flat_map(|word| pieces(word, width - indent.len())) {
        let with_word = measure_text_width(&line) + 1 + measure_text_width(&word);
        if !line.is_empty() && indent.len() + with_word > width {
            lines.push(format!("{indent}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += &word;
    }
    lines.push(format!("{indent}{line}"));
    lines
}

/// A word, cut where it is too long for a line.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for character in word.chars() {
        let wide = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if used > 0 && used + wide > width {
            pieces.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_stay_whole_where_they_can_and_the_indent_stays() {
        assert_eq!(wrap("  it runs gas_loop", 11), ["  it runs", "  gas_loop"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn an_indent_leaves_room_for_a_wide_character() {
        assert_eq!(wrap("  あ", 2), ["あ"]);
        assert_eq!(wrap("  あ", 3), [" あ"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(text in "[ -~äあ]{0,200}", width in 2usize..100) {
            for line in wrap(&text, width) {
                prop_assert!(measure_text_width(&line) <= width, "{line:?}");
            }
        }
    }
}
