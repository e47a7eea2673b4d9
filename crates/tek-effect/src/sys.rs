// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that nix does not have, about threads of whatever process.
//!
//! They are made raw: under libtek the C library's own are TEK's, and musl refuses them.
use crate::limits::Limits;
use crate::rule::Rule;
use crate::step;
use libc::c_long;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use tek_abi::TimeOffsets;

/// The first version of sched_getattr(2)'s struct, which every kernel knows.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Under a fair policy its slice in ns (Linux 6.12; 0: this kernel has none).
    runtime: u64,
    deadline: [u64; 2],
}

const RESET_ON_FORK: u64 = 1;

fn checked(result: c_long) -> io::Result<c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// A descriptor that reports the end of a process, given its first thread.
pub(crate) fn open_pidfd(tid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = checked(unsafe { libc::syscall(libc::SYS_pidfd_open, tid, 0) })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attributes(tid: i32) -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>();
    // SAFETY: the kernel writes at most `size` bytes into `attributes`.
    checked(unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attributes, size, 0) })?;
    Ok(attributes)
}

/// The scheduling of a thread, except the nice value.
pub(crate) fn rule(tid: i32) -> io::Result<Rule> {
    let attributes = attributes(tid)?;
    Ok(Rule {
        policy: attributes.policy,
        priority: attributes.priority,
        reset_on_fork: attributes.flags & RESET_ON_FORK != 0,
    })
}

/// Sets it. sched_setscheduler(2) and not sched_setattr(2): the former keeps the nice value. A fair
/// policy comes with the usual slice: [`give_slice`].
pub(crate) fn set_rule(tid: i32, rule: Rule) -> io::Result<()> {
    let flag = if rule.reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
    let policy = rule.policy as i32 | flag;
    let priority = rule.priority as i32;
    step::here();
    // SAFETY: the kernel reads one int, which is all that struct sched_param is to it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &priority) };
    let done = checked(done);
    step::here();
    done.map(drop)
}

/// The slice of a thread that has a fair policy, in ns.
fn slice_ns(attributes: &Attributes) -> Option<u64> {
    let is_fair = matches!(attributes.policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH);
    (is_fair && attributes.runtime != 0).then_some(attributes.runtime)
}

/// The slice that the kernel gives with a fair policy; `None`: this kernel has none. It is asked
/// for once: it changes with the number of CPUs only.
fn usual_slice_ns() -> Option<u64> {
    static USUAL: OnceLock<Option<u64>> = OnceLock::new();
    let ask = || {
        let usual = Rule { policy: 0, priority: 0, reset_on_fork: true };
        set_rule(0, usual).and_then(|()| attributes(0)).ok().and_then(|has| slice_ns(&has))
    };
    *USUAL.get_or_init(|| thread::spawn(ask).join().ok().flatten())
}

/// The slice that a thread has been given for itself, in ns; `None`: it has the usual one, or a
/// policy without slices.
pub(crate) fn own_slice_ns(tid: i32) -> io::Result<Option<u64>> {
    let slice_ns = slice_ns(&attributes(tid)?);
    Ok(slice_ns.filter(|_| slice_ns != usual_slice_ns()))
}

/// Gives a thread, which has just got a fair policy, the slice that it had. One that it has set for
/// itself meanwhile stays.
pub(crate) fn give_slice(tid: i32, slice_ns: Option<u64>) -> io::Result<()> {
    let Some(runtime) = slice_ns else { return Ok(()) };
    let has = attributes(tid)?;
    if self::slice_ns(&has).is_none_or(|has| Some(has) != usual_slice_ns()) {
        return Ok(());
    }
    let size = size_of::<Attributes>() as u32;
    let wanted = Attributes { size, runtime, deadline: [0; 2], ..has };
    step::here();
    // SAFETY: the kernel reads `size` bytes of `wanted`.
    let done = checked(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &wanted, 0) });
    step::here();
    done.map(drop)
}

/// The nice value that a thread has or, while it is real-time, will have.
pub(crate) fn nice(tid: i32) -> io::Result<i32> {
    // SAFETY: no memory is involved.
    let value = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) };
    // The kernel returns 20 - nice, because a negative number is an error.
    Ok(20 - checked(value)? as i32)
}

/// Sets it; while the thread is real-time, the one that is kept for it.
pub(crate) fn set_nice(tid: i32, nice: i32) -> io::Result<()> {
    step::here();
    // SAFETY: no memory is involved.
    let done = unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, nice) };
    let done = checked(done);
    step::here();
    done.map(drop)
}

/// The time since boot in the initial time namespace, in the clock ticks in which start times are
/// told.
pub(crate) fn boot_ticks() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one struct; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    let own_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let offset = TimeOffsets::own().unwrap_or_default().boottime_ns;
    let ns = own_ns.saturating_add_signed(offset.saturating_neg());
    ns / (1_000_000_000 / ticks_a_second())
}

/// CLOCK_MONOTONIC of the initial time namespace in ns.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one struct; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let own_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let offset = TimeOffsets::own().unwrap_or_default().monotonic_ns;
    own_ns.saturating_add_signed(offset.saturating_neg())
}

/// How many of them there are in a second.
pub(crate) fn ticks_a_second() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}

/// Whether a thread is certainly the first of its process. No signal is sent.
pub(crate) fn is_first_thread(tid: i32) -> bool {
    // SAFETY: no memory is involved.
    checked(unsafe { libc::syscall(libc::SYS_tgkill, tid, tid, 0) }).is_ok()
}

/// Whether a file has an extended attribute with this value: xattr(7).
pub(crate) fn has_attribute(path: &Path, name: &CStr, value: &[u8]) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut found = [0u8; 16];
    let (place, room) = (found.as_mut_ptr().cast(), found.len());
    // SAFETY: both names end with a zero, and the kernel writes at most `room` bytes into `found`.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), place, room) };
    usize::try_from(length).is_ok_and(|length| found[..length] == *value)
}

/// The version of capget(2) that every kernel knows: 64 capabilities in two parts.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The capabilities that a thread may make effective, a bit each.
pub(crate) fn permitted_capabilities(tid: i32) -> io::Result<u64> {
    let mut header = (CAPABILITY_VERSION, tid);
    // Effective, permitted and inheritable ones, of capabilities 0 to 31 and of 32 to 63.
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: the kernel reads two words from `header`, and writes one to it and six to `sets`.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) })?;
    Ok(u64::from(sets[0][1]) | u64::from(sets[1][1]) << 32)
}

/// A limit of a process.
pub(crate) fn limits(pid: i32, resource: u32) -> io::Result<Limits> {
    prlimit(pid, resource, None)
}

/// Sets a limit; what was there is returned.
pub(crate) fn set_limits(pid: i32, resource: u32, limits: Limits) -> io::Result<Limits> {
    step::here();
    let was = prlimit(pid, resource, Some(limits));
    step::here();
    was
}

fn prlimit(pid: i32, resource: u32, new: Option<Limits>) -> io::Result<Limits> {
    let new = new.map(|new| libc::rlimit64 { rlim_cur: new.soft, rlim_max: new.hard });
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut was = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads a struct from `new` unless that is null, and writes one to `was`.
    checked(unsafe { libc::syscall(libc::SYS_prlimit64, pid, resource, new, &mut was) })?;
    Ok(Limits { soft: was.rlim_cur, hard: was.rlim_max })
}
/// What a child process experienced that asked for a real-time policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Allowed,
    /// EPERM.
    Refused,
}

/// A child writes "0" to these files, one after the other, and asks for a real-time policy.
pub(crate) fn try_real_time(joins: &[PathBuf]) -> io::Result<Outcome> {
    let files = joins.iter().map(|file| CString::new(file.as_os_str().as_bytes()));
    let files: Vec<CString> = files.collect::<Result<_, _>>()?;
    // The child never executes it.
    let mut child = Command::new("/proc/self/exe");
    // SAFETY: the closure makes system calls only, and the child ends with it.
    unsafe { child.pre_exec(move || libc::_exit(try_in_child(&files))) };
    match child.status()?.code() {
        Some(0) => Ok(Outcome::Allowed),
        Some(libc::EPERM) => Ok(Outcome::Refused),
        _ => Err(io::Error::other("the child could not try it")),
    }
}

/// Returns 0, or the error of the last step; another step that fails has status 255.
fn try_in_child(files: &[CString]) -> i32 {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the strings and the structure live until the end of this function.
    unsafe {
        for file in files {
            let fd = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if fd < 0 || libc::write(fd, c"0".as_ptr().cast(), 1) != 1 {
                return 255;
            }
            libc::close(fd);
        }
        match libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_RR, &raw const param) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}
