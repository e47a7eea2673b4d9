// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests that come up, or do not, and those between two jobs.
use super::*;

#[test]
fn a_guest_that_ends_between_jobs_is_nobodys_fault() {
    static IS_OFF: AtomicBool = AtomicBool::new(false);
    let (ended, _) = play_to(
        Notes { awaited: Some(&IS_OFF), ..Notes::default() },
        &[
            |stage| {
                stage.greet();
                stage.receive();
                stage.done(How::Exited(0));
                // As QEMU's end does, but before it is reported.
                stage.port.shutdown(std::net::Shutdown::Both).unwrap();
                IS_OFF.store(true, Ordering::Release);
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
    static HAS_TALKED: AtomicBool = AtomicBool::new(false);
    let (ended, _) = play_to(
        Notes { awaited: Some(&HAS_TALKED), ..Notes::default() },
        &[
            |stage| {
                stage.greet();
                stage.receive();
                stage.done(How::Exited(0));
                stage.send_frame(&Frame::Output(b"late".to_vec()));
                HAS_TALKED.store(true, Ordering::Release);
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
fn a_boot_that_a_user_watches_is_not_tried_again() {
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
fn a_panic_at_boot_is_reported_with_its_console() {
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
fn the_message_of_init_before_it_gives_up_is_the_reason() {
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
fn a_guest_too_small_for_its_files_is_reported_as_such() {
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
        stage.send_frame(&Frame::Hello(Hello { version: 7 }));
        stage.hang()
    });
    assert!(version.contains("version 7"), "{version}");
    let early = why(|stage| {
        stage.send_frame(&Frame::Output(b"x".to_vec()));
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
