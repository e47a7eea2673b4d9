// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running the variants in alternation, round after round.

use super::variant::{Programs, Variant};
use crate::alternate::{order, progress_bar};
use crate::appliance::{Appliance, Measured};
use crate::early_end;
use crate::json::NotRun;
use anyhow::{bail, Context};
use std::collections::BTreeMap;

/// The plan of each run of the appliance.
pub struct Plan {
    pub rounds: usize,
    pub events: usize,
    pub hogs: usize,
    pub iterations_per_ms: u64,
    pub variants: Vec<Variant>,
}

/// All measurements: for each variant one entry a round.
pub struct Session {
    pub runs: BTreeMap<Variant, Vec<Measured>>,
    pub not_run: Vec<NotRun>,
    /// Variants that ran well in some rounds and then failed: their numbers are left out too.
    pub failed: Vec<NotRun>,
}

/// Runs all of it. A variant that cannot be run, or fails once, is left out and named with the
/// reason; only the variants that need no privilege must succeed. A signal ends it early.
pub fn measure(plan: &Plan, programs: &Programs) -> anyhow::Result<Session> {
    early_end::catch()?;
    let mut session = Session { runs: BTreeMap::new(), not_run: Vec::new(), failed: Vec::new() };
    let progress = progress_bar(plan.rounds * plan.variants.len());
    'all: for round in 0..plan.rounds {
        for variant in order(&plan.variants, round) {
            if session.lacks(variant) {
                progress.inc(1);
                continue;
            }
            progress.set_message(format!("round {}, {}", round + 1, variant.name()));
            match run_once(variant, plan, programs, round as u64 + 1) {
                Ok(measured) => session.runs.entry(variant).or_default().push(measured),
                // Its programs got the signal too.
                Err(_) if early_end::ended_by().is_some() => {}
                Err(error) if is_optional(variant) => session.give_up(variant, &error),
                Err(error) => return Err(error.context(variant.name())),
            }
            if early_end::ended_by().is_some() {
                break 'all;
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    early_end::require_some(session.runs.len())?;
    Ok(session)
}

impl Session {
    fn lacks(&self, variant: Variant) -> bool {
        let mut without_numbers = self.not_run.iter().chain(&self.failed);
        without_numbers.any(|entry| entry.variant == variant.name())
    }

    fn give_up(&mut self, variant: Variant, error: &anyhow::Error) {
        let variant_name = variant.name().to_owned();
        match self.runs.remove(&variant).map_or(0, |runs| runs.len()) {
            0 => {
                let reason = format!("{error:#}");
                self.not_run.push(NotRun { variant: variant_name, reason });
            }
            good => {
                let reason = format!("after {good} good rounds, which are left out: {error:#}");
                self.failed.push(NotRun { variant: variant_name, reason });
            }
        }
    }
}

fn is_optional(variant: Variant) -> bool {
    variant.has_load() && variant != Variant::Conventional
}

fn run_once(
    variant: Variant,
    plan: &Plan,
    programs: &Programs,
    seed: u64,
) -> anyhow::Result<Measured> {
    let mut command = variant.command(programs).map_err(anyhow::Error::msg)?;
    let hogs = if variant.has_load() { plan.hogs } else { 0 };
    for (option, value) in [
        ("--events", plan.events as u64),
        ("--hogs", hogs as u64),
        ("--iterations-per-ms", plan.iterations_per_ms),
        ("--seed", seed),
        ("--limit", 60 + 2 * plan.events as u64),
    ] {
        command.arg(option).arg(value.to_string());
    }
    let appliance = Appliance::start(command)?;
    variant
        .apply(&appliance.threads)
        .context("the kernel refused it; `tek doctor` says why and what to do")?;
    let (measured, printed) = appliance.go()?;
    match variant.verify(&measured) {
        Ok(()) => Ok(measured),
        Err(text) if printed.is_empty() => bail!("{text}; `tek doctor` says why"),
        Err(text) => bail!("{text}: {printed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::fixture;

    #[test]
    fn a_variant_that_was_refused_has_no_numbers() {
        let mut session =
            Session { runs: BTreeMap::new(), not_run: Vec::new(), failed: Vec::new() };
        session.give_up(Variant::Nice, &anyhow::anyhow!("refused"));
        assert!(session.lacks(Variant::Nice) && !session.lacks(Variant::TekName));
        assert_eq!((session.not_run.len(), session.failed.len()), (1, 0));
    }

    #[test]
    fn a_variant_that_fails_after_good_rounds_is_not_hidden_among_those_that_cannot_run() {
        let mut session = fixture::session();
        session.give_up(Variant::TekName, &anyhow::anyhow!("was not scheduled as meant"));
        assert!(session.lacks(Variant::TekName) && !session.runs.contains_key(&Variant::TekName));
        assert_eq!((session.not_run.len(), session.failed.len()), (0, 1));
        let reason = &session.failed[0].reason;
        assert!(reason.contains("2 good rounds") && reason.contains("as meant"), "{reason}");
    }

    #[test]
    fn the_baselines_are_not_optional() {
        assert!(!is_optional(Variant::Alone) && !is_optional(Variant::Conventional));
        assert!(is_optional(Variant::TekApi) && is_optional(Variant::HogsIdle));
    }
}
