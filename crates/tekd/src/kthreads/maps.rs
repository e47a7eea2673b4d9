// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether two processes map the same memory.
//!
//! A read of /proc/PID/maps may wait for a thread of that process, and takes long if the process
//! has many mappings. So a thread below all critical ones reads it, and uses a tenth of a CPU only.
use crate::{log, sys};
use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::{sleep, Builder};
use std::time::Instant;
use tek_procfs::path;

const STACK_BYTES: usize = 256 << 10;
/// The most questions that wait.
const MOST_QUESTIONS: usize = 16;
/// Of a longer list the rest is not read.
const MOST_BYTES: u64 = 1 << 20;
/// After each answer the thread sleeps for this many times the time that it took.
const PAUSE: u32 = 9;
/// Before ordinary threads, for which the answer would wait, and after all critical ones.
const PRIORITY: u32 = 1;

/// Whether a process maps the memory that a lock of a waiter's process is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    waiter: i32,
    owner: i32,
    /// The address of the lock's page in the waiter's process.
    page: u64,
}

impl Question {
    pub fn new(waiter: i32, owner: i32, lock: u64) -> Self {
        Self { waiter, owner, page: lock & !0xfff }
    }

    /// Whether one of the processes is this one.
    pub fn is_about(self, process: i32) -> bool {
        [self.waiter, self.owner].contains(&process)
    }
}

/// The thread that answers. It ends with this.
pub struct Maps(SyncSender<Question>);

impl Maps {
    /// Starts the thread, which calls `answer` for each question.
    pub fn start(answer: impl Fn(Question, bool) + Send + 'static) -> Self {
        let (sender, questions) = sync_channel(MOST_QUESTIONS);
        let run = move || answer_all(&questions, answer);
        let name = "tekd-maps".to_owned();
        if let Err(error) = Builder::new().name(name).stack_size(STACK_BYTES).spawn(run) {
            log::warning(&format!("no thread of another process is lifted: {error}"));
        }
        Self(sender)
    }

    /// One that answers nothing.
    #[cfg(test)]
    pub fn none() -> Self {
        Self(sync_channel(0).0)
    }

    /// `false`: too many questions wait.
    pub fn ask(&self, question: Question) -> bool {
        self.0.try_send(question).is_ok()
    }
}

fn answer_all(questions: &Receiver<Question>, answer: impl Fn(Question, bool)) {
    let _ = sys::become_first(PRIORITY);
    for question in questions {
        let begin = Instant::now();
        let Question { waiter, owner, page } = question;
        answer(question, map_the_same(waiter, owner, page));
        sleep(PAUSE * begin.elapsed());
    }
}

fn read(pid: i32) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(path(pid, "maps")?)?.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether two processes share the memory at an address of the first one.
fn map_the_same(first: i32, second: i32, address: u64) -> bool {
    let maps = |pid: i32| read(pid).unwrap_or_default();
    let (own, theirs) = (maps(first), maps(second));
    let Some(mapped) = own.lines().filter_map(Mapping::parse).find(|it| it.has(address)) else {
        return false;
    };
    let offset = mapped.offset + (address - mapped.start);
    theirs.lines().filter_map(Mapping::parse).any(|it| it.has_file(&mapped, offset))
}

/// Shared memory, from a line of /proc/PID/maps.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    /// Device and inode.
    file: (&'a str, &'a str),
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_shared = fields.next()?.ends_with('s');
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(fields.next()?)?);
        let file = (fields.next()?, fields.next()?);
        (is_shared && file.1 != "0").then_some(Self { start, end, offset, file })
    }

    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn has_file(&self, other: &Self, offset: u64) -> bool {
        let covered = self.offset..self.offset.saturating_add(self.end - self.start);
        self.file == other.file && covered.contains(&offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn lines_of_maps_are_compared_by_file_and_offset() {
        let line = |text| Mapping::parse(text);
        let shared = line("7f00-9f00 rw-s 00001000 00:01 42 /dev/shm/a").unwrap();
        let same = line("1000-2000 rw-s 00001800 00:01 42 /dev/shm/a").unwrap();
        let other = line("1000-2000 rw-s 00001800 00:01 43 /dev/shm/b").unwrap();
        assert!(shared.has(0x7f00) && !shared.has(0x9f00));
        assert!(same.has_file(&shared, 0x1800) && !same.has_file(&shared, 0x17ff));
        assert!(!same.has_file(&shared, 0x2800) && !other.has_file(&shared, 0x1800));
        assert!(line("7f00-9f00 rw-p 00001000 00:01 42 /dev/shm/a").is_none());
        assert!(line("7f00-9f00 rw-s 00000000 00:00 0").is_none());
    }

    #[test]
    fn a_private_page_is_shared_with_no_process() {
        let (sender, answers) = channel();
        let maps = Maps::start(move |question, answer| sender.send((question, answer)).unwrap());
        let private = [0u8; 8];
        let own = std::process::id() as i32;
        for lock in [private.as_ptr() as u64, 0xdead_0000] {
            let question = Question::new(own, 1, lock);
            assert!(maps.ask(question));
            assert_eq!(answers.recv().unwrap(), (question, false));
        }
    }
}
