// SPDX-License-Identifier: MIT OR Apache-2.0
//! An owner of changes is killed at random moments; the next one finds them, and undoes them.
mod common;

use common::numbers::Numbers;
use common::{ended_well, in_child, kill_child, may_use_real_time, seen, set, Seen, Sleeper};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_effect::{Effect, Error, Identity, Scheduling};

/// As many at least, and so many times as many at most until enough changes were in force at the
/// kills: how much CPU an owner gets in its life is left to chance.
const ROUNDS: usize = 50;
const MOST_TIMES: usize = 10;
const LONGEST: Duration = Duration::from_secs(120);

const BEFORE: [Seen; 6] = [
    (libc::SCHED_OTHER, 0, 0),
    (libc::SCHED_OTHER, -7, 0),
    (libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK, 3, 0),
    (libc::SCHED_IDLE, 1, 0),
    (libc::SCHED_FIFO, 4, 10),
    (libc::SCHED_RR, -2, 30),
];

fn wanted(numbers: &mut Numbers) -> Scheduling {
    let reset_on_fork = numbers.below(2) == 0;
    match numbers.below(3) {
        0 => {
            Scheduling { policy: 2, nice: 0, priority: 1 + numbers.below(50) as u32, reset_on_fork }
        }
        1 => Scheduling { policy: 3, nice: numbers.below(19) as i32, priority: 0, reset_on_fork },
        _ => Scheduling { policy: 0, nice: numbers.below(19) as i32, priority: 0, reset_on_fork },
    }
}

/// Goes on until it is killed.
fn change_for_ever(
    journal: &Path,
    tids: &[i32],
    file: &Path,
    numbers: &mut Numbers,
) -> Result<(), Error> {
    let (mut effect, _) = Effect::open(journal)?;
    let (mut changes, mut files) = (Vec::new(), Vec::new());
    // Of the last thread the change rests and is resumed.
    let (restless, tids) = tids.split_last().unwrap();
    let restless = Identity::of(*restless)?;
    let mut resting = None;
    loop {
        match resting {
            Some(change) => effect.resume(change, wanted(numbers))?,
            None => resting = Some(effect.set_scheduling(restless, wanted(numbers))?),
        }
        match numbers.below(8) {
            0..3 => {
                let thread_id = Identity::of(tids[numbers.below(tids.len() as u64) as usize])?;
                changes.push(effect.set_scheduling(thread_id, wanted(numbers))?);
            }
            3 if !changes.is_empty() => {
                let change = changes[numbers.below(changes.len() as u64) as usize];
                match effect.set_again(change, wanted(numbers)) {
                    Ok(()) | Err(Error::Invalid { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            4..6 if !changes.is_empty() => {
                let at = numbers.below(changes.len() as u64) as usize;
                effect.undo(changes.remove(at))?;
            }
            6 => {
                let text = format!("{:4}\n", numbers.below(1000));
                files.push(effect.write_file(file, text.as_bytes())?);
            }
            7 if numbers.below(5) == 0 => {
                effect.undo_all();
                (changes, resting) = (Vec::new(), None);
                files.clear();
            }
            _ => {}
        }
        if let Some(change) = resting {
            effect.rest(change)?;
        }
    }
}

#[test]
fn whenever_its_owner_is_killed_the_next_one_finds_nothing_different_from_before() {
    if !may_use_real_time() {
        return;
    }
    let start = Instant::now();
    let directory = tempfile::tempdir().unwrap();
    let (journal, file): (PathBuf, PathBuf) =
        (directory.path().join("state"), directory.path().join("weight"));
    let sleepers: Vec<Sleeper> = BEFORE.iter().map(|_| Sleeper::new()).collect();
    let tids: Vec<i32> = sleepers.iter().map(|sleeper| sleeper.tid).collect();
    for (&tid, &before) in tids.iter().zip(&BEFORE) {
        assert!(set(tid, before));
    }
    fs::write(&file, "   1\n").unwrap();

    let mut numbers = Numbers(0x7e4b_1ade_5eed);
    let (mut differences, mut restores, mut round) = (0, 0, 0);
    while round < ROUNDS || (restores <= ROUNDS && round < MOST_TIMES * ROUNDS) {
        assert!(start.elapsed() < LONGEST, "too slow: round {round}");
        let mut theirs = Numbers(numbers.below(u64::MAX) | 1);
        let child = in_child(|| change_for_ever(&journal, &tids, &file, &mut theirs).is_ok());
        sleep(Duration::from_micros(500 + numbers.below(30_000)));
        kill_child(child);
        assert!(!ended_well(child));
        let (_effect, restored) = Effect::open(&journal).unwrap();
        assert_eq!((restored.changed, restored.failed.len()), (0, 0), "{round}: {restored:?}");
        restores += restored.undone;
        let after: Vec<Seen> = tids.iter().map(|&tid| seen(tid)).collect();
        differences += after.iter().zip(&BEFORE).filter(|(after, before)| after != before).count();
        differences += usize::from(fs::read_to_string(&file).unwrap() != "   1\n");
        assert_eq!(differences, 0, "round {round}: {after:?}");
        round += 1;
    }
    assert!(restores > ROUNDS, "only {restores} changes were in force at the kills");
    println!("{round} kills, {restores} changes undone, {differences} differences");
}
