// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polls a source that may never answer: a thread of its own asks.
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// Asks.
pub struct Asker<T> {
    ask: SyncSender<()>,
    reported: Receiver<T>,
    asked: Option<Instant>,
    is_waiting: bool,
    last: Option<T>,
}

impl<T: Send + 'static> Asker<T> {
    /// Starts the thread, which lives as long as the process.
    pub fn new(question: impl Fn() -> T + Send + 'static) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let (announce, reported) = sync_channel(1);
        std::thread::Builder::new()
            .name("ask-tekd".into())
            .spawn(move || while asked.recv().is_ok() && announce.send(question()).is_ok() {})?;
        Ok(Self { ask, reported, asked: None, is_waiting: false, last: None })
    }

    /// Asks, unless the last question is too recent or its answer is still to come.
    pub fn ask(&mut self, least_between: Duration) {
        if self.is_waiting || self.asked.is_some_and(|asked| asked.elapsed() < least_between) {
            return;
        }
        self.is_waiting = self.ask.try_send(()).is_ok();
        self.asked = Some(Instant::now());
    }

    /// The answer to the last question; waits at most so long after the question. A later answer is
    /// returned by the next call.
    pub fn answer(&mut self, patience: Duration) -> Option<&T> {
        if self.is_waiting {
            let passed = self.asked.map_or(patience, |asked| asked.elapsed());
            let answer = match patience.saturating_sub(passed) {
                Duration::ZERO => self.reported.try_recv(),
                left => self.reported.recv_timeout(left).map_err(|_| TryRecvError::Empty),
            };
            self.is_waiting = answer.is_err();
            self.last = answer.ok();
        }
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_answer_in_time_is_taken_and_stays_until_the_next_one() {
        let mut asker = Asker::new(|| 7).unwrap();
        asker.ask(Duration::from_secs(60));
        assert_eq!(asker.answer(Duration::from_secs(60)), Some(&7));
        asker.ask(Duration::from_secs(60));
        assert!(!asker.is_waiting);
        assert_eq!(asker.answer(Duration::ZERO), Some(&7));
    }

    #[test]
    fn a_source_that_does_not_answer_blocks_no_caller_and_may_answer_later() {
        let (end, ended) = channel::<()>();
        let ended = std::sync::Mutex::new(ended);
        let mut asker = Asker::new(move || ended.lock().unwrap().recv().is_err()).unwrap();
        asker.ask(Duration::ZERO);
        let before = Instant::now();
        for _ in 0..20 {
            asker.ask(Duration::ZERO);
            assert_eq!(asker.answer(Duration::from_millis(50)), None);
        }
        assert!(before.elapsed() < Duration::from_secs(20));
        end.send(()).unwrap();
        while asker.answer(Duration::from_secs(10)).is_none() {}
        assert_eq!(asker.answer(Duration::ZERO), Some(&false));
    }
}
