// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event file of a run.
use crate::layout;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "TEKV", little-endian.
pub const EVENT_MAGIC: u32 = 0x564b_4554;
/// The Fast Region was refused; `error` has the reason, and so has `text` after a request to tekd.
pub const EVENT_REFUSED: u16 = 1;
/// A thread used up its budget: `value[0]` ns in `value[1]` ns.
pub const EVENT_OVERRAN: u16 = 2;
/// TEK cannot run inside `program`; `text` has the reason.
pub const EVENT_NOT_COVERED: u16 = 3;
/// A thread that was Fast has ended: `value` is time in the region in ns, stays, context switches
/// while alive, CPU time in ns; `error` is how often the guard sent it back.
pub const EVENT_SUMMARY: u16 = 4;
/// TEK does not understand an environment variable; `text` names it.
pub const EVENT_BAD_OPTION: u16 = 5;
/// A thread's stack is nearly used up: `value[0]` bytes certainly, `value[1]` at most, of
/// `value[2]`; `text` is its role.
pub const EVENT_STACK_HIGH: u16 = 6;
/// A thread ran out of its stack of `value[0]` bytes, at the address `value[1]`; `error` is 1 if
/// TEK chose that size; `text` is its role.
pub const EVENT_OVERFLOW: u16 = 7;
/// A frame of the same thread's backtrace: `value[0]` is its number, from 1 for the innermost, 0
/// for the function that the thread runs. `value[1]` is the address in the file `text`,
/// `value[2]` the same in the process. `value[3]` is the number of frames left out behind it: they
/// repeat those before it, or are neither innermost nor outermost.
pub const EVENT_FRAME: u16 = 8;
/// tekd did not put a thread into the group `value[0]`; `error` and `text` have the reason.
pub const EVENT_NOT_PLACED: u16 = 9;
/// A process that has locks of kind auto ends: they changed `value[0]` times from spinning to
/// sleeping and `value[1]` times back.
pub const EVENT_LOCKS: u16 = 10;
/// One of these locks: `value[0]` and `value[1]` as there; `value[2]` its address in the file that
/// `text` names, `value[3]` the same in the process. Without `text` it lies in no file.
pub const EVENT_LOCK: u16 = 11;
/// A process ends in which Fast threads waited for others: `value` is how often, and for how long;
/// how often threads were lifted, and for how long.
pub const EVENT_INVERSIONS: u16 = 12;
/// One of its inversions: `tid` and `thread` are the waiter's; `error` is its kind, `WAITS_*`;
/// `value` is the number of waits, their time, the longest one, and its estimated cost.
pub const EVENT_INVERSION: u16 = 13;
/// Of the inversion before it: `tid` and `thread` are the holder's; `value[0]` is the time that it
/// was lifted, `value[1]` its CPU time meanwhile.
pub const EVENT_HOLDER: u16 = 14;
/// Likewise: `error` says what is there, `AT_*`; `value[0]` is the address in the file `text`,
/// `value[1]` the same in the process.
pub const EVENT_INVERSION_PLACE: u16 = 15;
/// [`EVENT_INVERSION_PLACE`]: where the call that waited returned to.
pub const AT_CALL: i32 = 0;
/// [`EVENT_INVERSION_PLACE`]: where the call that unlocked returned to.
pub const AT_RELEASE: i32 = 1;
/// [`EVENT_INVERSION_PLACE`]: the lock.
pub const AT_OBJECT: i32 = 2;

/// One event, as it lies in the event file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Event {
    /// [`EVENT_MAGIC`].
    pub magic: u32,
    /// Size of this struct.
    pub bytes: u16,
    /// `EVENT_*`.
    pub kind: u16,
    /// Process that wrote it.
    pub pid: u32,
    /// Thread that it is about.
    pub tid: u32,
    /// CLOCK_REALTIME, in ns.
    pub time_ns: u64,
    /// errno value; 0: none.
    pub error: i32,
    /// SCHED_TEK priority (nice).
    pub priority: i32,
    /// Depends on the kind.
    pub value: [u64; 4],
    /// Thread name, NUL-terminated.
    pub thread: [u8; 16],
    /// Program name or path, NUL-terminated, shortened at the front.
    pub program: [u8; 64],
    /// One line, NUL-terminated.
    pub text: [u8; 112],
}
layout!(Event, "tek_event", 256, {
    magic: 0, bytes: 4, kind: 6, pid: 8, tid: 12, time_ns: 16, error: 24, priority: 28, value: 32,
    thread: 64, program: 80, text: 144,
});

/// Why bytes are not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventError {
    /// Not 256 bytes.
    Length(usize),
    /// Does not begin with [`EVENT_MAGIC`].
    Magic(u32),
    /// States another size.
    Size(u16),
    /// Not one of `EVENT_*`.
    Kind(u16),
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "an event has 256 bytes, not {length}"),
            Self::Magic(magic) => write!(f, "no event begins with {magic:#010x}"),
            Self::Size(size) => write!(f, "an event of {size} bytes is of another version of TEK"),
            Self::Kind(kind) => write!(f, "event kind {kind} is not known"),
        }
    }
}

impl std::error::Error for EventError {}

impl Event {
    /// Size of an event in the file.
    pub const BYTES: usize = size_of::<Self>();

    /// Takes an event from its bytes in the event file.
    pub fn decode(bytes: &[u8]) -> Result<Self, EventError> {
        let event = Self::read_from_bytes(bytes).map_err(|_| EventError::Length(bytes.len()))?;
        if event.magic != EVENT_MAGIC {
            return Err(EventError::Magic(event.magic));
        }
        if usize::from(event.bytes) != Self::BYTES {
            return Err(EventError::Size(event.bytes));
        }
        if !(EVENT_REFUSED..=EVENT_INVERSION_PLACE).contains(&event.kind) {
            return Err(EventError::Kind(event.kind));
        }
        Ok(event)
    }

    /// An event of this kind about no thread: the start for tests and writers.
    pub fn blank(kind: u16) -> Self {
        Self {
            magic: EVENT_MAGIC,
            bytes: Self::BYTES as u16,
            kind,
            pid: 0,
            tid: 0,
            time_ns: 0,
            error: 0,
            priority: 0,
            value: [0; 4],
            thread: [0; 16],
            program: [0; 64],
            text: [0; 112],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_its_way_through_bytes() {
        let mut event = Event::blank(EVENT_OVERRAN);
        event.value = [1, 2, 3, u64::MAX];
        event.thread[..5].copy_from_slice(b"touch");
        assert_eq!(Event::decode(event.as_bytes()), Ok(event));
    }

    #[test]
    fn nonsense_is_refused_and_the_reason_given() {
        let good = Event::blank(EVENT_SUMMARY);
        assert_eq!(Event::decode(&good.as_bytes()[..255]), Err(EventError::Length(255)));
        assert_eq!(Event::decode(&[0; 256]), Err(EventError::Magic(0)));
        assert_eq!(
            Event::decode(Event { bytes: 300, ..good }.as_bytes()),
            Err(EventError::Size(300))
        );
        assert_eq!(Event::decode(Event::blank(16).as_bytes()), Err(EventError::Kind(16)));
        assert_eq!(Event::decode(Event::blank(0).as_bytes()), Err(EventError::Kind(0)));
    }
}
