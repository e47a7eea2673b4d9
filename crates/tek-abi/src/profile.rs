// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of a program's threads goes, `abi/tek_profile.h`.
use crate::layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the layout.
pub const PROFILE_VERSION: u32 = 3;
/// "\0TEKPROF", little-endian.
pub const PROFILE_MAGIC: u64 = 0x464f_5250_4b45_5400;
/// "TKBP", little-endian.
pub const PROFILE_BLOCK_MAGIC: u32 = 0x5042_4b54;
/// Where the modules begin.
pub const PROFILE_MODULES_OFFSET: u32 = 65536;
/// Number of modules that there is room for.
pub const PROFILE_MAX_MODULES: u32 = 128;
/// Where the process marks each thread that has memory for its part of the file.
pub const PROFILE_THERE_OFFSET: u32 = 4096;
/// Where the threads begin.
pub const PROFILE_THREADS_OFFSET: u32 = 131_072;
/// Number of threads that there is room for.
pub const PROFILE_MAX_THREADS: u32 = 4096;
/// Size of a thread's part of the file.
pub const PROFILE_THREAD_BYTES: u32 = 24576;
/// Where its objects begin in a thread's part.
pub const PROFILE_OBJECTS_OFFSET: u32 = 512;
/// Number of objects of a thread that there is room for.
pub const PROFILE_OBJECTS: u32 = 256;
/// Where the blocks begin.
pub const PROFILE_BLOCKS_OFFSET: u32 = 100_794_368;
/// Size of a block.
pub const PROFILE_BLOCK_BYTES: u32 = 16_384;
/// Number of blocks that there is room for.
pub const PROFILE_MAX_BLOCKS: u32 = 4096;
/// CLOCK_MONOTONIC: a tick is a ns.
pub const PROFILE_CLOCK_MONOTONIC: u32 = 1;
/// The processor's counter.
pub const PROFILE_CLOCK_COUNTER: u32 = 2;
/// Calls of this duration or longer may have been interrupted.
pub const PROFILE_LONG_NS: u32 = 100_000;
/// Waiting for other threads.
pub const PROFILE_SYNC: u32 = 1;
/// Calls for files.
pub const PROFILE_FILE: u32 = 2;
/// malloc() and its family.
pub const PROFILE_ALLOC: u32 = 3;
/// Waiting for a time, for events, for other processes.
pub const PROFILE_IDLE: u32 = 4;
/// Number of parts, with 0 for work.
pub const PROFILE_PARTS: u32 = 5;
/// A mutex.
pub const PROFILE_MUTEX: u32 = 1;
/// A spin lock.
pub const PROFILE_SPIN: u32 = 2;
/// A read-write lock, to read.
pub const PROFILE_READ: u32 = 3;
/// A read-write lock, to write.
pub const PROFILE_WRITE: u32 = 4;
/// A condition.
pub const PROFILE_COND: u32 = 5;
/// A barrier.
pub const PROFILE_BARRIER: u32 = 6;
/// A semaphore.
pub const PROFILE_SEMAPHORE: u32 = 7;
/// The end of a thread.
pub const PROFILE_JOIN: u32 = 8;
/// In [`PROFILE_IDLE`].
pub const PROFILE_SLEEP: u32 = 9;

/// The first bytes of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ProfileHeader {
    /// [`PROFILE_MAGIC`], written last.
    pub magic: u64,
    /// [`PROFILE_VERSION`].
    pub version: u32,
    /// `PROFILE_CLOCK_*`.
    pub clock: u32,
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// When counting began.
    pub start_ticks: u64,
    /// The same moment in ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// The same pair, the last that was taken.
    pub last_ticks: u64,
    /// The same pair, the last that was taken.
    pub last_ns: u64,
    /// 0: the process was killed, or still runs.
    pub end_ticks: u64,
    /// Bits 0-15: threads that do not wait; above: the sum of their numbers.
    pub active: u64,
    /// Start of the time with exactly one such thread; 0: there are several, or none.
    pub serial_since: u64,
    /// Threads that were given numbers; may be more than there is room for.
    pub threads: u32,
    /// Blocks that were given numbers; likewise.
    pub blocks: u32,
    /// Modules that are there.
    pub modules: u32,
    /// Ticks between two readings of the clock.
    pub clock_cost: u32,
    /// ns that it took until counting began.
    pub start_cost: u64,
    /// Cost that counting adds to a lock and an unlock, in 1/1024 of ticks.
    pub lock_cost: u64,
    /// Cost that it adds to a call that is only counted, in ticks.
    pub counted_cost: u64,
    /// Cost that it adds to a call that is timed, in ticks.
    pub timed_cost: u64,
    /// Cost that it adds to a call around which the scheduler is queried, in ticks.
    pub scheduler_cost: u64,
    /// Path of the program; only its end if it is too long.
    pub program: [u8; 64],
    /// Threads that are not counted, because there was no room for them.
    pub lost_threads: u32,
    /// 1: another program replaced it, exec(3), unless that fails.
    pub replaced: u32,
}
layout!(ProfileHeader, "tek_profile_header", 208, {
    magic: 0, version: 8, clock: 12, pid: 16, parent: 20, start_ticks: 24, start_ns: 32,
    last_ticks: 40, last_ns: 48, end_ticks: 56, active: 64, serial_since: 72, threads: 80,
    blocks: 84, modules: 88, clock_cost: 92, start_cost: 96, lock_cost: 104, counted_cost: 112,
    timed_cost: 120, scheduler_cost: 128, program: 136, lost_threads: 200, replaced: 204,
});

/// Times and counts of a thread.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ProfileThread {
    /// Its kernel id.
    pub tid: u32,
    /// Number of the thread that created it; 0: not known.
    pub creator: u32,
    /// 0: there is no thread here yet.
    pub begin_ticks: u64,
    /// 0: it was there when the process ended, or still is.
    pub end_ticks: u64,
    /// When its creator asked for it.
    pub created_ticks: u64,
    /// Address of its start routine; 0: the first thread, or not known.
    pub routine: u64,
    /// Argument of the start routine, until it runs.
    pub argument: u64,
    /// As it was last seen.
    pub name: [u8; 16],
    /// The part that it is in, `PROFILE_*`; 0: work.
    pub inside: u32,
    /// Whether it is not counted in the header's `active`.
    pub is_waiting: u32,
    /// When it entered that part; 0: the call is only counted.
    pub since_ticks: u64,
    /// Time spent in each part.
    pub ticks: [u64; 5],
    /// Calls that began.
    pub calls: [u64; 5],
    /// Calls that were timed; for part 0, how often the scheduler was queried.
    pub timed: [u64; 5],
    /// Time while no other thread did anything.
    pub serial_ticks: u64,
    /// The share of `serial_ticks` that each part has.
    pub serial_part: [u64; 5],
    /// Of `ticks`: time in calls of [`PROFILE_LONG_NS`] and more; it may have lost its CPU in them.
    pub long_ticks: [u64; 5],
    /// Locks taken.
    pub locks: u64,
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time waiting for a CPU.
    pub delay_ns: u64,
    /// `run_ns` when counting began.
    pub first_run_ns: u64,
    /// `delay_ns` when counting began.
    pub first_delay_ns: u64,
    /// When both were read last.
    pub scheduler_ticks: u64,
    /// Time in each part around which the scheduler's times were read.
    pub sampled: [u64; 5],
    /// The share of `sampled` that was waiting for a CPU, in ns; not for files.
    pub sampled_delay: [u64; 5],
    /// Waits that there was no room for.
    pub lost_waits: u64,
    /// Acquisitions that are in no object.
    pub lost_objects: u64,
    /// For files: the share of `sampled` that was on a CPU, in ns.
    pub sampled_file_run: u64,
    /// When it last stopped waiting.
    pub active_ticks: u64,
    /// The function that it runs: that of a std::thread, else the start routine.
    pub function: u64,
    /// Its `pthread_t`.
    pub handle: u64,
    /// While it waits in [`PROFILE_SYNC`]: the object.
    pub waits_for: u64,
    /// Where the waiting call returns to.
    pub waits_at: u64,
    /// `PROFILE_MUTEX` and so on; 0: it never waited.
    pub wait_kind: u32,
    /// 0.
    pub reserved: u32,
}
layout!(ProfileThread, "tek_profile_thread", 488, {
    tid: 0, creator: 4, begin_ticks: 8, end_ticks: 16, created_ticks: 24, routine: 32,
    argument: 40, name: 48, inside: 64, is_waiting: 68, since_ticks: 72, ticks: 80, calls: 120,
    timed: 160, serial_ticks: 200, serial_part: 208, long_ticks: 248, locks: 288, run_ns: 296,
    delay_ns: 304, first_run_ns: 312, first_delay_ns: 320, scheduler_ticks: 328, sampled: 336,
    sampled_delay: 376, lost_waits: 416, lost_objects: 424, sampled_file_run: 432,
    active_ticks: 440, function: 448, handle: 456, waits_for: 464, waits_at: 472, wait_kind: 480,
    reserved: 484,
});

/// A lock, barrier, ... as one thread used it at one place of the program.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ProfileObject {
    /// Its address; 0: several, for which there was no room.
    pub object: u64,
    /// Where the call returns to.
    pub site: u64,
    /// `PROFILE_MUTEX` and so on; 0: nothing is here.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// Acquisitions, waits, arrivals.
    pub count: u64,
    /// The part of `count` for which a thread had to wait.
    pub contended: u64,
    /// Time waited for it.
    pub wait_ticks: u64,
    /// The longest wait.
    pub wait_most: u64,
    /// Acquisitions that the measured hold times stand for.
    pub holds: u64,
    /// Total of these hold times.
    pub hold_ticks: u64,
    /// The longest hold time.
    pub hold_most: u64,
}
layout!(ProfileObject, "tek_profile_object", 80, {
    object: 0, site: 8, kind: 16, reserved: 20, count: 24, contended: 32, wait_ticks: 40,
    wait_most: 48, holds: 56, hold_ticks: 64, hold_most: 72,
});

/// The first bytes of a block: waits of one thread follow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ProfileBlock {
    /// [`PROFILE_BLOCK_MAGIC`], written last.
    pub magic: u32,
    /// The thread of these waits.
    pub thread: u32,
    /// Number among the thread's blocks, from 0.
    pub sequence: u32,
    /// Waits that the block holds.
    pub waits: u32,
    /// 0.
    pub reserved: [u64; 6],
}
layout!(ProfileBlock, "tek_profile_block", 64, {
    magic: 0, thread: 4, sequence: 8, waits: 12, reserved: 16,
});

/// One time that a thread waited for another one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ProfileWait {
    /// When it began.
    pub begin_ticks: u64,
    /// When it was over.
    pub end_ticks: u64,
    /// The object that it waited for.
    pub object: u64,
    /// Where the waiting call returns to.
    pub site: u64,
    /// When `waker` let it go on, as far as that is known.
    pub released_ticks: u64,
    /// Total time that the thread had spent in files until then.
    pub file_ticks: u64,
    /// Total time that it had spent in the allocator until then.
    pub alloc_ticks: u64,
    /// Number of a thread; 0: not known.
    pub waker: u32,
    /// `PROFILE_MUTEX` and so on.
    pub kind: u32,
}
layout!(ProfileWait, "tek_profile_wait", 64, {
    begin_ticks: 0, end_ticks: 8, object: 16, site: 24, released_ticks: 32, file_ticks: 40,
    alloc_ticks: 48, waker: 56, kind: 60,
});
