// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job's output, and how it is reported.
use super::*;

#[test]
fn jobs_run_in_one_boot_and_all_they_write_is_reported() {
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
        stage.receive();
        let left = vec!["a mount".to_owned()];
        stage.send_frame(&Frame::Over(How::Exited(0)));
        stage.send_frame(&Frame::Done(Done { left, ..Done::default() }));
        stage.hang()
    };
    let (ended, _) = play(&[messy, good], &jobs("a b"), PATIENT);
    assert_eq!((ended[0].left.as_slice(), ended[0].boot), (["a mount".to_owned()].as_slice(), 1));
    assert_eq!((ended[1].left.len(), ended[1].boot), (0, 2));
}

#[test]
fn frames_may_come_in_any_pieces() {
    let (ended, notes) = play(
        &[|stage| {
            let mut bytes = Frame::Hello(Hello { version: VERSION }).to_bytes();
            for byte in bytes.drain(..) {
                stage.port.write_all(&[byte]).unwrap();
            }
            stage.receive();
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
            stage.receive();
            for frame in 0..FRAMES {
                stage.send_frame(&Frame::Output(frame.to_le_bytes().repeat(8000)));
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
            stage.receive();
            stage.send_frame(&Frame::Files(b"tar".to_vec()));
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
fn a_lack_of_memory_is_reported_even_if_the_console_is_late() {
    let killed = |late: Play| play(&[late], &jobs("a"), PATIENT).0.remove(0).outcome;
    let outcome = killed(|stage| {
        stage.greet();
        stage.receive();
        stage.done(How::Killed(9));
        std::thread::sleep(Duration::from_millis(50));
        stage.print("[ 1.0] Out of memory: Killed process 61 (tail)\n");
        stage.hang()
    });
    assert_eq!(outcome, Outcome::Killed { signal: 9, out_of_memory: true });
    let outcome = killed(|stage| {
        stage.greet();
        stage.receive();
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
            stage.receive();
            // A console line is the job's if the host reads it after the job began: give it time.
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
fn a_job_that_cannot_be_started_has_the_reason() {
    let (ended, _) = play(
        &[|stage| {
            stage.greet();
            stage.receive();
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
