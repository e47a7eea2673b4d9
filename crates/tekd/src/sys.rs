// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that nix does not have. All unsafe code of tekd is here.
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;
use tek_abi::TimeOffsets;

/// `SO_PASSRIGHTS` of Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;
/// `SO_PEERPIDFD` of Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;
/// `CN_IDX_PROC` and `NETLINK_CONNECTOR` of linux/connector.h and linux/netlink.h.
const PROC_EVENTS: u32 = 1;
const CONNECTOR: libc::c_int = 11;
/// `SCHED_RESET_ON_FORK` of sched(7).
const RESET_ON_FORK: libc::c_int = 0x4000_0000;

fn result(returned: libc::c_long) -> io::Result<libc::c_long> {
    match returned {
        -1 => Err(io::Error::last_os_error()),
        returned => Ok(returned),
    }
}

fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(result(returned)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for this call, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that the starter passed by its number, as systemd does; `None` if there is none.
pub fn inherited(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: this sets only a flag of the descriptor; if there is none the call fails.
    let there = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    // SAFETY: the starter passed the descriptor for this process, and this runs once.
    there.then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Accepts the next client of a listening socket.
pub fn accept(socket: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let (nobody, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: without room for an address the kernel writes none.
    owned(unsafe { libc::accept4(socket.as_raw_fd(), nobody, none, flags) }.into())
}

/// Whether this program has more rights than its starter: set-uid, set-gid.
pub fn is_set_uid() -> bool {
    // SAFETY: getauxval(3) only reads what the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The process that connected; it may have ended. On a kernel without SO_PEERPIDFD: the process
/// that has its id now.
pub fn peer_pidfd(socket: BorrowedFd, pid: i32) -> io::Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut length = mem::size_of_val(&fd) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `fd`.
    let returned = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    match returned {
        0 => owned(fd.into()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(error),
            _ => pidfd_open(pid),
        },
    }
}

/// The process that has this id now.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Whether the process of such a descriptor has ended, with all its threads.
pub fn has_ended(pidfd: BorrowedFd) -> bool {
    let mut ready = [PollFd::new(pidfd, PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Refuses descriptors that are passed through a socket, if the kernel can do that.
pub fn refuse_descriptors(socket: BorrowedFd) {
    let no: libc::c_int = 0;
    let length = mem::size_of_val(&no) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `no`. Without the option, passed descriptors are
    // closed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            length,
        )
    };
}

/// The unread bytes that a socket sent, by the kernel's account of its memory.
pub fn unread_bytes(socket: BorrowedFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int. SIOCOUTQ is TIOCOUTQ.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    usize::try_from(bytes).unwrap_or(0)
}

/// Device and inode of a file, from the kernel's cache only: a file system of the file's owner
/// might never reply.
pub fn file_identity(path: &str) -> io::Result<(u64, u64)> {
    let path = CString::new(path)?;
    // SAFETY: all zeros is a value of this struct of integers.
    let mut status: libc::statx = unsafe { mem::zeroed() };
    let flags = libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
    let (path, wanted) = (path.as_ptr(), libc::STATX_INO);
    // SAFETY: the path ends in a NUL, and the kernel writes one struct.
    let returned = unsafe { libc::statx(libc::AT_FDCWD, path, flags, wanted, &raw mut status) };
    result(returned.into())?;
    let device = u64::from(status.stx_dev_major) << 32 | u64::from(status.stx_dev_minor);
    Ok((device, status.stx_ino))
}

/// Makes the calling thread SCHED_FIFO; threads and processes that it starts are not.
pub fn become_first(priority: u32) -> io::Result<()> {
    let priority = libc::c_int::try_from(priority).map_err(io::Error::other)?;
    let param = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | RESET_ON_FORK;
    // SAFETY: the kernel reads one struct.
    result(unsafe { libc::sched_setscheduler(0, policy, &raw const param) }.into()).map(|_| ())
}

/// Locks the mapped parts of files, the program and its libraries, so that they are in memory.
/// A part that cannot be locked is read at its first use.
pub fn bring_program_to_memory() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for line in maps.lines().filter(|line| line.contains(" r") && line.contains(" /")) {
        let mut ends = line.split(['-', ' ']).map(|end| usize::from_str_radix(end, 16));
        if let (Some(Ok(from)), Some(Ok(to))) = (ends.next(), ends.next()) {
            // SAFETY: locking does not change the contents of memory.
            unsafe { libc::mlock(from as *const libc::c_void, to.saturating_sub(from)) };
        }
    }
}

/// Keeps freed memory for reuse. To get more from the kernel, a thread waits for the other threads
/// of this process, which may be ordinary ones.
pub fn keep_freed_memory() {
    // SAFETY: takes numbers only.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// Returns to the kernel memory that this thread has freed, after work that needed much and does
/// not come again. malloc_trim(3) leaves locked memory where it is. So this takes freed memory as
/// blocks, and drops their pages.
pub fn return_freed_memory() {
    const BLOCK_BYTES: usize = 64 << 10;
    const BLOCKS: usize = 256;
    const PAGE_BYTES: usize = 4096;
    // The allocator makes them of freed memory first.
    let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| Vec::with_capacity(BLOCK_BYTES)).collect();
    for block in &blocks {
        let skipped = block.as_ptr().align_offset(PAGE_BYTES);
        let bytes = (BLOCK_BYTES - skipped) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: these whole pages of the block have no contents yet.
        unsafe {
            let pages = block.as_ptr().add(skipped).cast_mut().cast();
            libc::munlock(pages, bytes);
            libc::madvise(pages, bytes, libc::MADV_DONTNEED);
            libc::mlock2(pages, bytes, libc::MLOCK_ONFAULT);
        }
    }
}

/// Memory for the calling thread is not waited for if that would mean a wait for a disk: the kernel
/// threads that serve disks may wait for this very thread.
pub fn never_wait_for_disks() {
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: takes numbers only. Kernels before 5.6 do not know it.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// Pages of this process are not joined into huge ones. khugepaged, an ordinary thread, would keep
/// threads of tekd from their memory meanwhile, for as long as others keep it from its CPU.
pub fn have_no_huge_pages() {
    const PR_SET_THP_DISABLE: libc::c_int = 41;
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Sets the nice value of the calling thread, and of threads that it makes, if that is allowed.
pub fn be_nice(value: i32) {
    // SAFETY: takes numbers only; process 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
}

/// Makes the calling thread SCHED_OTHER.
pub fn become_ordinary() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one struct.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const param) };
    result(set.into()).map(|_| ())
}

/// Whether the calling thread, an ordinary one, could be SCHED_FIFO. It is ordinary afterwards.
pub fn can_be_first(priority: u32) -> io::Result<()> {
    become_first(priority)?;
    become_ordinary()
}

/// Whether a thread, if there is one of that id, has SCHED_FIFO or SCHED_RR.
pub fn is_real_time(tid: i32) -> bool {
    // SAFETY: takes a number only.
    let policy = unsafe { libc::sched_getscheduler(tid) };
    policy >= 0 && [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy & !RESET_ON_FORK))
}

/// CLOCK_MONOTONIC of the initial time namespace in ns, as in the proc connector, BPF programs and
/// requests.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).saturating_add_signed(monotonic_offset().saturating_neg())
}

/// The time from the beginning of periodic work, at this CPU time of the thread, to its next
/// beginning: the period, or more, so that the work uses a tenth of a CPU at most.
pub fn period_ns(began_cpu_ns: u64, period_ns: u64) -> u64 {
    period_ns.max(cpu_ns().saturating_sub(began_cpu_ns).saturating_mul(10))
}

/// Such a time in this process's time namespace, as the kernel expects it.
pub fn own_monotonic(at_ns: u64) -> Duration {
    Duration::from_nanos(at_ns.saturating_add_signed(monotonic_offset()))
}

fn monotonic_offset() -> i64 {
    TimeOffsets::own().unwrap_or_default().monotonic_ns
}

/// The number of CPUs that the device can have; read once.
pub fn cpus() -> u64 {
    static CPUS: OnceLock<u64> = OnceLock::new();
    *CPUS.get_or_init(|| {
        // SAFETY: this only reads a number.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        u64::try_from(cpus).unwrap_or(1).max(1)
    })
}

/// CPU time of the calling thread in ns. It stands still while tekd is stopped.
pub fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one struct; these clocks are always there.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A socket for the kernel's events of processes. Only those that `wanted` names arrive.
pub fn process_events(wanted: Wanted) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers only.
    let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, kind, CONNECTOR) }.into())?;
    want_events(socket.as_fd(), wanted)?;
    // SAFETY: all zeros is a value of this struct of integers.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = PROC_EVENTS;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `address`.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    result(bound.into())?;
    Ok(socket)
}

/// The kind of an event follows two headers: netlink's of 16 bytes, and the connector's of 20.
/// After its CPU and time come a thread and its process.
const EVENT_KIND_AT: u32 = 36;
const EVENT_PROCESS_AT: u32 = 56;

/// A selection of events.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Kinds that arrive for all processes.
    pub always: &'a [u32],
    /// Kinds that arrive for `processes` only.
    pub some: &'a [u32],
    pub processes: &'a [i32],
}

/// Only these events arrive from now on: else each process of the device that begins, executes a
/// program or ends would wake tekd. The thread that causes an event runs this filter.
pub fn want_events(socket: BorrowedFd, wanted: Wanted) -> io::Result<()> {
    let op = |code: u32, k, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let give = |bytes| op(libc::BPF_RET | libc::BPF_K, bytes, 0, 0);
    let load = |at| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0);
    // The filter reads big-endian numbers.
    let is = |number: u32, jt, jf| {
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number.to_be(), jt, jf)
    };
    let mut program = vec![load(EVENT_KIND_AT)];
    for kind in wanted.always {
        program.extend([is(*kind, 0, 1), give(u32::MAX)]);
    }
    for (n, kind) in wanted.some.iter().enumerate() {
        // Past the kinds that follow, and the refusal.
        let past = u8::try_from(wanted.some.len() - n).map_err(io::Error::other)?;
        program.push(is(*kind, past, 0));
    }
    program.extend([give(0), load(EVENT_PROCESS_AT)]);
    for process in wanted.processes {
        program.extend([is(*process as u32, 0, 1), give(u32::MAX)]);
    }
    program.push(give(0));
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads the struct and the `len` instructions that it points to.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            mem::size_of_val(&filter) as libc::socklen_t,
        )
    };
    result(set.into()).map(|_| ())
}

/// Receives one event. Returns its length, or 0 if it does not come from the kernel.
pub fn receive_from_kernel(socket: BorrowedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: all zeros is a value of this struct of integers.
    let mut from: libc::sockaddr_nl = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&from) as libc::socklen_t;
    // SAFETY: the kernel writes at most the two lengths that it is given.
    let received = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            (&raw mut from).cast(),
            &raw mut length,
        )
    };
    let received = Errno::result(received)?;
    Ok(if from.nl_pid == 0 { usize::try_from(received).unwrap_or(0) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_longer_than_its_period_is_followed_by_a_rest() {
        let began_cpu_ns = cpu_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(period_ns(began_cpu_ns, 10_000_000), 10_000_000, "a pause costs nothing");
        while cpu_ns() - began_cpu_ns < 2_000_000 {}
        assert!(period_ns(began_cpu_ns, 10_000_000) >= 20_000_000);
    }

    #[test]
    fn a_file_is_the_same_by_two_names_and_another_one_is_not() {
        let own = file_identity("/proc/self/exe").unwrap();
        assert_eq!(own, file_identity(std::env::current_exe().unwrap().to_str().unwrap()).unwrap());
        assert_ne!(own, file_identity("/proc/self/stat").unwrap());
        assert!(file_identity("/nowhere").is_err());
    }

    #[test]
    fn tests_are_not_set_uid() {
        assert!(!is_set_uid());
    }
}
