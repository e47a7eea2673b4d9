// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of user-level threads, `abi/tek_trace.h`.
use crate::layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the layout.
pub const TRACE_VERSION: u32 = 1;
/// "TEKTRACE", little-endian.
pub const TRACE_MAGIC: u64 = 0x4543_4152_544b_4554;
/// "TEKB", little-endian.
pub const TRACE_BLOCK_MAGIC: u32 = 0x424b_4554;
/// Where the blocks begin.
pub const TRACE_HEADER_BYTES: u32 = 65536;
/// Size of a block.
pub const TRACE_BLOCK_BYTES: u32 = 1_048_576;
/// The worker number of a block with records of threads that are on no worker.
pub const TRACE_NO_WORKER: u32 = 0xffff_ffff;
/// `thread` left, for `reason`, and `other` runs; 0: no thread.
pub const TRACE_SWITCH: u8 = 1;
/// `thread` can run, because of `other`; 0: no thread, its time has come.
pub const TRACE_READY: u8 = 2;
/// `other`: 8 bytes of the name of `thread`, from 8 x `reason` on.
pub const TRACE_NAME: u8 = 3;
/// The same, for an object that threads wait for: [`TRACE_WAITS`] + `thread`.
pub const TRACE_TEXT: u8 = 4;
/// No thread left: the worker had nothing to do.
pub const TRACE_IDLE: u8 = 0;
/// It yielded to other threads.
pub const TRACE_YIELDED: u8 = 1;
/// Its quantum was over, or a thread with precedence is ready.
pub const TRACE_PREEMPTED: u8 = 2;
/// It has ended.
pub const TRACE_ENDED: u8 = 3;
/// In the kernel: its worker was given to another kernel thread.
pub const TRACE_HELD_UP: u8 = 4;
/// It waits for an object; a higher value: for the one with that text.
pub const TRACE_WAITS: u8 = 8;
/// Most bytes of a text; a name has 16.
pub const TRACE_TEXT_BYTES: u32 = 32;

/// The first bytes of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TraceHeader {
    /// [`TRACE_MAGIC`].
    pub magic: u64,
    /// [`TRACE_VERSION`].
    pub version: u32,
    /// 0.
    pub reserved: u32,
    /// Blocks that were given to processes.
    pub blocks: u64,
}
layout!(TraceHeader, "tek_trace_header", 24, { magic: 0, version: 8, reserved: 12, blocks: 16 });

/// The first bytes of a block: records of one worker of one process follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TraceBlock {
    /// [`TRACE_BLOCK_MAGIC`], written last.
    pub magic: u32,
    /// Its worker's number, or [`TRACE_NO_WORKER`].
    pub worker: u32,
    /// Its process.
    pub pid: u32,
    /// Number among the worker's blocks, from 0.
    pub sequence: u32,
    /// When the engine started: with `pid` it identifies the engine.
    pub start_ns: u64,
    /// Records of the worker that there was no room for, from its first block on.
    pub lost: u64,
    /// Name of the program, NUL-terminated.
    pub program: [u8; 32],
}
layout!(TraceBlock, "tek_trace_block", 64, {
    magic: 0, worker: 4, pid: 8, sequence: 12, start_ns: 16, lost: 24, program: 32,
});

/// Something that a worker did.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct TraceRecord {
    /// CLOCK_MONOTONIC; 0: there is no record here.
    pub time_ns: u64,
    /// Id of a user-level thread, or a value that depends on `kind`.
    pub thread: u64,
    /// The same.
    pub other: u64,
    /// The kernel thread that wrote it; 0: not known.
    pub tid: u32,
    /// 0.
    pub reserved: u16,
    /// `TRACE_SWITCH` to `TRACE_TEXT`.
    pub kind: u8,
    /// `TRACE_IDLE` and so on, or a value that depends on `kind`.
    pub reason: u8,
}
layout!(TraceRecord, "tek_trace_record", 32, {
    time_ns: 0, thread: 8, other: 16, tid: 24, reserved: 28, kind: 30, reason: 31,
});

impl TraceRecord {
    /// Size of a record in the file.
    pub const BYTES: usize = size_of::<Self>();
}
