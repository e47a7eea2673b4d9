// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests and sessions that end before their jobs have.
use super::*;
use proptest::prelude::*;

#[test]
fn a_guest_that_falls_silent_is_hung() {
    let ended = outcome(LIMITS, |stage| {
        stage.greet();
        stage.print("[ 1.0] rcu: INFO: rcu_sched self-detected stall\n");
        stage.hang()
    });
    assert_eq!(ended.outcome, Outcome::Hung);
    assert_eq!(ended.console, ["[ 1.0] rcu: INFO: rcu_sched self-detected stall"]);
}

#[test]
fn a_guest_that_panics_and_reboots_is_reported_with_its_console() {
    let ended = outcome(PATIENT, |stage| {
        stage.greet();
        stage.receive();
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
            stage.receive();
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
            stage.receive();
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
    let ended = outcome(PATIENT, |stage| {
        stage.greet();
        stage.receive();
        off()
    });
    assert_eq!(ended.outcome, Outcome::Stopped);
}

#[test]
fn a_killed_qemu_is_reported_with_its_last_message() {
    let ended = outcome(PATIENT, |stage| {
        stage.greet();
        stage.receive();
        stage.words.write_all(b"qemu: one\nqemu: cannot go on\n").unwrap();
        ExitStatus::from_raw(libc::SIGKILL)
    });
    let why = "QEMU was killed by SIGKILL: qemu: cannot go on".to_owned();
    assert_eq!(ended.outcome, Outcome::QemuDied { why });
}

#[test]
fn a_failed_qemu_is_reported_with_its_status() {
    let ended = outcome(PATIENT, |stage| {
        stage.greet();
        stage.receive();
        ExitStatus::from_raw(1 << 8)
    });
    assert_eq!(ended.outcome, Outcome::QemuDied { why: "QEMU ended with status 1".into() });
}

#[test]
fn a_guest_that_closes_the_port_and_lives_on_is_ended() {
    let ended = outcome(Limits { grace: LIMITS.grace, ..PATIENT }, |stage| {
        stage.greet();
        stage.receive();
        stage.port.shutdown(std::net::Shutdown::Both).unwrap();
        // This guest sends nothing: it lives until the host is gone.
        let _ = stage.console.read(&mut [0]);
        off()
    });
    assert_eq!(ended.outcome, Outcome::QemuDied { why: "QEMU closed its port".into() });
}

#[test]
fn what_is_no_frame_ends_the_guest() {
    let garbled = |bad| match outcome(PATIENT, bad).outcome {
        Outcome::Garbled { why } => why,
        other => panic!("{other:?}"),
    };
    let why = garbled(|stage| {
        stage.greet();
        let _ = stage.port.write_all(b"\x7fELF and so on");
        stage.hang()
    });
    // The bytes arrived before the job did, or during it.
    assert_eq!(why, "a frame of the unknown kind 0x7f");
    let why = garbled(|stage| {
        stage.greet();
        stage.receive();
        let _ = stage.port.write_all(b"O\xff\xff\xff\xff");
        stage.hang()
    });
    assert_eq!(why, "a frame of 4294967295 bytes");
    let why = garbled(|stage| {
        stage.greet();
        stage.receive();
        let _ = stage.port.write_all(b"D\x02\0\0\0[]");
        stage.hang()
    });
    assert!(why.starts_with("a frame D that makes no sense: "), "{why}");
}

#[test]
fn an_unexpected_frame_ends_the_guest() {
    let ways: [Play; 6] = [
        |stage| {
            stage.greet();
            stage.receive();
            stage.greet();
            stage.hang()
        },
        |stage| {
            stage.greet();
            stage.receive();
            stage.send_frame(&Frame::End);
            stage.hang()
        },
        |stage| {
            stage.greet();
            stage.receive();
            stage.send_frame(&Frame::Run(Box::new(Job::new("a", Vec::new()))));
            stage.hang()
        },
        // The frame with the job's end is missing.
        |stage| {
            stage.greet();
            stage.receive();
            stage.send_frame(&Frame::Done(Done::default()));
            stage.hang()
        },
        |stage| {
            stage.greet();
            stage.receive();
            stage.send_frame(&Frame::Over(How::Exited(0)));
            stage.send_frame(&Frame::Over(How::Exited(0)));
            stage.hang()
        },
        // No files were requested.
        |stage| {
            stage.greet();
            stage.receive();
            stage.send_frame(&Frame::Files(b"x".to_vec()));
            stage.hang()
        },
    ];
    for way in ways {
        let ended = outcome(PATIENT, way);
        assert!(matches!(ended.outcome, Outcome::Garbled { .. }), "{:?}", ended.outcome);
    }
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
