// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variants of an experiment in alternation, round after round.

use super::case::Case;
use super::stage::{Run, Stage};
use super::variant::Variant;
use crate::alternate::{order, progress_bar};
use crate::early_end;
use crate::json::NotRun;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Rounds of the cases that are not judged.
const SIDE_ROUNDS: usize = 2;

/// One case: for each variant one run a round.
#[derive(Default, Serialize)]
pub struct Measured {
    pub name: String,
    pub judged: bool,
    #[serde(serialize_with = "by_name")]
    pub runs: BTreeMap<Variant, Vec<Run>>,
}

fn by_name<S: Serializer>(runs: &BTreeMap<Variant, Vec<Run>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(runs.iter().map(|(variant, runs)| (variant.name(), runs)))
}

/// An experiment.
#[derive(Default, Serialize)]
pub struct Session {
    pub part: &'static str,
    pub cases: Vec<Measured>,
    #[serde(skip)]
    pub not_run: Vec<NotRun>,
    #[serde(skip)]
    pub failed: Vec<NotRun>,
}

impl Session {
    fn lacks(&self, variant: Variant, case: usize) -> bool {
        let all = self.name(variant);
        let one = self.name_of(variant, case);
        self.not_run.iter().any(|it| it.variant == all)
            || self.failed.iter().any(|it| it.variant == one)
    }

    fn name(&self, variant: Variant) -> String {
        format!("{}, {}", self.part, variant.name())
    }

    fn name_of(&self, variant: Variant, case: usize) -> String {
        format!("{}, {}, {}", self.part, self.cases[case].name, variant.name())
    }

    /// A variant that cannot run at all is named once, one that ran before with the case.
    fn give_up(&mut self, variant: Variant, case: usize, error: &anyhow::Error) {
        let ran = self.cases.iter().any(|it| it.runs.contains_key(&variant));
        let good = self.cases[case].runs.remove(&variant).map_or(0, |runs| runs.len());
        if ran {
            let reason = format!("after {good} good rounds, which are left out: {error:#}");
            self.failed.push(NotRun { variant: self.name_of(variant, case), reason });
        } else {
            let reason = format!("{error:#}");
            self.not_run.push(NotRun { variant: self.name(variant), reason });
        }
    }
}

/// Runs it. A variant that cannot be run, or fails once, is left out and named with the reason. A
/// signal ends it early.
pub fn measure(
    stage: &mut Stage,
    part: &'static str,
    cases: &[Case],
    variants: &[Variant],
    rounds: usize,
) -> Session {
    let mut session = Session { part, ..Session::default() };
    let rounds_of = |case: &Case| if case.side { rounds.min(SIDE_ROUNDS) } else { rounds };
    let runs: usize = cases.iter().map(|case| rounds_of(case) * variants.len()).sum();
    let progress = progress_bar(runs);
    'all: for (number, case) in cases.iter().enumerate() {
        if early_end::ended_by().is_some() {
            break;
        }
        let measured =
            Measured { name: case.name.clone(), judged: !case.side, ..Measured::default() };
        session.cases.push(measured);
        if let Err(error) = stage.arrange(case) {
            let variant = format!("{part}, {}", case.name);
            session.not_run.push(NotRun { variant, reason: format!("{error:#}") });
            continue;
        }
        for round in 0..rounds_of(case) {
            for variant in order(variants, round) {
                if !session.lacks(variant, number) {
                    progress.set_message(format!("{}, {}", case.name, variant.name()));
                    match stage.run(case, variant) {
                        Ok(run) => {
                            session.cases[number].runs.entry(variant).or_default().push(run);
                        }
                        // Its programs got the signal too.
                        Err(_) if early_end::ended_by().is_some() => {}
                        Err(error) => session.give_up(variant, number, &error),
                    }
                }
                if early_end::ended_by().is_some() {
                    break 'all;
                }
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    session
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_that_never_ran_is_named_once_for_all_cases() {
        let case = |name: &str| Measured { name: name.to_owned(), ..Measured::default() };
        let cases = vec![case("first"), case("second")];
        let mut session = Session { part: "pdflush", cases, ..Session::default() };
        session.give_up(Variant::Tek, 0, &anyhow::anyhow!("unknown key kthreads"));
        assert!(session.lacks(Variant::Tek, 1) && !session.lacks(Variant::Plain, 0));
        assert_eq!(session.not_run[0].variant, "pdflush, TEK");

        session.cases[0].runs.insert(Variant::Static, vec![Run::default()]);
        session.give_up(Variant::Static, 1, &anyhow::anyhow!("ended early"));
        assert!(session.lacks(Variant::Static, 1) && !session.lacks(Variant::Static, 0));
        assert_eq!(session.failed.len(), 1);
    }
}
