// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of the daemon's socket: arbitrary bytes, and requests with one word replaced.
use proptest::prelude::*;
use tek_abi::*;
use zerocopy::IntoBytes;

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        Just(0),
        Just(u32::MAX),
        0u32..200,
        (0u32..32).prop_map(|bit| 1 << bit)
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!(request.as_bytes(), &bytes[..]);
        }
        if let Ok(reply) = Reply::decode(&bytes) {
            prop_assert_eq!(reply.as_bytes(), &bytes[..]);
        }
    }

    /// A decoded request equals its bytes, has the right version, and sets no field that its kind
    /// does not have.
    #[test]
    fn a_request_with_other_words_is_read_whole_or_refused(
        kind in 0u16..12,
        words in prop::collection::vec((0usize..16, word()), 0..6),
    ) {
        let mut bytes = Request::new(kind, 1).as_bytes().to_vec();
        for (at, word) in words {
            bytes[at * 4..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!(request.as_bytes(), &bytes[..]);
            prop_assert_eq!((request.magic, request.version), (REQUEST_MAGIC, SOCKET_VERSION));
            if [ASK_HELLO, ASK_STATUS].contains(&request.kind) {
                let number = request.number;
                prop_assert_eq!(request, Request::new(request.kind, number));
            }
        }
    }

    #[test]
    fn what_somebody_chose_is_printable_and_fits(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let text = printable(&bytes);
        prop_assert!(!text.chars().any(char::is_control), "{:?}", text);
        let reply = Reply::to(&Request::new(ASK_HELLO, 1)).refused(1, &text);
        prop_assert_eq!(reply.text[reply.text.len() - 1], 0);
    }
}
