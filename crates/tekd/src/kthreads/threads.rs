// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two threads that react to events, on different CPUs.
//!
//! Many kernels do not preempt a system call before its end or its next sleep, which takes some
//! milliseconds with much data. A critical task that writes would thus delay a single reacting
//! thread, which must help it. Therefore two threads have half of the CPUs each, and the first to
//! run does the work. On one CPU there is one thread.
use super::reactor::Next;
use super::Shared;
use crate::log;
use crate::own_priority::become_first;
use crate::sys;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::unistd::{gettid, Pid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

const STACK_BYTES: usize = 256 << 10;
/// The time until the kernel has finished an event that it has begun, if the writer has a CPU.
const UNFINISHED: Duration = Duration::from_millis(1);
/// The epoll data of commands.
const BELL: u64 = 1;

/// One of the two threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    /// The thread that wakes for events only.
    Second,
}

/// Runs both threads until a command stops them. Then all values are restored.
pub fn follow(shared: &Arc<Shared>) {
    let halves = halves();
    let second = halves.and_then(|(_, theirs)| second(shared, theirs));
    keep_to(halves.map(|(own, _)| own));
    let ended = react(shared, Which::First);
    let _ = shared.over.write(1);
    if let Some(thread) = second {
        let _ = thread.join();
    }
    if let Err(error) = ended {
        log::error(&format!("kernel threads follow their waiters no more: {error}"));
    }
    let reactor = shared.state.lock().reactor.take();
    if let Some(reactor) = reactor {
        reactor.end();
    }
}

fn second(shared: &Arc<Shared>, cpus: CpuSet) -> Option<JoinHandle<()>> {
    let theirs = Arc::clone(shared);
    let run = move || {
        keep_to(Some(cpus));
        if let Err(error) = react(&theirs, Which::Second) {
            log::warning(&format!("only one thread reacts to events of kernel threads: {error}"));
        }
    };
    let thread = Builder::new().name("kthreads-2".to_owned()).stack_size(STACK_BYTES).spawn(run);
    thread.inspect_err(|error| log::warning(&format!("the second thread is missing: {error}"))).ok()
}

/// Two sets of alternating CPUs; `None` where there is one CPU.
fn halves() -> Option<(CpuSet, CpuSet)> {
    let all = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut halves = [CpuSet::new(), CpuSet::new()];
    let there = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false));
    let count = there.enumerate().filter_map(|(n, cpu)| halves[n % 2].set(cpu).ok()).count();
    let [own, theirs] = halves;
    (count > 1).then_some((own, theirs))
}

/// Without an affinity, only chance keeps the two threads apart.
fn keep_to(cpus: Option<CpuSet>) {
    if let Some(cpus) = cpus {
        let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
    }
}

fn react(shared: &Shared, which: Which) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let (events, mut priority) = {
        let mut state = shared.state.lock();
        let Some(reactor) = &mut state.reactor else { return Ok(()) };
        reactor.ignore(gettid().as_raw())?;
        (reactor.events()?, reactor.priority)
    };
    become_first(priority);
    sys::never_wait_for_disks();
    // Edge-triggered: one wake-up for each signal of the kernel. An unfinished event makes the ring
    // readable too, and its writer may wait for this CPU: this thread would spin for ever.
    epoll.add(&events, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
    let wakes = if which == Which::First { &shared.bell } else { &shared.over };
    epoll.add(wakes, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
    let mut ready = [EpollEvent::empty(); 2];
    let mut is_again = false;
    loop {
        let guard = match which {
            Which::First => Some(shared.state.lock()),
            // It has events that it did not come to.
            Which::Second if is_again => Some(shared.state.lock()),
            // The first thread has read the events already.
            Which::Second if !is_readable(&events) => None,
            // The first thread holds the lock, and polls once more before it sleeps.
            Which::Second => shared.state.try_lock(),
        };
        let mut timeout = None;
        is_again = false;
        if let Some(mut state) = guard {
            let Some(mut reactor) = state.reactor.take() else { return Ok(()) };
            let next = reactor.run_once(&mut state);
            let wanted = reactor.priority;
            state.reactor = Some(reactor);
            drop(state);
            if priority != wanted {
                priority = wanted;
                become_first(priority);
            }
            match next? {
                Next::End => return Ok(()),
                Next::Again => {
                    is_again = true;
                    continue;
                }
                Next::Sleep(most) => {
                    // Events behind an unfinished event cause no wake-up. Nor does an event that
                    // came for a thread just before its boost ended.
                    let waits = is_readable(&events).then_some(UNFINISHED);
                    let most = most.filter(|_| which == Which::First);
                    timeout = waits.into_iter().chain(most).min().map(in_ms);
                }
            }
        }
        match epoll.wait(&mut ready, timeout.unwrap_or(EpollTimeout::NONE)) {
            Ok(count) if ready[..count].iter().any(|it| it.data() == BELL) => match which {
                Which::First => drop(shared.bell.read()),
                Which::Second => return Ok(()),
            },
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_readable(events: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

fn in_ms(most: Duration) -> EpollTimeout {
    let ms = most.as_nanos().div_ceil(1_000_000);
    EpollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX))
}
