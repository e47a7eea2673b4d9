// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes as kinds.toml and QEMU write them: 512M, 1G.

/// The bytes that a size stands for: a whole number with K, M, G or T (of 1024), or without.
pub fn parse(text: &str) -> Option<u64> {
    let (number, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None; // parse() takes a sign too
    }
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_a_number_and_a_unit() {
        assert_eq!(
            ["0", "256", "4k", "512M", "1G", "2T"].map(parse),
            [Some(0), Some(256), Some(4096), Some(512 << 20), Some(1 << 30), Some(2 << 40)]
        );
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let not = ["", "M", "-1M", "+1M", "1.5G", "1 G", "1GB", "é", "1é", "99999999999999999999"];
        for text in not {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("18446744073709551615T"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_none(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
