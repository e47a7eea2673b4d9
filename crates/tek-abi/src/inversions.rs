// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waits of Fast threads for others, in the thread information table.
use crate::layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where the inversions begin in a table file.
pub const INVERSIONS_OFFSET: u32 = 1024;
/// Inversions that a table has room for.
pub const MAX_INVERSIONS: u32 = 16;
/// Where the threads begin that are held up.
pub const HELD_UP_OFFSET: u32 = 3072;
/// Threads that are held up for which a table has room.
pub const MAX_HELD_UP: u32 = 16;

/// A place where Fast threads waited for threads that were not Fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Inversion {
    /// Even: stable; odd: being written.
    pub seq: u32,
    /// [`WAITS_MUTEX`](crate::WAITS_MUTEX) or another kind of wait that has a holder;
    /// [`WAITS_NO`](crate::WAITS_NO): it is free.
    pub kind: u32,
    /// Address of the lock, for a condition variable that of the mutex; 0 for a join.
    pub object: u64,
    /// Where the call that waited returned to.
    pub call: u64,
    /// How often a Fast thread waited here.
    pub waits: u64,
    /// And for how long in all, in ns.
    pub waited_ns: u64,
    /// The longest of these waits.
    pub wait_ns: u64,
    /// Time that its holder was lifted meanwhile.
    pub lifted_ns: u64,
    /// CPU time of the holder in that time.
    pub lifted_cpu_ns: u64,
    /// Estimated wait without the lift; 0: not known.
    pub cost_ns: u64,
    /// Where the call that unlocked returned to; for a join the holder's function; 0: not known.
    pub release: u64,
    /// The thread that waited.
    pub waiter_tid: u32,
    /// The thread that held the lock, or was joined.
    pub holder_tid: u32,
    /// NUL-terminated.
    pub waiter_name: [u8; 16],
    /// NUL-terminated.
    pub holder_name: [u8; 16],
}
layout!(Inversion, "tek_inversion", 120, {
    seq: 0, kind: 4, object: 8, call: 16, waits: 24, waited_ns: 32, wait_ns: 40, lifted_ns: 48,
    lifted_cpu_ns: 56, cost_ns: 64, release: 72, waiter_tid: 80, holder_tid: 84, waiter_name: 88,
    holder_name: 104,
});

/// In [`HeldUp::kind`]: the waits that begin with this one, each by the holder, form a circle.
pub const HELD_UP_DEADLOCK: u32 = 0x100;

/// A Fast thread that waits at present for one that is not Fast, or a thread of any kind that waits
/// in a deadlock for which a Fast thread waits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HeldUp {
    /// Even: stable; odd: being written.
    pub seq: u32,
    /// The thread that waits; 0: the slot is free.
    pub tid: u32,
    /// The thread that held the lock first, or is joined; in a deadlock: now.
    pub holder: u32,
    /// As in [`Inversion`]; so are the next two. [`HELD_UP_DEADLOCK`].
    pub kind: u32,
    /// The lock.
    pub object: u64,
    /// The call.
    pub call: u64,
    /// CLOCK_BOOTTIME of its process when the wait began, in ns.
    pub since_ns: u64,
}
layout!(HeldUp, "tek_held_up", 40, {
    seq: 0, tid: 4, holder: 8, kind: 12, object: 16, call: 24, since_ns: 32,
});
