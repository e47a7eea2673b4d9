// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of the daemon's socket.
use crate::layout;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Path of the daemon's socket, unless `TEK_SOCKET` names another.
pub const SOCKET_PATH: &str = "/run/tek/tekd";
/// Version of both structs.
pub const SOCKET_VERSION: u16 = 1;
/// "TEKQ", little-endian.
pub const REQUEST_MAGIC: u32 = 0x514b_4554;
/// "TEKR", little-endian.
pub const REPLY_MAGIC: u32 = 0x524b_4554;

/// The first request; the reply's `value[0]` is `GRANT_*`, `value[1]` the budget in ns.
pub const ASK_HELLO: u16 = 1;
/// Moves the thread `tid` of this process into the Fast Region.
pub const ASK_ENTER: u16 = 2;
/// Moves it out of the Fast Region.
pub const ASK_LEAVE: u16 = 3;
/// Moves the thread `tid`, 0: the whole process, into a group; like CRITICAL, also a thread of
/// another process.
pub const ASK_GROUP: u16 = 4;
/// tekd's state; the reply brings a file with JSON in it.
pub const ASK_STATUS: u16 = 5;
/// The same about one thread.
pub const ASK_EXPLAIN: u16 = 6;
/// As ENTER, for a thread or process other than the client's.
pub const ASK_CRITICAL: u16 = 7;
/// Reverts CRITICAL.
pub const ASK_NORMAL: u16 = 8;

/// In `flags`: all threads of the process.
pub const ASK_PROCESS: u32 = 1;
/// In `flags` of ENTER: only because a Fast thread waits for this one.
pub const ASK_LIFT: u32 = 2;
/// In `flags` of ENTER with an end: after it the thread stays, with `then_priority`.
pub const ASK_THEN: u32 = 4;

/// A thread is Fast no more; `error` has the reason.
pub const TELL_LEFT: u16 = 101;
/// The packet was no request.
pub const TELL_REFUSED: u16 = 102;

/// tekd makes each switch.
pub const GRANT_SWITCH: u64 = 1;
/// The process's RLIMIT_RTPRIO was raised: it can switch itself.
pub const GRANT_LIMIT: u64 = 2;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Request {
    /// [`REQUEST_MAGIC`].
    pub magic: u32,
    /// [`SOCKET_VERSION`].
    pub version: u16,
    /// `ASK_*`.
    pub kind: u16,
    /// The sender's choice.
    pub number: u32,
    /// Thread, or process.
    pub tid: u32,
    /// Start of the process that it names, or 0.
    pub start_ticks: u64,
    /// CLOCK_MONOTONIC, or 0.
    pub until_ns: u64,
    /// SCHED_TEK priority: -20 to 19.
    pub priority: i32,
    /// [`ASK_PROCESS`], [`ASK_LIFT`], [`ASK_THEN`].
    pub flags: u32,
    /// `GROUP_*`.
    pub group: u32,
    /// Most CPU time that the client requests for the thread,
    pub budget_us: u32,
    /// in each window of this length; both 0: only the budget of the grant holds.
    pub window_us: u32,
    /// SCHED_TEK priority from `until_ns` on, with [`ASK_THEN`].
    pub then_priority: i32,
    /// Zero.
    pub reserved: [u32; 2],
}
layout!(Request, "tek_request", 64, {
    magic: 0, version: 4, kind: 6, number: 8, tid: 12, start_ticks: 16, until_ns: 24, priority: 32,
    flags: 36, group: 40, budget_us: 44, window_us: 48, then_priority: 52, reserved: 56,
});

/// A reply of tekd, or a report without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Reply {
    /// [`REPLY_MAGIC`].
    pub magic: u32,
    /// [`SOCKET_VERSION`].
    pub version: u16,
    /// Kind of the request, or `TELL_*`.
    pub kind: u16,
    /// Number of the request; 0 in a report without a request.
    pub number: u32,
    /// The thread that it is about.
    pub tid: u32,
    /// errno value; 0: done.
    pub error: i32,
    /// Real-time priority in force; 0: none of tekd's.
    pub rt_priority: u32,
    /// Depends on the kind.
    pub value: [u64; 2],
    /// Why, one line, NUL-terminated.
    pub text: [u8; 88],
}
layout!(Reply, "tek_reply", 128, {
    magic: 0, version: 4, kind: 6, number: 8, tid: 12, error: 16, rt_priority: 20, value: 24,
    text: 40,
});

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// Another length than the struct's.
    Length(usize),
    /// Does not begin as it should.
    Magic(u32),
    /// Of another version of TEK.
    Version(u16),
    /// Not one of the kinds.
    Kind(u16),
    /// A field that its kind does not have is not zero, or a bit that does not exist is set.
    NotZero,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "a message of {length} bytes is none of TEK's"),
            Self::Magic(magic) => write!(f, "no message begins with {magic:#010x}"),
            Self::Version(version) => write!(
                f,
                "this is version {version} of the messages, and here {SOCKET_VERSION} is spoken; \
                 use libtek and tekd of one version"
            ),
            Self::Kind(kind) => write!(f, "there is no message of kind {kind}"),
            Self::NotZero => f.write_str("a field that this kind of message does not have is set"),
        }
    }
}

impl std::error::Error for MessageError {}

impl Request {
    /// A request of a kind without further fields.
    pub fn new(kind: u16, number: u32) -> Self {
        Self {
            magic: REQUEST_MAGIC,
            version: SOCKET_VERSION,
            kind,
            number,
            tid: 0,
            start_ticks: 0,
            until_ns: 0,
            priority: 0,
            flags: 0,
            group: 0,
            budget_us: 0,
            window_us: 0,
            then_priority: 0,
            reserved: [0; 2],
        }
    }

    /// Takes a request from a packet. It does not check whether the numbers make sense.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let request =
            Self::read_from_bytes(bytes).map_err(|_| MessageError::Length(bytes.len()))?;
        if request.magic != REQUEST_MAGIC {
            return Err(MessageError::Magic(request.magic));
        }
        if request.version != SOCKET_VERSION {
            return Err(MessageError::Version(request.version));
        }
        let mut expected = Self::new(request.kind, request.number);
        match request.kind {
            ASK_HELLO | ASK_STATUS => {}
            ASK_LEAVE | ASK_EXPLAIN => expected.tid = request.tid,
            ASK_ENTER => {
                expected.tid = request.tid;
                expected.flags = request.flags & (ASK_LIFT | ASK_THEN);
                if request.flags & ASK_THEN != 0 {
                    expected.then_priority = request.then_priority;
                }
                expected.until_ns = request.until_ns;
                expected.priority = request.priority;
                expected.budget_us = request.budget_us;
                expected.window_us = request.window_us;
            }
            ASK_GROUP => {
                expected.tid = request.tid;
                expected.start_ticks = request.start_ticks;
                expected.flags = request.flags & ASK_PROCESS;
                expected.group = request.group;
            }
            ASK_CRITICAL | ASK_NORMAL => {
                expected.tid = request.tid;
                expected.start_ticks = request.start_ticks;
                expected.flags = request.flags & ASK_PROCESS;
                if request.kind == ASK_CRITICAL {
                    expected.until_ns = request.until_ns;
                    expected.priority = request.priority;
                }
            }
            kind => return Err(MessageError::Kind(kind)),
        }
        match request == expected {
            true => Ok(request),
            false => Err(MessageError::NotZero),
        }
    }
}

impl Reply {
    /// The reply to a request: done, without further fields.
    pub fn to(request: &Request) -> Self {
        Self {
            magic: REPLY_MAGIC,
            version: SOCKET_VERSION,
            kind: request.kind,
            number: request.number,
            tid: request.tid,
            error: 0,
            rt_priority: 0,
            value: [0; 2],
            text: [0; 88],
        }
    }

    /// The same with an error, and why: cut at the end of a character where it is too long.
    pub fn refused(mut self, error: i32, why: &str) -> Self {
        self.error = error;
        let mut length = why.len().min(self.text.len() - 1);
        while !why.is_char_boundary(length) {
            length -= 1;
        }
        self.text[..length].copy_from_slice(&why.as_bytes()[..length]);
        self
    }

    /// Takes a reply from a packet.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let reply = Self::read_from_bytes(bytes).map_err(|_| MessageError::Length(bytes.len()))?;
        if reply.magic != REPLY_MAGIC {
            return Err(MessageError::Magic(reply.magic));
        }
        match reply.version {
            SOCKET_VERSION => Ok(reply),
            version => Err(MessageError::Version(version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_way_through_bytes() {
        let mut request = Request::new(ASK_ENTER, 7);
        (request.tid, request.priority, request.until_ns) = (12, -20, 5);
        assert_eq!(Request::decode(request.as_bytes()), Ok(request));
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_reason_given() {
        let good = Request::new(ASK_HELLO, 1);
        let decode = |request: Request| Request::decode(request.as_bytes());
        assert_eq!(Request::decode(&good.as_bytes()[..63]), Err(MessageError::Length(63)));
        assert_eq!(Request::decode(&[0; 65]), Err(MessageError::Length(65)));
        assert_eq!(decode(Request { magic: 1, ..good }), Err(MessageError::Magic(1)));
        assert_eq!(decode(Request { version: 2, ..good }), Err(MessageError::Version(2)));
        assert_eq!(decode(Request { kind: 0, ..good }), Err(MessageError::Kind(0)));
        assert_eq!(decode(Request { tid: 1, ..good }), Err(MessageError::NotZero));
        assert_eq!(decode(Request { reserved: [0, 1], ..good }), Err(MessageError::NotZero));
        let flags = Request { flags: 2, ..Request::new(ASK_CRITICAL, 1) };
        assert_eq!(decode(flags), Err(MessageError::NotZero));
    }

    #[test]
    fn a_reason_is_cut_where_it_is_too_long() {
        let reply = Reply::to(&Request::new(ASK_ENTER, 1)).refused(1, &"ü".repeat(60));
        assert_eq!(crate::text(&reply.text), "ü".repeat(43));
        assert_eq!(Reply::decode(reply.as_bytes()), Ok(reply));
    }
}
