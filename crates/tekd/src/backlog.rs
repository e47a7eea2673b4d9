// SPDX-License-Identifier: MIT OR Apache-2.0
//! News of births, read in slices: the kernel may have thousands of them, and clients wait. Pure.
use crate::exec_watch::News;
use std::collections::VecDeque;

/// The most news that are received at once.
pub const CHUNK: usize = 32;
/// Two CPUs may report births in another order than that of their times, by less than this.
const OUT_OF_ORDER_NS: u64 = 10_000_000;

/// News that were received and not handled yet.
#[derive(Default)]
pub struct Backlog {
    news: VecDeque<News>,
    /// The kernel had no more when news were received last.
    is_dry: bool,
    /// The time of the latest birth that was handled.
    handled_ns: u64,
}

impl Backlog {
    /// Handles news until `is_over` returns true, at least one. `receive` returns up to [`CHUNK`]
    /// news; fewer show that the kernel has no more. Returns [`Backlog::are_all_handled`].
    pub fn slice<S>(
        &mut self,
        server: &mut S,
        mut receive: impl FnMut(&mut S) -> Vec<News>,
        mut handle: impl FnMut(&mut S, News),
        mut is_over: impl FnMut() -> bool,
    ) -> bool {
        loop {
            if self.news.is_empty() {
                self.news.extend(receive(server));
                self.is_dry = self.news.len() < CHUNK;
            }
            while let Some(news) = self.news.pop_front() {
                if let News::Born(birth) = &news {
                    self.handled_ns = self.handled_ns.max(birth.at_ns);
                }
                handle(server, news);
                if is_over() {
                    return self.are_all_handled();
                }
            }
            if self.is_dry {
                return true;
            }
        }
    }

    /// Whether the last slice handled all news that there were.
    pub fn are_all_handled(&self) -> bool {
        self.is_dry && self.news.is_empty()
    }

    /// Whether all births until this time were handled, if the last slice was after it.
    pub fn is_past(&self, at_ns: u64) -> bool {
        self.are_all_handled() || self.handled_ns > at_ns.saturating_add(OUT_OF_ORDER_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec_watch::Birth;

    const MS: u64 = 1_000_000;

    fn birth(at_ns: u64) -> News {
        News::Born(Birth { parent_thread: 1, parent: 1, thread: 2, process: 2, at_ns })
    }

    /// The news that the kernel has, and the births that were handled, by their times.
    #[derive(Default)]
    struct Fake {
        waiting: VecDeque<News>,
        handled: Vec<u64>,
    }

    impl Fake {
        fn with(times: impl Iterator<Item = u64>) -> Self {
            Self { waiting: times.map(birth).collect(), handled: Vec::new() }
        }

        fn receive(&mut self) -> Vec<News> {
            self.waiting.drain(..self.waiting.len().min(CHUNK)).collect()
        }

        fn handle(&mut self, news: News) {
            if let News::Born(birth) = news {
                self.handled.push(birth.at_ns);
            }
        }
    }

    /// A slice that is over after so many news.
    fn slice(backlog: &mut Backlog, fake: &mut Fake, most: usize) -> bool {
        let mut left = most;
        let is_over = || {
            left -= 1;
            left == 0
        };
        backlog.slice(fake, Fake::receive, Fake::handle, is_over)
    }

    #[test]
    fn a_slice_that_is_over_leaves_the_rest_to_the_next_and_nothing_is_lost() {
        let (mut backlog, mut fake) = (Backlog::default(), Fake::with(0..5000));
        let mut slices = 0;
        while !slice(&mut backlog, &mut fake, 50) {
            slices += 1;
            assert_eq!(fake.handled.len(), 50 * slices, "more than a slice at once");
        }
        assert!((99..=100).contains(&slices), "{slices}");
        assert!(fake.handled.iter().copied().eq(0..5000));
        assert!(backlog.are_all_handled());
    }

    #[test]
    fn the_news_before_an_end_are_handled_though_births_go_on_without_end() {
        let (mut backlog, mut fake) = (Backlog::default(), Fake::with((0..500).map(|ms| ms * MS)));
        let end_ns = 100 * MS;
        while !backlog.is_past(end_ns) {
            assert!(!slice(&mut backlog, &mut fake, 7));
        }
        assert!(fake.handled.contains(&end_ns));
        assert!(fake.handled.len() < 150, "{}", fake.handled.len());
    }

    #[test]
    fn where_no_news_wait_all_are_handled() {
        let (mut backlog, mut fake) = (Backlog::default(), Fake::default());
        assert!(!backlog.is_past(MS), "nothing was received yet");
        assert!(slice(&mut backlog, &mut fake, 1) && backlog.is_past(u64::MAX));
        fake.waiting.extend((0..CHUNK as u64).map(birth));
        assert!(!slice(&mut backlog, &mut fake, CHUNK), "the kernel may have more");
        assert!(slice(&mut backlog, &mut fake, 1));
    }
}
