// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests of all kinds, each played by a thread at the other ends of the sockets.
use super::*;
use crate::machine::Process;
use crate::protocol::Decoder;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread::JoinHandle;

const LIMITS: Limits = Limits {
    boot: Duration::from_secs(10),
    job: Duration::from_millis(200),
    grace: Duration::from_millis(200),
    panic: Duration::from_millis(200),
    clearing: Duration::from_secs(2),
    boots: BOOTS,
};

/// Of jobs that end by themselves.
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
        while Instant::now() < until {
            if self.0.as_ref().is_some_and(JoinHandle::is_finished) {
                return self.0.take().map(|thread| thread.join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
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
    fn say(&mut self, frame: &Frame) {
        // An error: the host has had enough.
        let _ = self.port.write_all(&frame.to_bytes());
    }

    fn greet(&mut self) {
        self.say(&Frame::Hello(Hello { version: VERSION }));
    }

    /// The next frame of the host's; `None` when it is gone.
    fn hear(&mut self) -> Option<Frame> {
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
        self.say(&Frame::Over(how));
        self.say(&Frame::Done(Done::default()));
    }

    /// A guest in which every job says its name and ends well.
    fn serve(&mut self) -> ExitStatus {
        while let Some(frame) = self.hear() {
            if let Frame::Run(job) = frame {
                self.say(&Frame::Output(job.name.into_bytes()));
                self.done(How::Exited(0));
            }
        }
        off()
    }

    /// Hears and says no more, until it is ended.
    fn hang(&mut self) -> ExitStatus {
        while self.hear().is_some() {}
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

/// Keeps what it is told.
#[derive(Default)]
struct Notes {
    boots: u32,
    emulating: Vec<String>,
    output: Vec<u8>,
    error: Vec<u8>,
    files: Vec<u8>,
    ends: usize,
    is_closed: bool,
}

/// What the host takes between two jobs, so that guests have time to do what they should not.
const PAUSE: Duration = Duration::from_millis(20);

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
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

fn jobs(names: &str) -> Vec<Job> {
    names.split_whitespace().map(|name| Job::new(name, vec!["true".into()])).collect()
}

/// Runs jobs in guests that are played one after the other; the last one again and again.
fn play(plays: &[Play], jobs: &[Job], limits: Limits) -> (Vec<Ended>, Notes) {
    let mut notes = Notes::default();
    let mut boots = 0;
    let mut boot = |_| {
        boots += 1;
        Ok(staged(plays[plays.len().min(boots) - 1], false))
    };
    let ended = run_with(&mut boot, jobs, limits, &mut notes).unwrap();
    assert_eq!((ended.len(), notes.ends), (jobs.len(), jobs.len()));
    (ended, notes)
}

/// What becomes of a job in such a guest, and that the next one is run in another.
fn outcome(bad: Play) -> Ended {
    let begun = Instant::now();
    let mut all = jobs("bad next");
    all[1].limit = 10;
    let (mut ended, _) = play(&[bad, good], &all, LIMITS);
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert_eq!((&ended[1].outcome, ended[1].boot), (&Outcome::Exited { status: 0 }, 2));
    ended.swap_remove(0)
}

#[test]
fn jobs_run_in_one_boot_and_all_they_write_is_told() {
    let (ended, notes) = play(&[good], &jobs("a b c"), PATIENT);
    assert_eq!((notes.boots, notes.output.as_slice()), (1, b"abc".as_slice()));
    assert!(ended.iter().all(|ended| ended.outcome.is_success() && ended.boot == 1));
    assert!(ended.iter().all(|ended| ended.console.is_empty()));
}

#[test]
fn a_job_that_wants_a_fresh_guest_gets_one() {
    let mut all = jobs("a b c");
    all[0].fresh = true; // the first is fresh anyway
    all[1].fresh = true;
    let (ended, _) = play(&[good], &all, PATIENT);
    assert_eq!(ended.iter().map(|ended| ended.boot).collect::<Vec<_>>(), [1, 2, 2]);
}

#[test]
fn what_a_job_leaves_behind_makes_the_next_one_boot_anew() {
    let messy = |stage: &mut Stage| {
        stage.greet();
        stage.hear();
        let left = vec!["a mount".to_owned()];
        stage.say(&Frame::Over(How::Exited(0)));
        stage.say(&Frame::Done(Done { left, ..Done::default() }));
        stage.hang()
    };
    let (ended, _) = play(&[messy, good], &jobs("a b"), PATIENT);
    assert_eq!((ended[0].left.as_slice(), ended[0].boot), (["a mount".to_owned()].as_slice(), 1));
    assert_eq!((ended[1].left.len(), ended[1].boot), (0, 2));
}

#[test]
fn a_job_past_its_limit_is_ended_and_the_guest_goes_on() {
    let endless = |stage: &mut Stage| {
        stage.greet();
        stage.hear();
        assert_eq!(stage.hear(), Some(Frame::End));
        stage.done(How::Killed(9));
        stage.serve()
    };
    let mut all = jobs("a b");
    all[1].limit = 10;
    let (ended, _) = play(&[endless], &all, LIMITS);
    assert_eq!(ended[0].outcome, Outcome::TimedOut);
    assert_eq!((&ended[1].outcome, ended[1].boot), (&Outcome::Exited { status: 0 }, 1));
}

#[test]
fn a_job_that_ended_in_time_may_be_cleared_away_after_its_limit() {
    let slow = |stage: &mut Stage| {
        stage.greet();
        stage.hear();
        stage.say(&Frame::Over(How::Exited(3)));
        std::thread::sleep(Duration::from_millis(1300));
        stage.say(&Frame::Output(b"late".to_vec()));
        stage.say(&Frame::Done(Done::default()));
        assert!(matches!(stage.hear(), Some(Frame::Run(_))), "it was not told to end");
        stage.done(How::Exited(0));
        stage.hang()
    };
    let mut all = jobs("a b");
    (all[0].limit, all[1].limit) = (1, 10);
    let (ended, notes) = play(&[slow], &all, LIMITS);
    assert_eq!(ended[0].outcome, Outcome::Exited { status: 3 });
    assert_eq!((notes.output.as_slice(), ended[1].boot), (b"late".as_slice(), 1));
}

#[test]
fn a_guest_that_was_told_to_end_a_job_has_time_to_clear_it_away() {
    let slow = |stage: &mut Stage| {
        stage.greet();
        stage.hear();
        assert_eq!(stage.hear(), Some(Frame::End));
        stage.say(&Frame::Over(How::Killed(9)));
        std::thread::sleep(LIMITS.grace * 2);
        stage.say(&Frame::Done(Done::default()));
        stage.serve()
    };
    let mut all = jobs("a b");
    all[1].limit = 10;
    let (ended, _) = play(&[slow], &all, LIMITS);
    assert_eq!((&ended[0].outcome, ended[1].boot), (&Outcome::TimedOut, 1));
}

#[test]
fn a_guest_that_never_clears_a_job_away_is_hung() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        stage.say(&Frame::Over(How::Exited(0)));
        stage.hang()
    });
    assert_eq!(ended.outcome, Outcome::Hung);
}

#[test]
fn a_job_has_its_own_limit_if_it_names_one() {
    let mut one = jobs("a");
    one[0].limit = 1;
    let (ended, _) = play(
        &[|stage| {
            stage.greet();
            stage.hang()
        }],
        &one,
        LIMITS,
    );
    assert_eq!(ended[0].outcome, Outcome::Hung);
    assert!((1.2..5.0).contains(&ended[0].seconds), "{}", ended[0].seconds);
}

#[test]
fn a_guest_that_falls_silent_is_hung() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.print("[ 1.0] rcu: INFO: rcu_sched self-detected stall\n");
        stage.hang()
    });
    assert_eq!(ended.outcome, Outcome::Hung);
    assert_eq!(ended.console, ["[ 1.0] rcu: INFO: rcu_sched self-detected stall"]);
}

#[test]
fn a_guest_that_panics_and_reboots_is_told_with_its_console() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        stage.print("[ 1.0] Kernel panic - not syncing: sysrq\r\n[ 1.1] CPU: 0");
        off()
    });
    assert_eq!(
        ended.outcome,
        Outcome::Panicked { why: "Kernel panic - not syncing: sysrq".into() }
    );
    assert_eq!(ended.console.last().unwrap(), "[ 1.1] CPU: 0");
}

#[test]
fn a_guest_that_panics_and_stays_is_ended_before_the_limit() {
    let limits = Limits { job: Duration::from_secs(60), ..LIMITS };
    let (ended, _) = play(
        &[|stage| {
            stage.greet();
            stage.hear();
            stage.print("Kernel panic - not syncing: so\n");
            stage.hang()
        }],
        &jobs("a"),
        limits,
    );
    assert_eq!(
        ended[0].outcome,
        Outcome::Panicked { why: "Kernel panic - not syncing: so".into() }
    );
    assert!(ended[0].seconds < 5.0);
}

#[test]
fn a_program_that_prints_of_panics_is_no_panic() {
    let (ended, _) = play(
        &[|stage| {
            stage.greet();
            stage.hear();
            stage.print("how to read \"Kernel panic - not syncing\"\n");
            stage.done(How::Exited(0));
            stage.hang()
        }],
        &jobs("a"),
        PATIENT,
    );
    assert!(ended[0].outcome.is_success());
}

#[test]
fn a_guest_that_powers_off_is_stopped() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        off()
    });
    assert_eq!(ended.outcome, Outcome::Stopped);
}

#[test]
fn qemu_killed_is_told_with_its_last_words() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        stage.words.write_all(b"qemu: one\nqemu: cannot go on\n").unwrap();
        ExitStatus::from_raw(libc::SIGKILL)
    });
    let why = "QEMU was killed by SIGKILL: qemu: cannot go on".to_owned();
    assert_eq!(ended.outcome, Outcome::QemuDied { why });
}

#[test]
fn qemu_that_failed_is_told_with_its_status() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        ExitStatus::from_raw(1 << 8)
    });
    assert_eq!(ended.outcome, Outcome::QemuDied { why: "QEMU ended with status 1".into() });
}

#[test]
fn a_guest_that_closes_the_port_and_lives_on_is_ended() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        stage.port.shutdown(std::net::Shutdown::Both).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        off()
    });
    assert_eq!(ended.outcome, Outcome::QemuDied { why: "QEMU closed its port".into() });
}

#[test]
fn what_is_no_frame_ends_the_guest() {
    let garbled = |bad| match outcome(bad).outcome {
        Outcome::Garbled { why } => why,
        other => panic!("{other:?}"),
    };
    let why = garbled(|stage| {
        stage.greet();
        let _ = stage.port.write_all(b"\x7fELF and so on");
        stage.hang()
    });
    // It came before the job did, or during it.
    assert_eq!(why, "a frame of the unknown kind 0x7f");
    let why = garbled(|stage| {
        stage.greet();
        stage.hear();
        let _ = stage.port.write_all(b"O\xff\xff\xff\xff");
        stage.hang()
    });
    assert_eq!(why, "a frame of 4294967295 bytes");
    let why = garbled(|stage| {
        stage.greet();
        stage.hear();
        let _ = stage.port.write_all(b"D\x02\0\0\0[]");
        stage.hang()
    });
    assert!(why.starts_with("a frame D that makes no sense: "), "{why}");
}

#[test]
fn a_frame_out_of_turn_ends_the_guest() {
    let ways: [Play; 6] = [
        |stage| {
            stage.greet();
            stage.hear();
            stage.greet();
            stage.hang()
        },
        |stage| {
            stage.greet();
            stage.hear();
            stage.say(&Frame::End);
            stage.hang()
        },
        |stage| {
            stage.greet();
            stage.hear();
            stage.say(&Frame::Run(Box::new(Job::new("a", Vec::new()))));
            stage.hang()
        },
        // How did it end?
        |stage| {
            stage.greet();
            stage.hear();
            stage.say(&Frame::Done(Done::default()));
            stage.hang()
        },
        |stage| {
            stage.greet();
            stage.hear();
            stage.say(&Frame::Over(How::Exited(0)));
            stage.say(&Frame::Over(How::Exited(0)));
            stage.hang()
        },
        // No files were asked for.
        |stage| {
            stage.greet();
            stage.hear();
            stage.say(&Frame::Files(b"x".to_vec()));
            stage.hang()
        },
    ];
    for way in ways {
        let ended = outcome(way);
        assert!(matches!(ended.outcome, Outcome::Garbled { .. }), "{:?}", ended.outcome);
    }
}

#[test]
fn a_flood_of_frames_does_not_put_off_the_limit() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        let frame = Frame::Output(vec![b'x'; 1000]).to_bytes();
        while stage.port.write_all(&frame).is_ok() {}
        off()
    });
    assert_eq!(ended.outcome, Outcome::Hung);
    assert!(ended.seconds < 5.0, "{}", ended.seconds);
}

#[test]
fn a_flood_on_the_console_does_not_put_off_the_limit() {
    let ended = outcome(|stage| {
        stage.greet();
        stage.hear();
        while stage.console.write_all(&[b'x'; 5000]).is_ok() {}
        off()
    });
    assert_eq!(ended.outcome, Outcome::Hung);
    assert!(ended.seconds < 5.0, "{}", ended.seconds);
}

#[test]
fn a_guest_that_never_reads_is_hung() {
    let mut all = jobs("a b");
    all[0].command = vec!["x".repeat(60_000)];
    all[1].limit = 10;
    let (ended, _) = play(
        &[
            |stage| {
                stage.greet();
                std::thread::sleep(Duration::from_secs(3));
                off()
            },
            good,
        ],
        &all,
        LIMITS,
    );
    assert_eq!(ended[0].outcome, Outcome::Hung);
    assert!(ended[1].outcome.is_success());
}

#[test]
fn frames_may_come_in_any_pieces() {
    let (ended, notes) = play(
        &[|stage| {
            let mut bytes = Frame::Hello(Hello { version: VERSION }).to_bytes();
            for byte in bytes.drain(..) {
                stage.port.write_all(&[byte]).unwrap();
            }
            stage.hear();
            bytes.extend(Frame::Error(b"slow".to_vec()).to_bytes());
            bytes.extend(Frame::Over(How::Exited(3)).to_bytes());
            bytes.extend(Frame::Done(Done::default()).to_bytes());
            for piece in bytes.chunks(3) {
                stage.port.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            stage.hang()
        }],
        &jobs("a"),
        PATIENT,
    );
    assert_eq!(ended[0].outcome, Outcome::Exited { status: 3 });
    assert_eq!(notes.error, b"slow");
}

#[test]
fn much_output_is_whole_and_in_order() {
    const FRAMES: u32 = 1000;
    let (ended, notes) = play(
        &[|stage| {
            stage.greet();
            stage.hear();
            for frame in 0..FRAMES {
                stage.say(&Frame::Output(frame.to_le_bytes().repeat(8000)));
            }
            stage.done(How::Exited(0));
            stage.hang()
        }],
        &jobs("a"),
        PATIENT,
    );
    assert!(ended[0].outcome.is_success());
    assert_eq!(notes.output.len(), FRAMES as usize * 32_000);
    let words = notes.output.chunks(32_000).map(|frame| frame.first_chunk().unwrap());
    assert!(words.map(|word| u32::from_le_bytes(*word)).eq(0..FRAMES));
}

#[test]
fn files_come_after_a_job_that_wants_them() {
    let mut one = jobs("a");
    one[0].files = true;
    let (ended, notes) = play(
        &[|stage| {
            stage.greet();
            stage.hear();
            stage.say(&Frame::Files(b"tar".to_vec()));
            stage.done(How::Exited(0));
            stage.hang()
        }],
        &one,
        PATIENT,
    );
    assert!(ended[0].outcome.is_success());
    assert_eq!(notes.files, b"tar");
}

#[test]
fn a_lack_of_memory_is_told_even_if_the_console_is_late() {
    let killed = |late: Play| play(&[late], &jobs("a"), PATIENT).0.remove(0).outcome;
    let outcome = killed(|stage| {
        stage.greet();
        stage.hear();
        stage.done(How::Killed(9));
        std::thread::sleep(Duration::from_millis(50));
        stage.print("[ 1.0] Out of memory: Killed process 61 (tail)\n");
        stage.hang()
    });
    assert_eq!(outcome, Outcome::Killed { signal: 9, out_of_memory: true });
    let outcome = killed(|stage| {
        stage.greet();
        stage.hear();
        stage.done(How::Killed(9));
        stage.hang()
    });
    assert_eq!(outcome, Outcome::Killed { signal: 9, out_of_memory: false });
}

#[test]
fn a_job_that_was_killed_has_the_console_of_its_own_time() {
    let (ended, _) = play(
        &[|stage| {
            stage.print("[ 0.1] before\n");
            stage.greet();
            stage.hear();
            // Read before or after the job began: only that counts here.
            std::thread::sleep(Duration::from_millis(20));
            stage.print("[ 1.0] a[61]: segfault at 0\n");
            std::thread::sleep(Duration::from_millis(20));
            stage.done(How::Killed(11));
            stage.hang()
        }],
        &jobs("a"),
        PATIENT,
    );
    assert_eq!(ended[0].outcome, Outcome::Killed { signal: 11, out_of_memory: false });
    assert_eq!(ended[0].console, ["[ 1.0] a[61]: segfault at 0"]);
}

#[test]
fn a_job_that_cannot_be_started_says_why() {
    let (ended, _) = play(
        &[|stage| {
            stage.greet();
            stage.hear();
            stage.done(How::NotStarted {
                why: "a: No such file or directory".into(),
                errno: Some(libc::ENOENT),
            });
            stage.serve()
        }],
        &jobs("a b"),
        PATIENT,
    );
    let why = "a: No such file or directory".to_owned();
    assert_eq!(ended[0].outcome, Outcome::NotStarted { why, errno: Some(libc::ENOENT) });
    assert_eq!(ended[1].boot, 1);
}

#[test]
fn a_guest_that_ends_between_jobs_is_nobodys_fault() {
    let (ended, _) = play(
        &[
            |stage| {
                stage.greet();
                stage.hear();
                stage.done(How::Exited(0));
                off()
            },
            good,
        ],
        &jobs("a b"),
        PATIENT,
    );
    assert!(ended.iter().all(|ended| ended.outcome.is_success()));
}

#[test]
fn a_guest_that_talks_between_jobs_is_not_used_again() {
    let (ended, _) = play(
        &[
            |stage| {
                stage.greet();
                stage.hear();
                stage.done(How::Exited(0));
                stage.say(&Frame::Output(b"late".to_vec()));
                stage.hang()
            },
            good,
        ],
        &jobs("a b"),
        PATIENT,
    );
    assert_eq!(ended[1].boot, 2);
}

#[test]
fn a_guest_that_never_greets_is_given_up_after_two_boots() {
    let limits = Limits { boot: Duration::from_millis(400), ..LIMITS };
    let (ended, notes) = play(&[Stage::hang], &jobs("a b c d e"), limits);
    assert_eq!(notes.boots, 2);
    for ended in &ended {
        let why = "no sign of life from the guest in 400ms".to_owned();
        assert_eq!(ended.outcome, Outcome::NotBooted { why });
    }
}

#[test]
fn a_boot_at_which_somebody_looks_on_is_not_tried_again() {
    let limits = Limits { boots: 1, ..PATIENT };
    let (ended, notes) = play(&[|_| off(), good], &jobs("a"), limits);
    assert!(matches!(ended[0].outcome, Outcome::NotBooted { .. }));
    assert_eq!(notes.boots, 1);
}

#[test]
fn a_boot_that_fails_is_tried_again() {
    let crash: Play = |_| ExitStatus::from_raw(libc::SIGABRT);
    let (ended, notes) = play(&[crash, good, crash, good], &fresh(jobs("a b")), PATIENT);
    assert!(ended.iter().all(|ended| ended.outcome.is_success()));
    assert_eq!((ended[0].boot, ended[1].boot, notes.boots), (2, 4, 4));
}

#[test]
fn a_panic_at_boot_is_told_with_its_console() {
    let (ended, _) = play(
        &[|stage| {
            stage.print("[ 0.5] Kernel panic - not syncing: no init\n");
            off()
        }],
        &jobs("a b"),
        PATIENT,
    );
    for ended in ended {
        let why = "Kernel panic - not syncing: no init".to_owned();
        assert_eq!(ended.outcome, Outcome::NotBooted { why });
        assert_eq!(ended.console, ["[ 0.5] Kernel panic - not syncing: no init"]);
    }
}

#[test]
fn a_guest_that_ends_without_a_word_never_started() {
    let (ended, _) = play(&[|_| off()], &jobs("a"), PATIENT);
    let Outcome::NotBooted { why } = &ended[0].outcome else { panic!("{ended:?}") };
    assert!(why.starts_with("the kernel never started: too little memory"), "{why}");
}

#[test]
fn what_init_says_before_it_gives_up_is_the_reason() {
    let (ended, _) = play(
        &[|stage| {
            stage.print("[ 1.0] Run /init\ntek-lab: the agent ends: no port\n[ 2.0] Power down\n");
            off()
        }],
        &jobs("a"),
        PATIENT,
    );
    let why = "the guest powered off before it was up: the agent ends: no port".to_owned();
    assert_eq!(ended[0].outcome, Outcome::NotBooted { why });
}

#[test]
fn a_guest_too_small_for_its_files_is_told_as_that() {
    let (ended, _) = play(
        &[|stage| {
            stage.print("[ 2.5] Initramfs unpacking failed: write error\n");
            off()
        }],
        &jobs("a"),
        PATIENT,
    );
    let why = "its files do not fit into its memory; --memory gives it more".to_owned();
    assert_eq!(ended[0].outcome, Outcome::NotBooted { why });
}

fn fresh(mut jobs: Vec<Job>) -> Vec<Job> {
    for job in &mut jobs {
        job.fresh = true;
    }
    jobs
}

#[test]
fn a_guest_that_greets_wrongly_is_not_used() {
    let why = |greet: Play| match play(&[greet], &jobs("a"), PATIENT).0.remove(0).outcome {
        Outcome::NotBooted { why } => why,
        other => panic!("{other:?}"),
    };
    let version = why(|stage| {
        stage.say(&Frame::Hello(Hello { version: 7 }));
        stage.hang()
    });
    assert!(version.contains("version 7"), "{version}");
    let early = why(|stage| {
        stage.say(&Frame::Output(b"x".to_vec()));
        stage.hang()
    });
    assert_eq!(early, "the guest did not begin with a greeting");
    let nonsense = why(|stage| {
        stage.port.write_all(b"Welcome!").unwrap();
        stage.hang()
    });
    assert_eq!(nonsense, "the guest sent a frame of the unknown kind 0x57");
    let off = why(|stage| {
        stage.print("[ 0.0] Linux\n");
        off()
    });
    assert_eq!(off, "the guest powered off before it was up");
}

#[test]
fn a_processor_of_its_own_that_does_not_work_is_emulated() {
    let mut asked = Vec::new();
    let mut notes = Notes::default();
    let mut boot = |accelerate: bool| {
        asked.push(accelerate);
        let abort: Play = |_| ExitStatus::from_raw(libc::SIGABRT);
        Ok(staged(if accelerate { abort } else { good }, accelerate))
    };
    let mut all = jobs("a b");
    all[1].fresh = true;
    let ended = run_with(&mut boot, &all, PATIENT, &mut notes).unwrap();
    assert!(ended.iter().all(|ended| ended.outcome.is_success()));
    assert_eq!((asked, notes.boots), (vec![true, false, false], 3));
    assert_eq!(notes.emulating, ["QEMU was killed by SIGABRT"]);
}

#[test]
fn a_guest_that_kvm_cannot_run_is_not_waited_for() {
    let mut notes = Notes::default();
    let mut boot = |accelerate: bool| {
        let stopped: Play = |stage| {
            let _ = stage.words.write_all(b"KVM internal error. Suberror: 1\nRAX=0\n");
            stage.hang()
        };
        Ok(staged(if accelerate { stopped } else { good }, accelerate))
    };
    let ended = run_with(&mut boot, &jobs("a"), PATIENT, &mut notes).unwrap();
    assert!(ended[0].outcome.is_success());
    assert_eq!(notes.emulating, ["QEMU stopped it: KVM internal error. Suberror: 1"]);
}

#[test]
fn a_processor_of_its_own_that_worked_before_is_tried_again() {
    let mut asked = Vec::new();
    let mut notes = Notes::default();
    let mut boot = |accelerate: bool| {
        asked.push(accelerate);
        let play = if asked.len() == 2 { |_: &mut Stage| off() } else { good };
        Ok(staged(play, accelerate))
    };
    let mut all = jobs("a b");
    all[1].fresh = true;
    let ended = run_with(&mut boot, &all, PATIENT, &mut notes).unwrap();
    assert!(ended.iter().all(|ended| ended.outcome.is_success()));
    assert_eq!((asked, notes.boots), (vec![true, true, true], 3));
    assert!(notes.emulating.is_empty());
}

#[test]
fn a_listener_that_cannot_go_on_ends_the_session() {
    let mut notes = Notes { is_closed: true, ..Notes::default() };
    let result = run_with(&mut |_| Ok(staged(good, false)), &jobs("a b"), PATIENT, &mut notes);
    let Err(Error::Listener(error)) = result else { panic!("{result:?}") };
    assert_eq!((error.kind(), notes.ends), (io::ErrorKind::BrokenPipe, 0));
}

#[test]
fn no_qemu_ends_the_session() {
    let mut boot = |_| Err(machine::Error::Architecture("m68k".into()));
    let result = run_with(&mut boot, &jobs("a"), PATIENT, &mut Notes::default());
    assert!(matches!(result, Err(Error::Machine(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_from_a_guest_make_an_end(greets: bool, bytes: Vec<u8>, console: Vec<u8>) {
        let mut boot = |_| {
            let machine = staged(|_| off(), false);
            let (port, mut its_port) = UnixStream::pair().unwrap();
            let (text, mut its_text) = UnixStream::pair().unwrap();
            if greets {
                let hello = Hello { version: VERSION };
                its_port.write_all(&Frame::Hello(hello).to_bytes()).unwrap();
            }
            its_port.write_all(&bytes).unwrap();
            its_text.write_all(&console).unwrap();
            Ok(Machine { port, console: text, ..machine })
        };
        let ended =
            run_with(&mut boot, &jobs("a b"), PATIENT, &mut Notes::default()).unwrap();
        prop_assert_eq!(ended.len(), 2);
    }
}
