// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines above the table: the device, the Fast threads, and the current choice.
use super::daemon::Daemon;
use super::sample::Sample;
use super::state::State;
use crate::units::time;
use tek_abi::printable;

/// Load, CPUs and threads.
pub fn device(sample: &Sample) -> String {
    let kernel = sample.kernel_threads();
    let (all, cpus) = (sample.threads.len(), sample.cpus);
    format!("load {}  {cpus} CPUs  {all} threads, {kernel} of the kernel", sample.load)
}

/// The mode of the device, why, and the status of tekd.
pub fn mode(sample: &Sample) -> String {
    let fast = sample.fast();
    let mode = match fast.len() {
        0 => "normal mode, no thread is Fast".to_owned(),
        count => format!("responsiveness mode, {count} Fast: {}", fast.join(", ")),
    };
    // The part that may be long comes last: lines are cut.
    match &sample.daemon {
        Daemon::Absent => mode,
        Daemon::Silent => format!("tekd does not tell  {mode}"),
        Daemon::Answer(latest) => {
            let lowered = match latest.lowered.len() {
                0 => String::new(),
                count => format!(", {count} lowered"),
            };
            let answered = printable(latest.mode.as_bytes());
            format!("tekd: {answered}, {} Fast by it{lowered}  {mode}", latest.fast.len())
        }
    }
}

/// The display settings, and TEK's own cost.
pub fn shown(state: &State) -> String {
    let interval = format!("every {}", state.interval.as_secs_f64());
    let choice = &state.choice;
    let order = if choice.sort.down { "down" } else { "up" };
    let mut parts = vec![
        if state.is_paused { "PAUSED".into() } else { format!("{interval}s") },
        format!("by {} {order}", choice.sort.column.name()),
    ];
    let switches = [(choice.tree, "tree"), (choice.kernel, "kernel"), (choice.fast, "only Fast")];
    parts.extend(switches.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.into()));
    if !choice.filter.is_empty() {
        parts.push(format!("with {}", printable(choice.filter.as_bytes())));
    }
    parts.push(format!("{} shown", state.rows.len()));
    if !state.sample.is_compared {
        parts.push("since they began".into());
    }
    let cost = state.sample.cost;
    let examine = time(u64::try_from(cost.examine.as_nanos()).unwrap_or(u64::MAX));
    parts.push(format!("tek itself {:.1}% of a CPU, {examine} a look", cost.percent));
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::super::daemon::Answer;
    use super::super::sample::tests::sample;
    use super::super::state::tests::state;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_device_is_described_in_three_lines() {
        assert_eq!(device(&sample()), "load 1.02 0.98 2.10  2 CPUs  5 threads, 1 of the kernel");
        assert_eq!(
            mode(&sample()),
            "tekd: responsiveness, 1 Fast by it  responsiveness mode, 1 Fast: \
             touch\\u{1b}[2J\\u{202e} (fridge)"
        );
        let reported = shown(&state());
        assert_eq!(
            reported,
            "every 1s  by cpu% down  4 shown  tek itself 1.2% of a CPU, 12ms a look"
        );
    }

    #[test]
    fn without_a_daemon_the_mode_is_read_from_the_tables_alone() {
        let with = |daemon| mode(&Sample { daemon, ..sample() });
        assert_eq!(with(Daemon::Absent), "normal mode, no thread is Fast");
        assert_eq!(with(Daemon::Silent), "tekd does not tell  normal mode, no thread is Fast");
        let latest =
            Answer { mode: "x".into(), lowered: HashSet::from([(1, 2)]), ..Answer::default() };
        let reported = with(Daemon::Answer(latest.into()));
        assert_eq!(reported, "tekd: x, 0 Fast by it, 1 lowered  normal mode, no thread is Fast");
    }

    #[test]
    fn a_pause_and_a_filter_are_shown() {
        let mut state = state();
        state.is_paused = true;
        state.choice.filter = "\x1b".into();
        assert!(shown(&state).starts_with("PAUSED  by cpu% down  with \\u{1b}  4 shown"));
    }
}
