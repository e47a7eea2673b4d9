// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests of all kinds, each played by a thread at the other ends of the sockets.
use super::*;
use crate::machine::Process;
use crate::protocol::Decoder;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

mod boots;
mod ends;
mod jobs;
mod limits;

/// For guests that do not end by themselves. A guest that acts within such a time may be too late:
/// it can lose its CPU for longer.
const LIMITS: Limits = Limits {
    boot: Duration::from_secs(10),
    job: Duration::from_millis(200),
    grace: Duration::from_millis(200),
    panic: Duration::from_millis(200),
    clearing: Duration::from_secs(2),
    boots: BOOTS,
};

/// For jobs and guests that end by themselves.
const PATIENT: Limits = Limits {
    boot: Duration::from_secs(20),
    job: Duration::from_secs(20),
    grace: Duration::from_secs(20),
    panic: Duration::from_secs(20),
    clearing: Duration::from_secs(20),
    boots: BOOTS,
};

/// QEMU as the host sees it: how it ended, once the thread has.
struct Played(Option<JoinHandle<ExitStatus>>);

impl Process for Played {
    fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + within;
        loop {
            let is_late = Instant::now() >= until;
            if self.0.as_ref().is_some_and(JoinHandle::is_finished) {
                return self.0.take().map(|thread| thread.join().unwrap());
            }
            if is_late {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The guest's ends.
struct Stage {
    port: UnixStream,
    console: UnixStream,
    words: UnixStream,
    decoder: Decoder,
}

type Play = fn(&mut Stage) -> ExitStatus;

impl Stage {
    fn send_frame(&mut self, frame: &Frame) {
        // An error: the host has closed its end.
        let _ = self.port.write_all(&frame.to_bytes());
    }

    fn greet(&mut self) {
        self.send_frame(&Frame::Hello(Hello { version: VERSION }));
    }

    /// The next frame of the host's; `None` when it is gone.
    fn receive(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next().unwrap() {
                return Some(frame);
            }
            let mut bytes = [0; 4096];
            match self.port.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.decoder.push(&bytes[..length]),
            }
        }
    }

    fn print(&mut self, text: &str) {
        let _ = self.console.write_all(text.as_bytes());
    }

    fn done(&mut self, how: How) {
        self.send_frame(&Frame::Over(how));
        self.send_frame(&Frame::Done(Done::default()));
    }

    /// A guest in which every job writes its name and ends well.
    fn serve(&mut self) -> ExitStatus {
        while let Some(frame) = self.receive() {
            if let Frame::Run(job) = frame {
                self.send_frame(&Frame::Output(job.name.into_bytes()));
                self.done(How::Exited(0));
            }
        }
        off()
    }

    /// Receives and sends no more, until it is ended.
    fn hang(&mut self) -> ExitStatus {
        while self.receive().is_some() {}
        off()
    }
}

fn off() -> ExitStatus {
    ExitStatus::from_raw(0)
}

fn good(stage: &mut Stage) -> ExitStatus {
    stage.greet();
    stage.serve()
}

fn staged(play: Play, accelerated: bool) -> Machine {
    let (port, its_port) = UnixStream::pair().unwrap();
    let (console, its_console) = UnixStream::pair().unwrap();
    let (words, its_words) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        let (port, console, words) = (its_port, its_console, its_words);
        play(&mut Stage { port, console, words, decoder: Decoder::default() })
    });
    Machine { port, console, words, process: Box::new(Played(Some(thread))), accelerated }
}

/// Records its events.
#[derive(Default)]
struct Notes {
    boots: u32,
    emulating: Vec<String>,
    output: Vec<u8>,
    error: Vec<u8>,
    files: Vec<u8>,
    ends: usize,
    is_closed: bool,
    /// A guest sets it after its fault between two jobs: the host waits there for it.
    awaited: Option<&'static AtomicBool>,
}

impl Listener for Notes {
    fn booting(&mut self, boot: u32) -> io::Result<()> {
        self.boots += 1;
        assert_eq!(boot, self.boots);
        Ok(())
    }
    fn emulating(&mut self, why: &str) -> io::Result<()> {
        self.emulating.push(why.to_owned());
        Ok(())
    }
    fn output(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.output.extend(bytes);
        match self.is_closed {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
    fn error(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.error.extend(bytes);
        Ok(())
    }
    fn files(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        self.files.extend(bytes);
        Ok(())
    }
    fn ended(&mut self, _job: &Job, _ended: &Ended) -> io::Result<()> {
        self.ends += 1;
        let until = Instant::now() + PATIENT.job;
        while self.awaited.is_some_and(|has_happened| !has_happened.load(Ordering::Acquire)) {
            assert!(Instant::now() < until, "the guest has not done what it should not");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn jobs(names: &str) -> Vec<Job> {
    names.split_whitespace().map(|name| Job::new(name, vec!["true".into()])).collect()
}

/// Runs jobs in guests that are played one after the other; the last one again and again.
fn play(plays: &[Play], jobs: &[Job], limits: Limits) -> (Vec<Ended>, Notes) {
    play_to(Notes::default(), plays, jobs, limits)
}

fn play_to(mut notes: Notes, plays: &[Play], jobs: &[Job], limits: Limits) -> (Vec<Ended>, Notes) {
    let mut boots = 0;
    let mut boot = |_| {
        boots += 1;
        Ok(staged(plays[plays.len().min(boots) - 1], false))
    };
    let ended = run_with(&mut boot, jobs, limits, &mut notes).unwrap();
    assert_eq!((ended.len(), notes.ends), (jobs.len(), jobs.len()));
    (ended, notes)
}

/// The outcome of a job in such a guest; asserts that the next one runs in another guest.
fn outcome(limits: Limits, bad: Play) -> Ended {
    let begun = Instant::now();
    let mut all = jobs("bad next");
    all[1].limit = 10;
    let (mut ended, _) = play(&[bad, good], &all, limits);
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert_eq!((&ended[1].outcome, ended[1].boot), (&Outcome::Exited { status: 0 }, 2));
    ended.swap_remove(0)
}
