// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs, run in as few boots as will do.
//!
//! A guest runs one job after the other until it ends, falls silent, sends invalid frames, or
//! reports that it cannot clear away a job's traces. Then the next job gets a new guest. Every wait
//! has a limit, which no flood of frames or console lines extends.
use crate::booted::{Booted, End, Event};
use crate::machine::{self, Machine, Plan};
use crate::protocol::{Done, Frame, Hello, How, VERSION};
use crate::{Ended, Job, Outcome};
use std::io;
use std::time::{Duration, Instant};

pub use crate::listener::Listener;

/// Limits of a session.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From boot until the guest sends its hello.
    pub boot: Duration,
    /// Of a job that sets none.
    pub job: Duration,
    /// Until a guest has ended a job when the host ends it, or QEMU is gone that closed its port.
    pub grace: Duration,
    /// Until a guest that panicked is gone.
    pub panic: Duration,
    /// From a job's end until all of its output has arrived and it is cleared away.
    pub clearing: Duration,
    /// Boots in a row that may fail before the session gives up.
    pub boots: usize,
}

/// Why a session did not go to its end. An event inside a guest is never a reason: it is reported
/// as the job's end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// QEMU could not be started.
    #[error(transparent)]
    Machine(#[from] machine::Error),
    /// The listener failed, for example at a closed pipe.
    #[error(transparent)]
    Listener(#[from] io::Error),
}

/// Boots in a row that may fail where no user is there to begin again.
pub const BOOTS: usize = 2;

/// Reported of a guest that ended before its kernel wrote anything.
const NEVER_STARTED: &str =
    "the kernel never started: too little memory (--memory gives it more), or \
                             its file is no kernel image for this machine";

/// How long a kernel that killed a job may take to report on the console that it lacked memory: on
/// PREEMPT_RT a thread of low priority writes it, and this machine may be busy too.
const REASON: Duration = Duration::from_secs(3);

/// How long a guest on a processor of the machine's own may take to its first output, which should
/// take a fraction of a second.
const SILENCE: Duration = Duration::from_secs(10);

/// Runs the jobs one after the other. No job sees anything that an earlier job left in its guest.
pub fn run(
    plan: &Plan,
    jobs: &[Job],
    limits: Limits,
    listener: &mut dyn Listener,
) -> Result<Vec<Ended>, Error> {
    let mut boot = |accelerate: bool| {
        if !accelerate {
            plan.acceleration.has_failed();
        }
        machine::boot(plan, accelerate)
    };
    run_with(&mut boot, jobs, limits, listener)
}

/// Boots a guest. The argument is true if the guest may have the machine's own processor, and false
/// once that has failed.
type Boot<'a> = dyn FnMut(bool) -> Result<Machine, machine::Error> + 'a;

fn run_with(
    boot: &mut Boot,
    jobs: &[Job],
    limits: Limits,
    listener: &mut dyn Listener,
) -> Result<Vec<Ended>, Error> {
    let mut session = Session {
        boot,
        accelerate: true,
        came_up: false,
        limits,
        listener,
        boots: 0,
        guest: None,
        failed: Vec::new(),
    };
    jobs.iter().map(|job| session.job(job)).collect()
}

struct Session<'a> {
    boot: &'a mut Boot<'a>,
    /// Guests may have the machine's own processor.
    accelerate: bool,
    /// Some guest came up: if a later one does not, the cause is not the processor.
    came_up: bool,
    limits: Limits,
    listener: &'a mut dyn Listener,
    boots: u32,
    guest: Option<Booted>,
    /// The failed boots since the last successful one.
    failed: Vec<Failure>,
}

/// A boot that failed: why, and the end of the console's text.
#[derive(Clone)]
struct Failure {
    why: String,
    console: Vec<String>,
}

impl Session<'_> {
    fn job(&mut self, job: &Job) -> Result<Ended, Error> {
        let mut ended = match self.guest(job)? {
            Ok(guest) => self.run_in(guest, job)?,
            Err(Failure { why, console }) => {
                Ended { console, ..ended(job, Outcome::NotBooted { why }) }
            }
        };
        ended.boot = self.boots;
        self.listener.ended(job, &ended)?;
        Ok(ended)
    }

    /// A guest that is well: the present one, or a new one.
    fn guest(&mut self, job: &Job) -> Result<Result<Booted, Failure>, Error> {
        if let Some(mut guest) = self.guest.take() {
            if !job.fresh && guest.is_quiet(self.listener)? {
                return Ok(Ok(guest));
            }
        }
        // A failed boot is repeated, since its cause may be chance: QEMU's emulation of several
        // processors has races. More boots than the limit do not help.
        while self.failed.len() < self.limits.boots {
            match self.boot()? {
                Ok(guest) => {
                    self.failed.clear();
                    return Ok(Ok(guest));
                }
                Err(failure) => self.failed.push(failure),
            }
        }
        Ok(Err(self.failed[0].clone()))
    }

    fn boot(&mut self) -> Result<Result<Booted, Failure>, Error> {
        self.boots += 1;
        self.listener.until(Instant::now() + self.limits.boot);
        self.listener.booting(self.boots)?;
        let machine = (self.boot)(self.accelerate)?;
        let accelerated = machine.accelerated;
        let guest = Booted::new(machine, self.limits.grace, self.limits.panic);
        match self.wait_for(guest)? {
            // A /dev/kvm need not work with every processor, nor inside of every other guest.
            Err(failure) if accelerated && !self.came_up && self.limits.boots > 1 => {
                self.accelerate = false;
                self.listener.emulating(&failure.why)?;
                self.boot()
            }
            result => {
                self.came_up |= result.is_ok();
                Ok(result)
            }
        }
    }

    /// Waits until a guest is up.
    fn wait_for(&mut self, mut guest: Booted) -> Result<Result<Booted, Failure>, Error> {
        let begun = Instant::now();
        let mut limit = self.limits.boot.min(SILENCE);
        let mut event = guest.next(begun + limit, self.listener)?;
        if matches!(event, Event::Deadline) && !guest.is_stuck() {
            limit = self.limits.boot;
            event = guest.next(begun + limit, self.listener)?;
        }
        let why = match event {
            Event::Frame(Frame::Hello(Hello { version: VERSION })) => return Ok(Ok(guest)),
            Event::Frame(Frame::Hello(hello)) => format!(
                "the guest's tek speaks version {} of the lab's protocol, and this one {VERSION}; \
                 build both from the same source",
                hello.version
            ),
            Event::Frame(_) => "the guest did not begin with a greeting".to_owned(),
            Event::Nonsense(error) => format!("the guest sent {error}"),
            Event::Deadline => match guest.console.panic() {
                Some(panic) => panic.to_owned(),
                None => format!("no sign of life from the guest in {limit:?}"),
            },
            Event::Ended => match guest.autopsy(self.listener)? {
                End::Off => match guest.console.message() {
                    Some(complaint) => {
                        format!("the guest powered off before it was up: {complaint}")
                    }
                    None if guest.console.since(0).is_empty() => NEVER_STARTED.to_owned(),
                    None => "the guest powered off before it was up".to_owned(),
                },
                End::Panicked(why) | End::Died(why) => why,
            },
        };
        let why = match guest.console.files_do_not_fit() {
            true => "its files do not fit into its memory; --memory gives it more".to_owned(),
            false => why,
        };
        Ok(Err(Failure { why, console: guest.console.since(0) }))
    }

    fn run_in(&mut self, mut guest: Booted, job: &Job) -> Result<Ended, Error> {
        let begun = Instant::now();
        let mark = guest.console.mark();
        guest.console.take_out_of_memory();
        guest.send(&Frame::Run(Box::new(job.clone())));
        let limit = match job.limit {
            0 => self.limits.job,
            seconds => Duration::from_secs(seconds),
        };
        self.listener.until(begun + limit);
        let (outcome, Done { left, lost }, well) = self.follow(&mut guest, job, begun + limit)?;
        let console = match outcome.is_success() {
            true => Vec::new(),
            false => match guest.console.since(mark) {
                // Then at least its output before it fell silent.
                none if none.is_empty() && outcome.concerns_the_guest() => guest.console.last(),
                lines => lines,
            },
        };
        if well && left.is_empty() {
            self.guest = Some(guest);
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Ended { seconds, left, lost, console, ..ended(job, outcome) })
    }

    /// Handles the events of a job to its end; returns its outcome, what it left, and whether the
    /// guest is well.
    fn follow(
        &mut self,
        guest: &mut Booted,
        job: &Job,
        limit: Instant,
    ) -> Result<(Outcome, Done, bool), Error> {
        let mut deadline = limit;
        let mut asked_to_end = false;
        let mut over = None;
        loop {
            let garbled = match guest.next(deadline, self.listener)? {
                Event::Frame(Frame::Output(bytes)) => {
                    self.listener.output(job, &bytes)?;
                    continue;
                }
                Event::Frame(Frame::Error(bytes)) => {
                    self.listener.error(job, &bytes)?;
                    continue;
                }
                Event::Frame(Frame::Files(bytes)) if job.files => {
                    self.listener.files(job, &bytes)?;
                    continue;
                }
                // Once: otherwise a guest could extend its deadline for ever.
                Event::Frame(Frame::Over(how)) if over.is_none() => {
                    over = Some(how);
                    let now = Instant::now();
                    deadline = now + self.limits.clearing;
                    if !asked_to_end {
                        self.listener.until(limit.max(now + self.limits.grace));
                    }
                    continue;
                }
                Event::Frame(Frame::Done(done)) => match over {
                    Some(_) if asked_to_end => return Ok((Outcome::TimedOut, done, true)),
                    Some(how) => return Ok((self.outcome(guest, how)?, done, true)),
                    None => "that all was said of a job that is not over".to_owned(),
                },
                Event::Frame(_) => "a frame that is none of a job's".to_owned(),
                Event::Nonsense(error) => error.to_string(),
                Event::Ended => {
                    let outcome = match guest.autopsy(self.listener)? {
                        End::Off => Outcome::Stopped,
                        End::Panicked(why) => Outcome::Panicked { why },
                        End::Died(why) => Outcome::QemuDied { why },
                    };
                    return Ok((outcome, Done::default(), false));
                }
                Event::Deadline => {
                    if let Some(why) = guest.console.panic() {
                        let outcome = Outcome::Panicked { why: why.to_owned() };
                        return Ok((outcome, Done::default(), false));
                    }
                    if asked_to_end || over.is_some() {
                        return Ok((Outcome::Hung, Done::default(), false));
                    }
                    asked_to_end = true;
                    guest.send(&Frame::End);
                    deadline = Instant::now() + self.limits.grace;
                    continue;
                }
            };
            return Ok((Outcome::Garbled { why: garbled }, Done::default(), false));
        }
    }

    /// The outcome of a job that the host did not end.
    fn outcome(&mut self, guest: &mut Booted, how: How) -> io::Result<Outcome> {
        Ok(match how {
            How::Exited(status) => Outcome::Exited { status },
            How::NotStarted { why, errno } => Outcome::NotStarted { why, errno },
            How::Killed(signal) => {
                let out_of_memory =
                    signal == libc::SIGKILL && guest.lacked_memory(REASON, self.listener)?;
                Outcome::Killed { signal, out_of_memory }
            }
        })
    }
}

fn ended(job: &Job, outcome: Outcome) -> Ended {
    let job = job.name.clone();
    let (left, lost, console) = Default::default();
    Ended { job, outcome, seconds: 0.0, boot: 0, left, lost, console }
}

#[cfg(test)]
mod tests;
