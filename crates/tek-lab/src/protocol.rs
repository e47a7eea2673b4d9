// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frames between host and guest over a virtio port.
//!
//! A frame is a byte with its kind, the length of the rest (32 bits, little endian), and that many
//! bytes. After the guest's [`Frame::Hello`] the host sends one [`Frame::Run`] at a time, and reads
//! until [`Frame::Over`] and [`Frame::Done`]. The host trusts no input: an invalid frame ends the
//! session.
use crate::Job;
use serde::{Deserialize, Serialize};

pub use crate::frame::MOST_BYTES;

/// Raised when frames change: host and guest are the same `tek`, unless a user mixes versions.
pub const VERSION: u32 = 3;

/// Name of the port: /sys/class/virtio-ports/*/name in the guest.
pub const PORT: &str = "tek.lab";

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Guest: it is up and waits for jobs.
    Hello(Hello),
    /// Host: run this job.
    Run(Box<Job>),
    /// Host: end the running job.
    End,
    /// Host: power off.
    PowerOff,
    /// Guest: a part of the job's standard output.
    Output(Vec<u8>),
    /// Guest: a part of the job's standard error.
    Error(Vec<u8>),
    /// Guest: how the job ended. Its remaining output may still follow.
    Over(How),
    /// Guest: a piece of the tar archive of `$OUT`, after the job.
    Files(Vec<u8>),
    /// Guest: the job is cleared away, and all of its output was sent.
    Done(Done),
}

/// The guest's hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the guest.
    pub version: u32,
}

/// The rest that a job leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Changes of the job that could not be reverted: the next job needs a new boot.
    pub left: Vec<String>,
    /// Files of its `$OUT` that could not be sent, and why.
    pub lost: Vec<String>,
}

/// Most entries of [`Done::left`] and [`Done::lost`], and characters of each.
const MOST_LEFT: (usize, usize) = (20, 200);

/// Most characters of [`How::NotStarted`].
const MOST_OF_WHY: usize = 1000;

impl Done {
    /// One that fits into a frame: the number and length of its names are a job's choice.
    pub fn new(left: Vec<String>, lost: Vec<String>) -> Self {
        Self { left: few(left), lost: few(lost) }
    }
}

fn few(mut entries: Vec<String>) -> Vec<String> {
    let (most, most_of_each) = MOST_LEFT;
    let more = entries.len().saturating_sub(most);
    entries.truncate(most);
    let mut entries: Vec<_> = entries.iter().map(|entry| cut(entry, most_of_each)).collect();
    if more > 0 {
        entries.push(format!("and {more} more"));
    }
    entries
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How a job ended in the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
    /// It never started.
    NotStarted {
        /// Such as "/bin/x: No such file or directory".
        why: String,
        /// The number of the system's error, if it was one.
        errno: Option<i32>,
    },
}

impl How {
    /// It never started. The reason is cut to fit into a frame: the program's name has any length.
    pub fn not_started(why: &str, errno: Option<i32>) -> Self {
        Self::NotStarted { why: cut(why, MOST_OF_WHY), errno }
    }
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unknown first byte.
    #[error("a frame of the unknown kind {0:#04x}")]
    Kind(u8),
    /// More than [`MOST_BYTES`].
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// The bytes do not fit its kind.
    #[error("a frame {0} that makes no sense: {1}")]
    Payload(char, String),
}

impl Frame {
    /// The bytes of the frame.
    ///
    /// # Panics
    ///
    /// If it has more than [`MOST_BYTES`]: callers cut output into pieces, and check jobs.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Self::Hello(hello) => (b'H', json(hello)),
            Self::Run(job) => (b'R', json(job)),
            Self::End => (b'X', Vec::new()),
            Self::PowerOff => (b'P', Vec::new()),
            Self::Output(bytes) => (b'O', bytes.clone()),
            Self::Error(bytes) => (b'E', bytes.clone()),
            Self::Over(how) => (b'V', json(how)),
            Self::Files(bytes) => (b'F', bytes.clone()),
            Self::Done(done) => (b'D', json(done)),
        };
        assert!(payload.len() <= MOST_BYTES, "a frame of {} bytes", payload.len());
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        bytes
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it has no maps with odd keys")
}

/// Assembles frames from the pieces in which their bytes arrive.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Bytes at the front that were already returned as frames.
    taken: usize,
}

impl Decoder {
    /// Takes a piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, if it is complete. After an error, no later frame is valid.
    #[allow(clippy::should_implement_trait)] // no end of an iterator: it waits for more bytes
    pub fn next(&mut self) -> Result<Option<Frame>, Error> {
        let bytes = &self.bytes[self.taken..];
        // At once: the rest may never arrive.
        if let Some(kind) = bytes.first().filter(|kind| !b"HRXPOEVFD".contains(kind)) {
            return Err(Error::Kind(*kind));
        }
        let Some((&[kind, a, b, c, d], rest)) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]);
        if length as usize > MOST_BYTES {
            return Err(Error::Length(length));
        }
        let Some(payload) = rest.get(..length as usize) else { return Ok(None) };
        let frame = parse(kind, payload)?;
        self.taken += 5 + length as usize;
        Ok(Some(frame))
    }
}

fn parse(kind: u8, payload: &[u8]) -> Result<Frame, Error> {
    fn from<'a, T: Deserialize<'a>>(kind: u8, payload: &'a [u8]) -> Result<T, Error> {
        serde_json::from_slice(payload)
            .map_err(|error| Error::Payload(char::from(kind), error.to_string()))
    }
    Ok(match kind {
        b'H' => Frame::Hello(from(kind, payload)?),
        b'R' => Frame::Run(from(kind, payload)?),
        b'V' => Frame::Over(from(kind, payload)?),
        b'D' => Frame::Done(from(kind, payload)?),
        b'O' => Frame::Output(payload.to_vec()),
        b'E' => Frame::Error(payload.to_vec()),
        b'F' => Frame::Files(payload.to_vec()),
        b'P' => Frame::PowerOff,
        _ => Frame::End,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let bytes = || vec(any::<u8>(), 0..300);
        let how = prop_oneof![
            any::<u8>().prop_map(How::Exited),
            any::<i32>().prop_map(How::Killed),
            any::<(String, Option<i32>)>().prop_map(|(why, errno)| How::NotStarted { why, errno }),
        ];
        prop_oneof![
            any::<u32>().prop_map(|version| Frame::Hello(Hello { version })),
            (any::<String>(), vec(any::<String>(), 0..3))
                .prop_map(|(name, command)| Frame::Run(Box::new(Job::new(&name, command)))),
            Just(Frame::End),
            Just(Frame::PowerOff),
            bytes().prop_map(Frame::Output),
            bytes().prop_map(Frame::Error),
            bytes().prop_map(Frame::Files),
            how.prop_map(Frame::Over),
            (vec(any::<String>(), 0..3), vec(any::<String>(), 0..3))
                .prop_map(|(left, lost)| Frame::Done(Done { left, lost })),
        ]
    }

    proptest! {
        #[test]
        fn frames_come_as_they_were_sent_in_whatever_pieces(
            frames in vec(frame(), 0..10),
            piece in 1_usize..700,
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::to_bytes).collect();
            let mut decoder = Decoder::default();
            let mut decoded = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    decoded.push(frame);
                }
            }
            prop_assert_eq!(decoded, frames);
        }

        #[test]
        fn any_bytes_are_frames_or_refused(bytes: Vec<u8>, kind in "[HRXPOEVFD]", short: u8) {
            for bytes in [bytes.clone(), [kind.as_bytes(), &[short, 0, 0, 0], &bytes].concat()] {
                let mut decoder = Decoder::default();
                decoder.push(&bytes);
                while let Ok(Some(_)) = decoder.next() {}
            }
        }
    }

    #[test]
    fn a_frame_that_would_take_much_memory_is_refused_before_it_comes() {
        let mut decoder = Decoder::default();
        decoder.push(b"O\x01\0\x01\0");
        assert_eq!(decoder.next(), Err(Error::Length(65537)));
    }

    #[test]
    fn the_end_of_a_job_fits_into_a_frame_however_much_is_left() {
        // The character that JSON needs most bytes for.
        let long = "\u{1}".repeat(MOST_BYTES);
        assert!(Frame::Over(How::not_started(&long, Some(i32::MIN))).to_bytes().len() < MOST_BYTES);
        let done = Done::new(vec![long.clone(); 1000], vec![long; 1000]);
        assert!(Frame::Done(done.clone()).to_bytes().len() < MOST_BYTES);
        assert_eq!(done.left.len(), 21);
        assert_eq!(done.left[0], "\u{1}".repeat(200) + "…");
        assert_eq!(done.left[20], "and 980 more");
        let left = vec!["a mount".to_owned(); 20];
        assert_eq!(Done::new(left.clone(), left.clone()), Done { lost: left.clone(), left });
    }

    #[test]
    fn an_unknown_frame_is_refused_at_its_first_byte() {
        let mut decoder = Decoder::default();
        decoder.push(&Frame::End.to_bytes());
        decoder.push(b"\x7f");
        assert_eq!(decoder.next(), Ok(Some(Frame::End)));
        assert_eq!(decoder.next(), Err(Error::Kind(0x7f)));
    }

    #[test]
    fn a_frame_of_the_greatest_length_is_whole() {
        let frame = Frame::Output(vec![7; MOST_BYTES]);
        let mut decoder = Decoder::default();
        let bytes = frame.to_bytes();
        decoder.push(&bytes[..MOST_BYTES]);
        assert_eq!(decoder.next(), Ok(None));
        decoder.push(&bytes[MOST_BYTES..]);
        assert_eq!(decoder.next(), Ok(Some(frame)));
        assert_eq!(decoder.next(), Ok(None));
    }
}
