// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of the journal: `["16 hexadecimal digits",{...}]`.
//!
//! The digits are a checksum of the rest (64-bit FNV-1a), so that a line of which anything was lost
//! or changed is told from one that was written.
use super::what::{Value, What};
use serde::{Deserialize, Serialize};

/// Of this text.
pub(crate) const VERSION: u32 = 1;

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Line {
    /// The first: what boot of the machine the rest is about.
    Journal { version: u32, boot: String },
    /// A change is about to be made.
    Note { change: u64, what: What },
    /// What was changed is about to get another value, or was found to have it.
    Again { change: u64, value: Value },
    /// The change was undone, or never made.
    Done { change: u64 },
}

const BEFORE_SUM: &[u8] = b"[\"";
const AFTER_SUM: &[u8] = b"\",";
const DIGITS: usize = 16;
const AT_TEXT: usize = BEFORE_SUM.len() + DIGITS + AFTER_SUM.len();

impl Line {
    /// With its end.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Numbers, texts and lists can always be serialized.
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut line = Vec::with_capacity(AT_TEXT + text.len() + 2);
        line.extend_from_slice(BEFORE_SUM);
        line.extend_from_slice(&digits(&text));
        line.extend_from_slice(AFTER_SUM);
        line.extend_from_slice(&text);
        line.extend_from_slice(b"]\n");
        line
    }

    /// Without its end; `None` if it was not written so.
    pub(crate) fn decode(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(BEFORE_SUM)?;
        let (sum, rest) = rest.split_at_checked(DIGITS)?;
        let text = rest.strip_prefix(AFTER_SUM)?.strip_suffix(b"]")?;
        if sum != digits(text) {
            return None;
        }
        serde_json::from_slice(text).ok()
    }
}

fn digits(text: &[u8]) -> [u8; DIGITS] {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let sum = text.iter().fold(0xcbf2_9ce4_8422_2325, step);
    std::array::from_fn(|at| b"0123456789abcdef"[(sum >> (60 - 4 * at)) as usize & 15])
}
