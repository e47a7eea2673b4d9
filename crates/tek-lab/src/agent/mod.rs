// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process 1 of the guest: runs the jobs that the host names, and clears up after each.
//!
//! It is one thread, so that it can fork, and it waits only in poll(): for the host, for the job's
//! output, and for children that ended. Its priority is above all that a job should need. Its
//! memory is locked, and the OOM killer never chooses it.

mod children;
mod error;
mod outgoing;
mod own;
mod port;
mod relay;
mod room;
mod shown;
mod spawn;
mod state;

use crate::protocol::{Done, Frame, Hello, How, VERSION};
use crate::Job;
use children::Children;
use error::Error;
use port::Port;
use spawn::NotStarted;
use state::State;

/// Runs the guest, as its process 1; powers it off at the end.
pub fn run() -> ! {
    std::panic::set_hook(Box::new(|why| {
        own::send_frame(&format!("the agent failed: {why}"));
        own::power_off()
    }));
    if let Err(error) = serve() {
        own::send_frame(&format!("the agent ends: {error}"));
    }
    own::power_off()
}

fn serve() -> Result<(), Error> {
    if std::process::id() != 1 {
        return Err(Error::NotInit);
    }
    own::take_precedence()?;
    let children = Children::watch()?;
    let mut port = Port::open()?;
    let mut state = State::take();
    port.send(&Frame::Hello(Hello { version: VERSION }));
    loop {
        match port.wait()? {
            Frame::Run(job) => {
                let done = run_job(&mut port, &children, &mut state, &job)?;
                port.send(&Frame::Done(done));
            }
            // It came too late: its job had ended by itself.
            Frame::End => {}
            Frame::PowerOff => return Ok(()),
            other => return Err(Error::Unexpected(other)),
        }
    }
}

fn run_job(
    port: &mut Port,
    children: &Children,
    state: &mut State,
    job: &Job,
) -> Result<Done, Error> {
    let mut left = Vec::new();
    let alone = match room::furnish().and_then(|()| spawn::start(job)) {
        Ok(Ok(started)) => relay::run(port, children, started)?,
        Ok(Err(why)) => not_started(port, children, why),
        Err(error) => {
            // No fault of the job: the next one gets a new guest, in which this may not happen.
            left.push(error.to_string());
            not_started(port, children, error.to_string().into())
        }
    };
    if !alone {
        left.push("processes that cannot be killed".to_owned());
    }
    own::take_precedence()?;
    let lost = match job.files {
        true => outgoing::send(port, room::out())?,
        false => Vec::new(),
    };
    if let Err(error) = room::clear() {
        left.push(error.to_string());
    }
    left.extend(state.restore());
    Ok(Done::new(left, lost))
}

/// Reports why a job could not be started. False: its process is left.
fn not_started(port: &mut Port, children: &Children, failure: NotStarted) -> bool {
    // The process that could not become the job ends, and its mounts with it.
    let (_, alone) = children.kill_all(None);
    port.send(&Frame::Over(How::not_started(&failure.why, failure.errno)));
    alone
}
