// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges a benchmark: compares the quantities that it measured with the bounds of bounds.toml.
//!
//! Each benchmark calls [`judge`] once, after it has measured. Nothing here knows a benchmark.

use super::json::Row;
use super::table::table;
use super::terminal::Terminal;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static FILE: LazyLock<File> = LazyLock::new(|| {
    toml::from_str(include_str!("../bounds.toml")).expect("a test reads bounds.toml")
});

/// Of each benchmark, of each part.
type Parts<T> = BTreeMap<String, BTreeMap<String, Vec<T>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bounds: Parts<Bound>,
    enough: Parts<Enough>,
}

/// A bound, as a list of its fields.
#[derive(Deserialize)]
struct Bound {
    quantity: String,
    must: Must,
    statement: String,
    #[serde(default = "no_value")]
    paper: String,
}

fn no_value() -> String {
    "-".to_owned()
}

/// The least amount of a quantity for a trustworthy measurement.
#[derive(Deserialize)]
struct Enough(u64, String);

/// The required range of a quantity.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Must {
    at_most: bool,
    limit: f64,
    /// After the point of the limit.
    digits: usize,
    unit: String,
    text: String,
}

impl TryFrom<String> for Must {
    type Error = String;

    fn try_from(text: String) -> Result<Must, String> {
        let wrong = || format!("{text:?} is not <= or >=, a number and a unit");
        let [comparison, limit, unit] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(wrong());
        };
        let at_most = match comparison {
            "<=" => true,
            ">=" => false,
            _ => return Err(wrong()),
        };
        let digits = limit.split_once('.').map_or(0, |(_, digits)| digits.len());
        let limit = limit.parse().map_err(|_| wrong())?;
        Ok(Must { at_most, limit, digits, unit: unit.to_owned(), text })
    }
}

/// The measured quantities by name. A quantity that could not be measured is absent.
#[derive(Default)]
pub struct Quantities(BTreeMap<String, f64>);

impl<Name: Into<String>> Extend<(Name, Option<f64>)> for Quantities {
    fn extend<I: IntoIterator<Item = (Name, Option<f64>)>>(&mut self, all: I) {
        let measured = all.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        self.0.extend(measured);
    }
}

impl<Name: Into<String>, const N: usize> From<[(Name, Option<f64>); N]> for Quantities {
    fn from(all: [(Name, Option<f64>); N]) -> Quantities {
        let mut quantities = Quantities::default();
        quantities.extend(all);
        quantities
    }
}

/// The judgement of a run.
pub struct Verdicts {
    verdicts: Vec<Verdict>,
    /// What was measured too seldom, a reason for each part.
    too_few: Vec<String>,
}

struct Verdict {
    bound: &'static Bound,
    value: Option<f64>,
}

/// Compares the quantities with the bounds of these parts, in this order.
pub fn judge<Part: AsRef<str>>(
    bench: &str,
    parts: impl IntoIterator<Item = Part>,
    quantities: &Quantities,
) -> Verdicts {
    let mut judged = Verdicts { verdicts: Vec::new(), too_few: Vec::new() };
    for part in parts {
        let bounds = of_part(&FILE.bounds, bench, part.as_ref()).iter();
        judged.verdicts.extend(bounds.map(|bound| {
            let value = quantities.0.get(&bound.quantity).copied();
            Verdict { bound, value }
        }));
        judged.too_few.extend(too_few(of_part(&FILE.enough, bench, part.as_ref()), quantities));
    }
    judged
}

fn of_part<T>(parts: &'static Parts<T>, bench: &str, part: &str) -> &'static [T] {
    parts.get(bench).and_then(|parts| parts.get(part)).map_or(&[], Vec::as_slice)
}

fn too_few(enough: &[Enough], quantities: &Quantities) -> Option<String> {
    let had = |Enough(_, name): &Enough| quantities.0.get(name).copied().unwrap_or(0.0);
    let few: Vec<_> = enough.iter().filter(|it| had(it) < it.0 as f64).collect();
    let joined = |text: &dyn Fn(&Enough) -> String| {
        few.iter().map(|it| text(it)).collect::<Vec<_>>().join(" and ")
    };
    (!few.is_empty()).then(|| {
        let wanted = joined(&|it| format!("{} {}", it.0, it.1));
        format!("the bars ask for {wanted}; this run had {}", joined(&|it| had(it).to_string()))
    })
}

impl Verdict {
    fn met(&self) -> bool {
        let Must { at_most, limit, .. } = self.bound.must;
        self.value.is_some_and(|value| if at_most { value <= limit } else { value >= limit })
    }

    fn measured(&self) -> String {
        let Some(value) = self.value else {
            return "not measured".to_owned();
        };
        let digits = match value.abs() {
            0.0 => 0,
            ..10.0 => 2,
            10.0..100.0 => 1,
            _ => 0,
        };
        let Must { digits: of_limit, ref unit, .. } = self.bound.must;
        format!("{value:.*} {unit}", of_limit.max(digits))
    }
}

impl Verdicts {
    /// For people.
    pub fn report(&self, terminal: Terminal) -> String {
        if self.verdicts.is_empty() {
            return String::new();
        }
        let mut table = table(&["TEK beside the paper", "paper", "must be", "measured"], terminal);
        for it in &self.verdicts {
            let result = match it.value {
                None => "",
                Some(_) if it.met() => " PASS",
                Some(_) => " short",
            };
            let measured = it.measured() + result;
            let Bound { statement, paper, must, .. } = it.bound;
            table.add_row([statement, paper, &must.text, &measured]);
        }
        let cautions = self.too_few.iter().map(|reason| format!("caution: {reason}\n"));
        format!("{}\n{}", table.trim_fmt(), cautions.collect::<String>())
    }

    /// The rows of the JSON document.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.verdicts.iter().filter_map(|it| {
            let Bound { statement, must, .. } = it.bound;
            Some(Row::number("must show", "tek", statement, &must.unit, it.value?))
        })
    }

    /// Why `--assert` fails, a reason each: the missed bounds, and what was measured too seldom.
    pub fn failures(&self) -> Vec<String> {
        let missed = self.verdicts.iter().filter(|it| !it.met()).map(|it| {
            let Bound { statement, must, .. } = it.bound;
            format!("{statement} is {}, must be {}", it.measured(), must.text)
        });
        missed.chain(self.too_few.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TERMINAL: Terminal = Terminal { width: 120, unicode: false };

    /// The parking of a thread, and its memory after a preemption.
    fn million(parked: Option<f64>, live: f64) -> Verdicts {
        let quantities = Quantities::from([
            ("parked", parked),
            ("preempted", Some(10.0)),
            ("live threads", Some(live)),
        ]);
        judge("uthread", ["million"], &quantities)
    }

    #[test]
    fn the_quantity_identifies_a_bound_of_a_part() {
        for (part, bounds) in FILE.bounds.values().flatten() {
            let quantities: BTreeSet<_> = bounds.iter().map(|it| &it.quantity).collect();
            assert_eq!(quantities.len(), bounds.len(), "{part}");
        }
    }

    #[test]
    fn no_bound_is_a_time_but_those_that_hold_on_each_machine() {
        let all = FILE.bounds.values().flatten().flat_map(|(_, bounds)| bounds);
        let times = all.filter(|it| ["ns", "us", "ms", "s"].contains(&&it.must.unit[..]));
        let times: Vec<_> = times.map(|it| (&it.quantity[..], it.must.limit)).collect();
        assert_eq!(times, [("third task", 0.0), ("spared", 0.0)]);
    }

    #[test]
    fn a_bound_is_a_comparison_a_number_and_a_unit() {
        for text in ["", "1 ns", "< 1 ns", "<= x ns", "<= 1", "<= 1 ns a call"] {
            assert!(Must::try_from(text.to_owned()).is_err(), "{text}");
        }
        let must = Must::try_from(">= 7.3 times".to_owned()).unwrap();
        assert_eq!((must.at_most, must.limit, &must.unit[..]), (false, 7.3, "times"));
    }

    #[test]
    fn a_value_at_its_limit_passes() {
        let judged = million(Some(6.0), 1e6);
        assert_eq!(judged.failures(), [""; 0]);
        assert_eq!(judged.rows().count(), 2);
        assert_eq!(judged.report(TERMINAL).matches(" PASS").count(), 2);
    }

    #[test]
    fn a_value_beyond_its_limit_is_named_with_its_limit() {
        let judged = million(Some(6.5), 1e6);
        assert_eq!(
            judged.failures(),
            ["a live thread's memory, parked is 6.50 KB, must be <= 6 KB"]
        );
        let text = judged.report(TERMINAL);
        assert!(text.contains("6.50 KB short") && text.contains("10.0 KB PASS"), "{text}");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        for value in [None, Some(f64::NAN)] {
            let judged = million(value, 1e6);
            assert_eq!(judged.failures().len(), 1);
        }
        assert!(million(None, 1e6).failures()[0].contains("is not measured"));
        assert_eq!(million(None, 1e6).rows().count(), 1);
    }

    #[test]
    fn what_was_measured_too_seldom_is_named_with_all_that_lacks() {
        let judged = million(Some(6.0), 20_000.0);
        let reason = "the bars ask for 1000000 live threads; this run had 20000";
        assert_eq!(judged.failures(), [reason]);
        assert!(judged.report(TERMINAL).contains(&format!("caution: {reason}")));
        let judged = judge("uthread", ["micro"], &Quantities::default());
        let reason = "the bars ask for 9 rounds of calls and 9 rounds of preemption; \
                      this run had 0 and 0";
        assert_eq!(judged.failures().last().unwrap(), reason);
    }

    #[test]
    fn of_a_part_without_bounds_nothing_is_asked() {
        let judged = judge("uthread", ["scale"], &Quantities::default());
        assert!(judged.failures().is_empty() && judged.report(TERMINAL).is_empty());
    }
}
