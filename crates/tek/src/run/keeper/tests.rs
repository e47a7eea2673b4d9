// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

#[test]
fn the_cpu_and_time_of_a_thread_are_known() {
    let thread = own();
    let mut before = 0;
    for _ in 0..3 {
        let (_, now) = cpu_and_time(thread).unwrap();
        assert!(now >= before);
        before = now;
    }
    assert_eq!(cpu_and_time(earlier(thread)), None);
    assert_eq!(Thread::of(i32::MAX, 1), None);
}

fn own() -> Thread {
    Thread::of(std::process::id() as i32, nix::unistd::gettid().as_raw()).unwrap()
}

/// A thread that had the ids of another one before.
fn earlier(thread: Thread) -> Thread {
    Thread { start_ticks: thread.start_ticks - 1, ..thread }
}

/// A watch of this process, in a directory where this process has its file.
fn watch_of_own(directory: &Path) -> Watch {
    let budget = Budget::Limit { cpu: USUAL_CPU, window: USUAL_WINDOW };
    let watch = Watch::new(directory, 1, budget);
    fs::write(watch.file_of(std::process::id() as i32), "").unwrap();
    watch
}

/// Calls `act` in a thread of this state.
fn as_thread_of(state: State, act: impl FnOnce(Thread) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set(0, state);
            assert_eq!(super::state(0), Some(state));
            act(own());
            set(0, LOWERED);
        });
    });
}

#[test]
fn a_thread_that_has_the_ids_of_a_lowered_one_gets_no_policy() {
    let over = Some(Instant::now());
    let settle = |thread| {
        let lowered = BTreeSet::from([thread]);
        let mut cpu = Cpu { out_until: over, lowered, ..Cpu::default() };
        cpu.settle(Instant::now(), &[], 1);
        state(thread.tid)
    };
    as_thread_of(LOWERED, |thread| assert_eq!(settle(earlier(thread)), Some(LOWERED)));
}

#[test]
#[ignore = "needs root"]
fn what_a_thread_with_the_same_ids_used_before_does_not_hide_the_use_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let mut watch = watch_of_own(directory.path());
    as_thread_of(State { policy: FIFO, priority: 1 }, |thread| {
        watch.used.insert(earlier(thread), u64::MAX);
        watch.examine();
        assert!(watch.used.contains_key(&thread));
        assert!(watch.cpus.values().any(|cpu| cpu.used() > Duration::ZERO));
    });
}

#[test]
fn the_file_of_an_earlier_process_does_not_count_until_it_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let mut watch = watch_of_own(directory.path());
    let pid = std::process::id() as i32;
    let is_known = |watch: &mut Watch| watch.processes().iter().any(|(its, _)| *its == pid);
    assert!(is_known(&mut watch));
    watch.shown.get_mut(&pid).unwrap().start_ticks -= 1;
    assert!(!is_known(&mut watch) && !is_known(&mut watch));
    let file = fs::File::create(watch.file_of(pid)).unwrap();
    file.set_modified(SystemTime::now() + USUAL_WINDOW).unwrap();
    assert!(is_known(&mut watch));
}

#[test]
fn what_a_thread_uses_while_it_is_lowered_does_not_count() {
    let thread = own();
    let directory = tempfile::tempdir().unwrap();
    let budget = Budget::Limit { cpu: USUAL_CPU, window: USUAL_WINDOW };
    let mut watch = Watch::new(directory.path(), 1, budget);
    let out_until = Some(Instant::now() + 60 * USUAL_WINDOW);
    let lowered = BTreeSet::from([thread]);
    watch.cpus.insert(0, Cpu { out_until, lowered, ..Cpu::default() });
    for _ in 0..2 {
        let (_, before) = cpu_and_time(thread).unwrap();
        watch.examine();
        assert!(watch.used.get(&thread).is_some_and(|used| *used >= before));
    }
    assert_eq!(watch.cpus[&0].used(), Duration::ZERO);
}

#[test]
fn a_cpu_forgets_what_was_used_a_window_ago() {
    let mut cpu = Cpu::default();
    cpu.add(500);
    for _ in 1..SAMPLES {
        cpu.next_check();
        cpu.add(10);
    }
    assert_eq!(cpu.used(), Duration::from_nanos(500 + 10 * (SAMPLES as u64 - 1)));
    cpu.next_check();
    assert_eq!(cpu.used(), Duration::from_nanos(10 * (SAMPLES as u64 - 1)));
}

#[test]
fn samples_of_more_than_a_window_have_more_than_its_budget() {
    let of = |ms| allowed(ms_of(800), ms_of(1000), ms_of(ms));
    assert_eq!((of(100), of(1000), of(1500)), (ms_of(800), ms_of(800), ms_of(1200)));
}

fn ms_of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
