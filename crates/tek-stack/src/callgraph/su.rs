// SPDX-License-Identifier: MIT OR Apache-2.0
//! gcc's lists of frames: -fstack-usage.
use super::{grows, Frame, Graph};

impl Graph {
    /// Adds a .su file without a .ci file; returns the number of its functions.
    pub fn add_su(&mut self, bytes: &[u8]) -> usize {
        self.files += 1;
        let mut found = 0;
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut fields = line.trim_end().split('\t');
            let (Some(function), Some(bytes), Some(kind)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (Ok(bytes), Some((place, name))) = (bytes.parse(), place_and_name(function)) else {
                continue;
            };
            let index = self.function(name, None);
            let function = &mut self.functions[index];
            function.calls_unknown = function.frame.is_none() || function.calls_unknown;
            function.place = place.to_owned();
            function.add_frame(Frame { bytes, grows: grows(kind) });
            found += 1;
        }
        found
    }
}

/// FILE:LINE:COLUMN:NAME, where the name may hold colons, and the file too.
fn place_and_name(text: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let colons: Vec<_> = text.match_indices(':').map(|(at, _)| at).collect();
    colons.windows(3).find_map(|at| {
        let numbers = is_number(&text[at[0] + 1..at[1]]) && is_number(&text[at[1] + 1..at[2]]);
        numbers.then(|| (&text[..at[2]], &text[at[2] + 1..]))
    })
}
