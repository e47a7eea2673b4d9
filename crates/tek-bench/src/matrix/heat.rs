// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ratios as text and as colours, from good to bad.

use std::fmt::Write;

/// Characters without width that mark a ratio in a table, so that a table can be laid out before
/// its ratios get colours.
const MARKS: [char; 3] = ['\u{2061}', '\u{2062}', '\u{2063}'];

/// The greatest ratio that is good, and the greatest one that is fair.
const LIMITS: [f64; 2] = [1.15, 2.0];

/// A ratio as text.
pub fn ratio(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A ratio as text that [`coloured`] colours.
pub fn marked(value: f64) -> String {
    let grade = LIMITS.iter().filter(|limit| value > **limit).count();
    ratio(value) + &MARKS[grade].to_string()
}

/// Replaces the marks by colours, or removes them where standard output shows no colours.
pub fn coloured(text: &str) -> String {
    painted(text, console::colors_enabled())
}

fn painted(text: &str, colours: bool) -> String {
    let mut painted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, mark)) = rest.char_indices().find(|(_, it)| MARKS.contains(it)) {
        let before = &rest[..at];
        let begin = before.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.').len();
        painted.push_str(&before[..begin]);
        let style = console::Style::new().force_styling(colours);
        let style = match MARKS.iter().position(|it| *it == mark) {
            Some(0) => style.green(),
            Some(1) => style.yellow(),
            _ => style.red(),
        };
        let _ = write!(painted, "{}", style.apply_to(&before[begin..]));
        rest = &rest[at + mark.len_utf8()..];
    }
    painted + rest
}

/// The colour of a ratio on a page: from green at 1 to red at 10 and above.
pub fn css(value: f64) -> String {
    let badness = value.max(1.0).log10().min(1.0);
    format!("hsl({:.0} 65% 78%)", 130.0 * (1.0 - badness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_colours_the_number_before_it() {
        let text = format!("mutex  {}  {}", marked(1.0), marked(20.0));
        assert_eq!(painted(&text, false), "mutex  1.00  20.0");
        let colours = painted(&text, true);
        assert_eq!(colours, "mutex  \u{1b}[32m1.00\u{1b}[0m  \u{1b}[31m20.0\u{1b}[0m");
    }

    #[test]
    fn a_ratio_has_three_digits_or_so() {
        assert_eq!([1.234, 12.34, 123.4].map(ratio), ["1.23", "12.3", "123"]);
    }

    #[test]
    fn the_colour_goes_from_green_to_red() {
        assert_eq!(css(0.9), css(1.0));
        assert_eq!(css(1.0), "hsl(130 65% 78%)");
        assert_eq!(css(10.0), "hsl(0 65% 78%)");
        assert_eq!(css(500.0), css(10.0));
    }
}
