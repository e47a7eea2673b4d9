// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs and guests that take too long.
use super::*;

#[test]
fn a_job_past_its_limit_is_ended_and_the_guest_goes_on() {
    let endless = |stage: &mut Stage| {
        stage.greet();
        stage.receive();
        assert_eq!(stage.receive(), Some(Frame::End));
        stage.done(How::Killed(9));
        stage.serve()
    };
    let mut all = jobs("a b");
    all[1].limit = 10;
    let (ended, _) = play(&[endless], &all, Limits { job: LIMITS.job, ..PATIENT });
    assert_eq!(ended[0].outcome, Outcome::TimedOut);
    assert_eq!((&ended[1].outcome, ended[1].boot), (&Outcome::Exited { status: 0 }, 1));
}

#[test]
fn a_job_that_ended_in_time_may_be_cleared_away_after_its_limit() {
    let slow = |stage: &mut Stage| {
        stage.greet();
        stage.receive();
        stage.send_frame(&Frame::Over(How::Exited(3)));
        std::thread::sleep(Duration::from_millis(3300));
        stage.send_frame(&Frame::Output(b"late".to_vec()));
        stage.send_frame(&Frame::Done(Done::default()));
        assert!(matches!(stage.receive(), Some(Frame::Run(_))), "it was not told to end");
        stage.done(How::Exited(0));
        stage.hang()
    };
    let mut all = jobs("a b");
    (all[0].limit, all[1].limit) = (3, 10);
    let (ended, notes) = play(&[slow], &all, PATIENT);
    assert_eq!(ended[0].outcome, Outcome::Exited { status: 3 });
    assert_eq!((notes.output.as_slice(), ended[1].boot), (b"late".as_slice(), 1));
}

#[test]
fn a_guest_that_has_to_end_a_job_gets_time_to_clear_it_away() {
    // As long as the guest may take to report that the job is over.
    const GRACE: Duration = Duration::from_secs(3);
    let slow = |stage: &mut Stage| {
        stage.greet();
        stage.receive();
        assert_eq!(stage.receive(), Some(Frame::End));
        stage.send_frame(&Frame::Over(How::Killed(9)));
        std::thread::sleep(GRACE + Duration::from_millis(300));
        stage.send_frame(&Frame::Done(Done::default()));
        stage.serve()
    };
    let mut all = jobs("a b");
    all[1].limit = 10;
    let limits = Limits { job: LIMITS.job, grace: GRACE, ..PATIENT };
    let (ended, _) = play(&[slow], &all, limits);
    assert_eq!((&ended[0].outcome, ended[1].boot), (&Outcome::TimedOut, 1));
}

#[test]
fn a_guest_that_never_clears_a_job_away_is_hung() {
    let ended = outcome(LIMITS, |stage| {
        stage.greet();
        stage.receive();
        stage.send_frame(&Frame::Over(How::Exited(0)));
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
fn a_flood_of_frames_does_not_put_off_the_limit() {
    let ended = outcome(LIMITS, |stage| {
        stage.greet();
        stage.receive();
        let frame = Frame::Output(vec![b'x'; 1000]).to_bytes();
        while stage.port.write_all(&frame).is_ok() {}
        off()
    });
    assert_eq!(ended.outcome, Outcome::Hung);
    assert!(ended.seconds < 5.0, "{}", ended.seconds);
}

#[test]
fn a_flood_on_the_console_does_not_put_off_the_limit() {
    let ended = outcome(LIMITS, |stage| {
        stage.greet();
        stage.receive();
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
                // This guest sends nothing: it lives until the host is gone.
                let _ = stage.console.read(&mut [0]);
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
