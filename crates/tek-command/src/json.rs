// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON as all commands write it. It contains names of other users' threads, and may be printed on
//! a terminal.
use serde::Serialize;
use std::fmt::Write;
use tek_abi::is_printable;

/// In many lines, without the end of the last.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| escaped(&text))
}

/// In one line, without its end.
pub fn line(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|text| escaped(&text))
}

/// The same value: unprintable characters are in strings only, and JSON has an escape for them
/// there.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || is_printable(character) {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let text = line(&["a\u{1b}\u{7f}\u{9b}\u{202e}\u{2028}\u{2069}\nb"]).unwrap();
        assert_eq!(text, r#"["a\u001b\u007f\u009b\u202e\u2028\u2069\nb"]"#);
        assert_eq!(pretty(&["d\u{e9}"]).unwrap(), "[\n  \"d\u{e9}\"\n]");
    }

    proptest! {
        #[test]
        fn the_value_stays_what_it_is(strings: Vec<String>) {
            for text in [pretty(&strings).unwrap(), line(&strings).unwrap()] {
                prop_assert!(text.chars().all(|it| it == '\n' || is_printable(it)));
                prop_assert_eq!(&serde_json::from_str::<Vec<String>>(&text).unwrap(), &strings);
            }
        }
    }
}
