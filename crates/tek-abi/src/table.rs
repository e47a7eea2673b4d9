// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread information table in shared memory.
use crate::layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the structs and constants; a reader of another version must not guess.
pub const ABI_VERSION: u32 = 1;
/// The policy number of SCHED_TEK, which no kernel accepts.
pub const SCHED_POLICY: i32 = 84;

/// On the screen; where every thread starts.
pub const GROUP_NORMAL: u8 = 0;
/// On the screen and interacting with the user.
pub const GROUP_URGENT: u8 = 1;
/// Daemons.
pub const GROUP_SERVICE: u8 = 2;
/// At work, invisible to the user.
pub const GROUP_BACKGROUND: u8 = 3;

/// Normal mode as far as the process knows.
pub const REGION_NONE: u8 = 0;
/// Runs before everything fair on the device.
pub const REGION_FAST: u8 = 1;

/// Where the group begins in [`Record::place`].
pub const PLACE_GROUP_SHIFT: u32 = 0;
/// The group's bits in [`Record::place`].
pub const PLACE_GROUP_MASK: u8 = 0x07;
/// Where the region begins in [`Record::place`].
pub const PLACE_REGION_SHIFT: u32 = 3;
/// The region's bits in [`Record::place`].
pub const PLACE_REGION_MASK: u8 = 0x18;
/// Where the stack zone begins in [`Record::place`].
pub const PLACE_ZONE_SHIFT: u32 = 5;
/// The stack zone's bits in [`Record::place`].
pub const PLACE_ZONE_MASK: u8 = 0x60;

/// Marked time-critical: follows a request of its group.
pub const FLAG_MARKED: u8 = 0x01;
/// Its name was set for this very thread, not inherited.
pub const FLAG_NAMED: u8 = 0x02;
/// The process's first thread.
pub const FLAG_MAIN: u8 = 0x04;
/// Came by no door of TEK's; found later.
pub const FLAG_ADOPTED: u8 = 0x08;
/// The guard sent it back at least once.
pub const FLAG_OVERRAN: u8 = 0x10;

/// The thread had the kernel's reset-on-fork flag.
pub const BASE_RESET_ON_FORK: u8 = 0x01;
/// `base_*` hold what is restored when the thread leaves the Fast Region.
pub const BASE_SAVED: u8 = 0x02;

/// "TEKTABLE", little-endian.
pub const TABLE_MAGIC: u64 = 0x454c_4241_544b_4554;
/// Slots in a chunk.
pub const CHUNK_SLOTS: u32 = 512;
/// Chunks that a table may grow to.
pub const MAX_CHUNKS: u32 = 64;
/// Slots that a table may grow to.
pub const MAX_SLOTS: u32 = CHUNK_SLOTS * MAX_CHUNKS;
/// Bytes before the first chunk.
pub const TABLE_HEADER_BYTES: u32 = 65536;
/// Bytes of a chunk.
pub const TABLE_CHUNK_BYTES: u32 = 65536;
/// Where a chunk's side records begin in it.
pub const CHUNK_SIDE_OFFSET: u32 = 20480;

/// One thread (tek-2020, IV-C).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Record {
    /// Even: stable; odd: being written.
    pub seq: u32,
    /// Kernel thread id; 0: the slot is free.
    pub tid: u32,
    /// CLOCK_BOOTTIME when the thread began or was found, in ns.
    pub start_ns: u64,
    /// Address in the process; 0: not known.
    pub start_routine: u64,
    /// Size of its stack, in pages; 0: not known.
    pub stack_pages: u32,
    /// Stack certainly used, in bytes; 0: not measured.
    pub peak_bytes: u32,
    /// Stack used at most, in pages; 0: not measured.
    pub bound_pages: u16,
    /// Index of its role; 0: none.
    pub role: u16,
    /// Policy asked for: SCHED_*, or [`SCHED_POLICY`].
    pub policy: u8,
    /// Priority asked for: nice value (fair, SCHED_TEK) or real-time priority.
    pub priority: i8,
    /// Group, region and zone: `PLACE_*`.
    pub place: u8,
    /// `FLAG_*`.
    pub flags: u8,
}
layout!(Record, "tek_record", 40, {
    seq: 0, tid: 4, start_ns: 8, start_routine: 16, stack_pages: 24, peak_bytes: 28,
    bound_pages: 32, role: 34, policy: 36, priority: 37, place: 38, flags: 39,
});

impl Record {
    /// The thread's group: `GROUP_*`.
    pub fn group(&self) -> u8 {
        (self.place & PLACE_GROUP_MASK) >> PLACE_GROUP_SHIFT
    }

    /// The thread's region: `REGION_*`.
    pub fn region(&self) -> u8 {
        (self.place & PLACE_REGION_MASK) >> PLACE_REGION_SHIFT
    }

    /// The thread's stack zone.
    pub fn zone(&self) -> u8 {
        (self.place & PLACE_ZONE_MASK) >> PLACE_ZONE_SHIFT
    }

    /// Whether the thread is in the Fast Region.
    pub fn is_fast(&self) -> bool {
        self.region() == REGION_FAST
    }
}

/// What a record has no room for; guarded by the `seq` of the record of the same slot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Side {
    /// The thread's name, NUL-terminated; valid with [`FLAG_NAMED`].
    pub name: [u8; 16],
    /// Time spent in the Fast Region by finished stays, in ns.
    pub fast_ns: u64,
    /// CLOCK_BOOTTIME when the present stay began, in ns; 0: not there now.
    pub fast_since_ns: u64,
    /// How often it entered the Fast Region.
    pub stays: u32,
    /// How often the guard sent it back.
    pub overruns: u32,
    /// Kernel policy to restore.
    pub base_policy: u8,
    /// Real-time priority to restore.
    pub base_priority: u8,
    /// `BASE_*`.
    pub base_flags: u8,
    /// Real-time priority in force while Fast; 0: none of TEK's.
    pub rt_priority: u8,
    /// Zero.
    pub reserved: [u8; 20],
}
layout!(Side, "tek_side", 64, {
    name: 0, fast_ns: 16, fast_since_ns: 24, stays: 32, overruns: 36, base_policy: 40,
    base_priority: 41, base_flags: 42, rt_priority: 43, reserved: 44,
});

/// The first bytes of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TableHeader {
    /// [`TABLE_MAGIC`], written last.
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub version: u32,
    /// Process that writes it.
    pub pid: u32,
    /// The process's start time as in /proc/PID/stat, field 22, in clock ticks.
    pub start_ticks: u64,
    /// Size of [`Record`].
    pub record_bytes: u32,
    /// Size of [`Side`].
    pub side_bytes: u32,
    /// Size of the pages that the records count in.
    pub page_bytes: u32,
    /// Chunks that the file has room for: all of them from the start, for it is made sparse.
    pub chunks: u32,
    /// Slots ever used (only grows).
    pub slots: u32,
    /// Slots in use now.
    pub threads: u32,
    /// Members of the Fast Region now.
    pub fast: u32,
    /// Threads that found no slot.
    pub lost: u32,
    /// The program's short name, NUL-terminated.
    pub program: [u8; 64],
}
layout!(TableHeader, "tek_table_header", 120, {
    magic: 0, version: 8, pid: 12, start_ticks: 16, record_bytes: 24, side_bytes: 28,
    page_bytes: 32, chunks: 36, slots: 40, threads: 44, fast: 48, lost: 52, program: 56,
});
