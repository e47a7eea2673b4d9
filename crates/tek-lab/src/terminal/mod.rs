// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal in the guest, for a person at the host: bytes and sizes over a port of its own.
//!
//! It is no virtio console, which drops output that the host does not read at once, and knows no
//! sizes. The guest's output is sent as it is. Input is sent as messages: `I`, a length (16 bits,
//! little endian) and as many bytes; or `W`, rows and columns (16 bits each) of the window.

mod guest;

pub use guest::run;

/// Name of the port.
pub const PORT: &str = "tek.terminal";

/// A message of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Input of the user.
    Input(Vec<u8>),
    /// The window has this size.
    Window {
        /// Lines.
        rows: u16,
        /// Characters in a line.
        columns: u16,
    },
}

impl Message {
    /// Its bytes. Input of more than 65535 bytes is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Input(bytes) => {
                let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
                let mut message = vec![b'I'];
                message.extend(length.to_le_bytes());
                message.extend(&bytes[..usize::from(length)]);
                message
            }
            Self::Window { rows, columns } => {
                let mut message = vec![b'W'];
                message.extend(rows.to_le_bytes());
                message.extend(columns.to_le_bytes());
                message
            }
        }
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of the unknown kind {0:#04x}")]
pub struct Unknown(u8);

/// Assembles messages from the pieces in which their bytes arrive.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes a piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    pub fn take(&mut self) -> Result<Option<Message>, Unknown> {
        let (message, length) = match self.bytes.as_slice() {
            &[b'I', a, b, ref rest @ ..] => {
                let length = usize::from(u16::from_le_bytes([a, b]));
                let Some(bytes) = rest.get(..length) else { return Ok(None) };
                (Message::Input(bytes.to_vec()), 3 + length)
            }
            &[b'W', a, b, c, d, ..] => {
                let [rows, columns] = [[a, b], [c, d]].map(u16::from_le_bytes);
                (Message::Window { rows, columns }, 5)
            }
            [] | [b'I' | b'W', ..] => return Ok(None),
            [other, ..] => return Err(Unknown(*other)),
        };
        self.bytes.drain(..length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<Vec<u8>>().prop_map(Message::Input),
            any::<(u16, u16)>().prop_map(|(rows, columns)| Message::Window { rows, columns }),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_as_they_were_sent_in_whatever_pieces(
            messages in proptest::collection::vec(message(), 0..10),
            piece in 1_usize..50,
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(Message::to_bytes).collect();
            let mut decoder = Decoder::default();
            let mut decoded = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                while let Some(message) = decoder.take().unwrap() {
                    decoded.push(message);
                }
            }
            prop_assert_eq!(decoded, messages);
        }

        #[test]
        fn any_bytes_are_messages_or_refused(bytes: Vec<u8>) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take() {}
        }
    }

    #[test]
    fn an_unknown_message_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(b"X");
        assert_eq!(decoder.take(), Err(Unknown(b'X')));
    }
}
