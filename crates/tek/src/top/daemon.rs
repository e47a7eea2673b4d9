// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tekd says, without ever waiting long for it: a thread of its own asks.
use crate::daemon::Error;
use crate::status::{self, Status};
use std::collections::HashSet;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// So long is waited for an answer; one that comes later is shown at the next look.
const PATIENCE: Duration = Duration::from_millis(50);

/// tekd sleeps between questions, so it is not asked more often than people read.
const LEAST_BETWEEN: Duration = Duration::from_millis(900);

/// What tekd says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Daemon {
    /// It does not run.
    #[default]
    Absent,
    /// It runs, and gave no answer that is understood; or may not be asked by this user.
    Silent,
    /// What it is at.
    Says {
        /// `normal` or `responsiveness`.
        mode: String,
        /// Process and tid of the threads that are Fast by it.
        fast: HashSet<(u32, u32)>,
    },
}

/// Asks tekd.
pub struct Asker {
    ask: SyncSender<()>,
    told: Receiver<Daemon>,
    asked: Option<Instant>,
    is_waiting: bool,
    last: Daemon,
}

impl Asker {
    /// With a thread, which lives as long as the process: an answer may never come.
    pub fn new() -> std::io::Result<Self> {
        Self::by(|| answer(status::now()))
    }

    fn by(question: impl Fn() -> Daemon + Send + 'static) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        std::thread::Builder::new()
            .name("ask-tekd".into())
            .spawn(move || while asked.recv().is_ok() && tell.send(question()).is_ok() {})?;
        Ok(Self { ask, told, asked: None, is_waiting: false, last: Daemon::Absent })
    }

    /// Asks, unless that was done just now or the answer is still to come.
    pub fn ask(&mut self) {
        if self.is_waiting || self.asked.is_some_and(|asked| asked.elapsed() < LEAST_BETWEEN) {
            return;
        }
        self.is_waiting = self.ask.try_send(()).is_ok();
        self.asked = Some(Instant::now());
    }

    /// What it says, waiting until 50 ms after it was asked.
    pub fn answer(&mut self) -> &Daemon {
        if self.is_waiting {
            let passed = self.asked.map_or(PATIENCE, |asked| asked.elapsed());
            let answer = match PATIENCE.saturating_sub(passed) {
                Duration::ZERO => self.told.try_recv(),
                left => self.told.recv_timeout(left).map_err(|_| TryRecvError::Empty),
            };
            self.is_waiting = answer.is_err();
            self.last = answer.unwrap_or(Daemon::Silent);
        }
        &self.last
    }
}

fn answer(status: anyhow::Result<Status>) -> Daemon {
    match status {
        Ok(Status { mode, fast, .. }) => {
            Daemon::Says { mode, fast: fast.iter().map(|one| (one.pid, one.tid)).collect() }
        }
        Err(error) => match error.downcast_ref() {
            Some(Error::NotThere(_)) => Daemon::Absent,
            _ => Daemon::Silent,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_answer_in_time_is_taken_and_kept_until_the_next_one() {
        let says = || Daemon::Says { mode: "normal".into(), fast: HashSet::new() };
        let mut asker = Asker::by(says).unwrap();
        asker.ask();
        // The thread may not have had a CPU in time, on a busy machine.
        while *asker.answer() == Daemon::Silent {}
        assert_eq!(*asker.answer(), says());
        asker.ask();
        assert!(!asker.is_waiting);
    }

    #[test]
    fn a_daemon_that_does_not_answer_keeps_nobody_waiting() {
        let (end, ended) = channel::<()>();
        let ended = std::sync::Mutex::new(ended);
        let mut asker = Asker::by(move || {
            let _ = ended.lock().unwrap().recv();
            Daemon::Absent
        })
        .unwrap();
        asker.ask();
        let before = Instant::now();
        for _ in 0..20 {
            asker.ask();
            assert_eq!(*asker.answer(), Daemon::Silent);
        }
        assert!(before.elapsed() < Duration::from_secs(2));
        drop(end);
    }

    #[test]
    fn no_daemon_is_no_failure() {
        let error = Error::NotThere("/nowhere".into());
        assert_eq!(answer(Err(error.into())), Daemon::Absent);
        assert_eq!(answer(Err(anyhow::anyhow!("nonsense"))), Daemon::Silent);
    }
}
