// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the files of this directory, as tests/c/vectors.h does. Tests include this file.

/// A line.
pub struct Vector {
    /// File and line, for messages.
    pub place: String,
    /// At least one.
    pub words: Vec<String>,
}

impl Vector {
    /// A word; panics if there is none.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).unwrap_or_else(|| panic!("{}: word {at} is missing", self.place))
    }
}

/// The lines of a file, at least one.
pub fn read(name: &str) -> Vec<Vector> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let text = std::fs::read_to_string(format!("{directory}/{name}")).unwrap();
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    let vectors: Vec<_> = lines
        .map(|(line, number)| Vector {
            place: format!("tests/vectors/{name}:{number}"),
            words: words(line).unwrap_or_else(|| panic!("{name}:{number} has no such form")),
        })
        .filter(|vector| !vector.words.is_empty())
        .collect();
    assert!(!vectors.is_empty());
    vectors
}

/// The words of a line; `None`: an escape or a quote is incomplete.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(' ');
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(inside) => quoted(inside)?,
            None => {
                let end = rest.find(' ').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        words.push(word);
        rest = behind.trim_start_matches(' ');
    }
    Some(words)
}

/// The word in quotes, and the text behind it.
fn quoted(inside: &str) -> Option<(String, &str)> {
    let mut word = Vec::new();
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((String::from_utf8(word).ok()?, &inside[at + 1..])),
            b'\\' => word.push(match bytes.next()?.1 {
                b'n' => b'\n',
                b't' => b'\t',
                b'x' => {
                    let (from, _) = bytes.next()?;
                    bytes.next()?;
                    u8::from_str_radix(inside.get(from..from + 2)?, 16).ok()?
                }
                other => other,
            }),
            byte => word.push(byte),
        }
    }
    None
}
