// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread information table in shared memory.
use crate::layout;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Version of the structs and constants; a reader of another version must not guess.
pub const ABI_VERSION: u32 = 6;
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

/// Zone of a stack that was not measured.
pub const ZONE_NONE: u8 = 0;
/// Most of it is wasted.
pub const ZONE_LOW: u8 = 1;
/// As it should be.
pub const ZONE_NORMAL: u8 = 2;
/// Near its end.
pub const ZONE_HIGH: u8 = 3;

/// Marked time-critical: follows a request of its group.
pub const FLAG_MARKED: u8 = 0x01;
/// Its name was set for this very thread, not inherited.
pub const FLAG_NAMED: u8 = 0x02;
/// The process's first thread.
pub const FLAG_MAIN: u8 = 0x04;
/// Created without a call that TEK interposes; found later.
pub const FLAG_ADOPTED: u8 = 0x08;
/// The budget guard sent it back at least once.
pub const FLAG_OVERRAN: u8 = 0x10;
/// It was given the policy SCHED_TEK ([`WHY_POLICY`]).
pub const FLAG_ASKED: u8 = 0x40;
/// TEK notices its end late: it may be gone.
pub const FLAG_UNWATCHED: u8 = 0x20;
/// A user-level thread, which the kernel does not know.
pub const FLAG_USER: u8 = 0x80;

/// The thread had the kernel's reset-on-fork flag.
pub const BASE_RESET_ON_FORK: u8 = 0x01;
/// `base_*` hold what is restored when the thread leaves the Fast Region.
pub const BASE_SAVED: u8 = 0x02;

/// It was given the policy SCHED_TEK.
pub const WHY_POLICY: u8 = 0x01;
/// It is between tek_critical_enter() and _leave().
pub const WHY_ENTER: u8 = 0x02;
/// tek_critical_for() has not run out.
pub const WHY_TIMED: u8 = 0x04;
/// A rule names it.
pub const WHY_RULE: u8 = 0x08;
/// It is marked, and a thread of its group asks.
pub const WHY_FOLLOW: u8 = 0x10;
/// TEK_WHY_LIFT: it holds what a thread with another of these reasons waits for.
pub const WHY_LIFT: u8 = 0x20;

/// Bytes of a role, with its NUL.
pub const ROLE_BYTES: usize = 64;
/// TEK chose the size of the stack.
pub const STACK_TUNED: u8 = 0x01;
/// Its program chose it.
pub const STACK_EXPLICIT: u8 = 0x02;
/// Its program gave the memory: pthread_attr_setstack(3).
pub const STACK_OWN: u8 = 0x04;
/// Its peak is exact.
pub const STACK_EXACT: u8 = 0x08;
/// Its bound may be an earlier thread's, or the kernel's.
pub const STACK_UNCLEAN: u8 = 0x10;
/// It needed its reserve.
pub const STACK_GROWN: u8 = 0x20;
/// It ran into its guard page.
pub const STACK_OVERFLOWED: u8 = 0x40;

/// A kind without a label.
pub const LABEL_NONE: u8 = 0;
/// Its label is its threads' name, each run of digits as one `#`.
pub const LABEL_NAME: u8 = 1;
/// Its label is its threads' role.
pub const LABEL_ROLE: u8 = 2;

/// Stacks are left alone.
pub const STACK_MODE_OFF: u8 = 0;
/// Stacks are measured.
pub const STACK_MODE_REPORT: u8 = 1;
/// And fitted.
pub const STACK_MODE_AUTO: u8 = 2;
/// To the page.
pub const STACK_MODE_TIGHT: u8 = 3;

/// Where the kinds begin in a table file.
pub const KINDS_OFFSET: u32 = 36864;
/// Kinds that a table has room for.
pub const MAX_KINDS: u32 = 512;
/// Bits that [`TableHeader::image`] leaves out.
pub const IMAGE_SHIFT: u32 = 4;
/// Where the workers begin in a table file.
pub const WORKERS_OFFSET: u32 = 102400;
/// Workers that a table has room for.
pub const MAX_WORKERS: u32 = 256;
/// Where the modules begin in a table file.
pub const MODULES_OFFSET: u32 = 4096;
/// Modules that a table has room for.
pub const MAX_MODULES: u32 = 64;

/// "TEKTABLE", little-endian.
pub const TABLE_MAGIC: u64 = 0x454c_4241_544b_4554;
/// Slots in a chunk.
pub const CHUNK_SLOTS: u32 = 512;
/// Chunks that a table may grow to.
pub const MAX_CHUNKS: u32 = 64;
/// Slots that a table may grow to.
pub const MAX_SLOTS: u32 = CHUNK_SLOTS * MAX_CHUNKS;
/// Bytes before the first chunk.
pub const TABLE_HEADER_BYTES: u32 = 131072;
/// Bytes of a chunk.
pub const TABLE_CHUNK_BYTES: u32 = 131072;
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
    /// Kernel thread id, or with [`FLAG_USER`] its number in its process; 0: the slot is free.
    pub tid: u32,
    /// CLOCK_BOOTTIME of its process when the thread began or was found, in ns.
    pub start_ns: u64,
    /// Address in the process; 0: not known.
    pub start_routine: u64,
    /// Size of its stack, in pages; 0: not known.
    pub stack_pages: u32,
    /// Stack certainly used, in bytes; 0: not measured.
    pub peak_bytes: u32,
    /// Stack used at most, in pages; 0: not measured.
    pub bound_pages: u16,
    /// Length of its role, without the NUL; 0: none.
    pub role_bytes: u16,
    /// Policy as TEK last saw it set: SCHED_*, or [`SCHED_POLICY`] while it is Fast.
    pub policy: u8,
    /// With it: nice value (fair, SCHED_TEK) or real-time priority.
    pub priority: i8,
    /// Group, region and zone: `PLACE_*`.
    pub place: u8,
    /// `FLAG_*`.
    pub flags: u8,
}
layout!(Record, "tek_record", 40, {
    seq: 0, tid: 4, start_ns: 8, start_routine: 16, stack_pages: 24, peak_bytes: 28,
    bound_pages: 32, role_bytes: 34, policy: 36, priority: 37, place: 38, flags: 39,
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

    /// Whether it is the record of a user-level thread.
    pub fn is_user(&self) -> bool {
        self.flags & FLAG_USER != 0
    }

    /// Whether the thread is in the Fast Region.
    pub fn is_fast(&self) -> bool {
        self.region() == REGION_FAST
    }
}

/// [`Side::waits`]: it runs, or is ready to.
pub const WAITS_NO: u8 = 0;
/// [`Side::waits`]: for something that has no number here.
pub const WAITS_OTHER: u8 = 1;
/// [`Side::waits`]: for a mutex.
pub const WAITS_MUTEX: u8 = 2;
/// [`Side::waits`]: for a signal of a condition variable.
pub const WAITS_COND: u8 = 3;
/// [`Side::waits`]: for a read-write lock.
pub const WAITS_RWLOCK: u8 = 4;
/// [`Side::waits`]: for the rest of its round at a barrier.
pub const WAITS_BARRIER: u8 = 5;
/// [`Side::waits`]: to take one.
pub const WAITS_SEMAPHORE: u8 = 6;
/// [`Side::waits`]: until another thread has run a routine that runs once.
pub const WAITS_ONCE: u8 = 7;
/// [`Side::waits`]: for the end of a thread.
pub const WAITS_JOIN: u8 = 8;
/// [`Side::waits`]: for a file or a socket, by whatever call.
pub const WAITS_FILE: u8 = 9;
/// [`Side::waits`]: for a time.
pub const WAITS_SLEEP: u8 = 10;
/// [`Side::waits`]: for a signal.
pub const WAITS_SIGNAL: u8 = 11;
/// [`Side::waits`]: a moment, then it tries again: nothing reports the end of its wait.
pub const WAITS_PAUSE: u8 = 12;

/// The fields that a record has no room for; guarded by the `seq` of the record of the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Side {
    /// The thread's name, NUL-terminated; valid with [`FLAG_NAMED`].
    pub name: [u8; 16],
    /// Time spent in the Fast Region by finished stays, in ns.
    pub fast_ns: u64,
    /// CLOCK_BOOTTIME of its process when the present stay began, in ns; 0: not there now.
    pub fast_since_ns: u64,
    /// How often it entered the Fast Region.
    pub stays: u32,
    /// How often the budget guard sent it back.
    pub overruns: u32,
    /// Kernel policy to restore.
    pub base_policy: u8,
    /// Real-time priority to restore.
    pub base_priority: u8,
    /// `BASE_*`.
    pub base_flags: u8,
    /// Real-time priority in force while Fast; 0: none of TEK's.
    pub rt_priority: u8,
    /// Thread that created it, as in [`Record::tid`]; 0: not known.
    pub creator_tid: u32,
    /// Address in the process that its `pthread_create` returned to; 0: not known.
    pub call_site: u64,
    /// `WHY_*`.
    pub reasons: u8,
    /// Number, from 1, of the rule of TEK_RULES behind [`WHY_RULE`]; 0: TEK_CRITICAL.
    pub rule: u8,
    /// As the record's policy and priority if it were not Fast.
    pub own_policy: u8,
    /// With it.
    pub own_priority: i8,
    /// Number, from 1, of its [`Kind`]; 0: none.
    pub kind: u16,
    /// `STACK_*`.
    pub stack_flags: u8,
    /// As `rt_priority`, from the end of its time on; 0: none.
    pub later_rt_priority: u8,
    /// Address behind the top of its stack; 0: not known.
    pub stack_end: u64,
    /// The thread's role: UTF-8, NUL-terminated; valid if [`Record::role_bytes`] is not 0.
    pub role: [u8; ROLE_BYTES],
    /// User-level thread: number, from 1, of the [`WorkerPlace`] that it ran on last; 0: none yet.
    /// Written regardless of `seq`.
    pub worker: u16,
    /// User-level thread: the kind of object that it waits for, `WAITS_*`. Likewise.
    pub waits: u8,
    /// Zero.
    pub reserved2: u8,
    /// The thread that waits for what it holds, or for its end (`WHY_LIFT`); 0: none.
    pub lifted_for: u32,
}
layout!(Side, "tek_side", 144, {
    name: 0, fast_ns: 16, fast_since_ns: 24, stays: 32, overruns: 36, base_policy: 40,
    base_priority: 41, base_flags: 42, rt_priority: 43, creator_tid: 44, call_site: 48,
    reasons: 56, rule: 57, own_policy: 58, own_priority: 59, kind: 60,
    stack_flags: 62, later_rt_priority: 63, stack_end: 64, role: 72, worker: 136, waits: 138,
    reserved2: 139, lifted_for: 140,
});

impl Default for Side {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

/// A file that start routines lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Module {
    /// First address that it takes in the process.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// Address in the process minus address in its file's ELF headers.
    pub bias: u64,
    /// Its NT_GNU_BUILD_ID note, the first bytes.
    pub build_id: [u8; 20],
    /// Number of valid bytes in `build_id`.
    pub build_id_bytes: u32,
    /// NUL-terminated; empty where it does not fit.
    pub path: [u8; 464],
}
layout!(Module, "tek_module", 512, {
    start: 0, end: 8, bias: 16, build_id: 24, build_id_bytes: 44, path: 48,
});

/// A kind of thread, and what the stacks of its threads were like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Kind {
    /// Even: stable; odd: being written.
    pub seq: u32,
    /// Threads of it so far: those that were measured, and for each the threads of a settled kind
    /// since the one before.
    pub threads: u32,
    /// As [`Record::start_routine`].
    pub function: u64,
    /// As [`Side::call_site`].
    pub call_site: u64,
    /// The largest stack that one of them had, in bytes.
    pub stack_bytes: u64,
    /// The largest stack that one of them ran out of, in bytes; 0: none.
    pub overflow_bytes: u64,
    /// Most stack that one of them certainly used, in bytes.
    pub peak_bytes: u32,
    /// Most stack that one of them can have used, in bytes; 0: not known.
    pub bound_bytes: u32,
    /// How often one ran into its guard page.
    pub overflows: u32,
    /// `STACK_*` of any of them.
    pub stack_flags: u8,
    /// `LABEL_*`.
    pub label_is: u8,
    /// Zero.
    pub reserved: [u8; 10],
    /// NUL-terminated.
    pub label: [u8; 64],
}
layout!(Kind, "tek_kind", 128, {
    seq: 0, threads: 4, function: 8, call_site: 16, stack_bytes: 24, overflow_bytes: 32,
    peak_bytes: 40, bound_bytes: 44, overflows: 48, stack_flags: 52, label_is: 53, reserved: 54,
    label: 64,
});

/// A worker of the engine of user-level threads.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct WorkerPlace {
    /// Kernel thread that carries it, now or until a moment ago; 0: none yet.
    pub tid: u32,
    /// Zero.
    pub reserved: u32,
}
layout!(WorkerPlace, "tek_worker_place", 8, { tid: 0, reserved: 4 });

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
    /// The process's start time (/proc/PID/stat, field 22) in CLOCK_BOOTTIME of the initial time
    /// namespace, up to a clock tick too early; 0: not known.
    pub start_ns: u64,
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
    /// Inode number of /proc/PID/ns/pid; 0: not known.
    pub pid_namespace: u64,
    /// [`Module`]s that are there (only grows).
    pub modules: u32,
    /// [`Kind`]s that are there (only grows).
    pub kinds: u32,
    /// Number, from 1, of the module that is the program itself; 0: not listed.
    pub program_module: u32,
    /// `STACK_MODE_*`.
    pub stack_mode: u8,
    /// Low Zone: stacks of which less than this percentage is used.
    pub low_percent: u8,
    /// High Zone: stacks of which more than this percentage is used.
    pub high_percent: u8,
    /// Zero.
    pub reserved: u8,
    /// [`WorkerPlace`]s that are there; 0: the process has no user-level threads.
    pub workers: u32,
    /// Start of the process's first stack, field 28 of its stat, without the lowest
    /// [`IMAGE_SHIFT`] bits and the bits that exceed the field; 0: not known.
    pub image: u32,
    /// Offset of this table's CLOCK_BOOTTIME from that of the initial time namespace, in ns.
    pub boot_offset_ns: i64,
    /// How often a thread was lifted so far.
    pub lifts: u64,
    /// For how long, lifts that have ended, in ns.
    pub lifted_ns: u64,
    /// How often a Fast thread waited for one that was not Fast, or was lifted.
    pub inversions: u64,
    /// For how long, waits that have ended, in ns.
    pub inverted_ns: u64,
}
layout!(TableHeader, "tek_table_header", 192, {
    magic: 0, version: 8, pid: 12, start_ns: 16, record_bytes: 24, side_bytes: 28,
    page_bytes: 32, chunks: 36, slots: 40, threads: 44, fast: 48, lost: 52, program: 56,
    pid_namespace: 120, modules: 128, kinds: 132, program_module: 136, stack_mode: 140,
    low_percent: 141, high_percent: 142, reserved: 143, workers: 144, image: 148,
    boot_offset_ns: 152, lifts: 160, lifted_ns: 168, inversions: 176, inverted_ns: 184,
});
