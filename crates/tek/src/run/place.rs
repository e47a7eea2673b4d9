// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --place`: on which CPU each thread of the program runs.
//!
//! This module computes the order of the CPUs. The library in the program deals them out. It gets
//! the order as one variable (`TEK_PLACE` of libtek(7)), or as the engine's option `pin`.
use crate::message;
use crate::system::topology::{self, Cpu};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::str::FromStr;
use tek_command::values::place::{
    decimal, priority, ranges, Order, Place, MOST_CPUS, USUAL_PRIORITY,
};

/// The variable that libtek.so reads.
pub const VARIABLE: &str = "TEK_PLACE";

/// A place on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    rtfifo: Option<u8>,
    /// In the order in which they are dealt.
    cpus: Vec<u32>,
    has_nodes: bool,
}

impl Plan {
    /// The place here and now.
    pub fn of(place: &Place) -> Result<Self, String> {
        let allowed = topology::allowed();
        Self::on(place, &topology::read(Path::new(topology::ROOT), &allowed))
    }

    /// The place where these CPUs may be used.
    fn on(place: &Place, cpus: &[Cpu]) -> Result<Self, String> {
        let numbers: Vec<_> =
            cpus.iter().map(|cpu| cpu.number).filter(|&number| number < MOST_CPUS).collect();
        let order = match &place.order {
            Order::Numbers => numbers,
            Order::Spread => topology::spread(cpus),
            Order::Compact => topology::compact(cpus),
            Order::Cores(list) => {
                if let Some(cpu) = list.iter().find(|&cpu| !numbers.contains(cpu)) {
                    return Err(format!(
                        "--place: CPU {cpu} cannot be used: the program may use {} (what is \
                         offline, cpusets and taskset count)",
                        ranges(&numbers)
                    ));
                }
                list.clone()
            }
        };
        let cpus_of: Vec<_> = order.into_iter().filter(|&number| number < MOST_CPUS).collect();
        if cpus_of.is_empty() {
            return Err("--place: the kernel does not say which CPUs the program may use".into());
        }
        let has_nodes = topology::has_nodes(cpus);
        Ok(Self { rtfifo: place.rtfifo, cpus: cpus_of, has_nodes })
    }
}

impl FromStr for Plan {
    type Err = &'static str;

    /// A value of [`VARIABLE`], as the library reads it or more strictly.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write what --place takes, or what libtek(7) says of this variable, \
                            as in rtfifo=1,cpus=0";
        let mut plan = Self { rtfifo: None, cpus: Vec::new(), has_nodes: false };
        for item in text.split(',') {
            match item.split_once('=').unwrap_or((item, "")) {
                ("cpus", list) if plan.cpus.is_empty() => plan.cpus = dealt(list).ok_or(FORM)?,
                ("rtfifo", _) if item == "rtfifo" => plan.rtfifo = Some(USUAL_PRIORITY),
                ("rtfifo", text) => plan.rtfifo = Some(priority(text).map_err(|_| FORM)?),
                _ if item == "numa" => plan.has_nodes = true,
                _ => return Err(FORM),
            }
        }
        if plan.cpus.is_empty() {
            return Err(FORM);
        }
        Ok(plan)
    }
}

/// CPUs with colons between them, each once.
fn dealt(list: &str) -> Option<Vec<u32>> {
    let numbers = list.split(':').map(|text| decimal(text).filter(|&number| number < MOST_CPUS));
    let numbers: Vec<_> = numbers.collect::<Option<_>>()?;
    let distinct: BTreeSet<_> = numbers.iter().collect();
    (distinct.len() == numbers.len()).then_some(numbers)
}

impl Plan {
    /// The place from the option or, without it, from the environment: there in the option's
    /// syntax, or as tek itself wrote it for a run around this one.
    pub fn wanted(
        option: Option<&Place>,
        inherited: Option<&OsStr>,
    ) -> Result<Option<Self>, String> {
        if let Some(place) = option {
            return Self::of(place).map(Some);
        }
        let Some(text) = inherited.filter(|text| !text.is_empty()) else { return Ok(None) };
        let text = text.to_string_lossy();
        match text.parse::<Place>() {
            Ok(place) => Self::of(&place).map(Some),
            Err(_) => {
                let plan: Self =
                    text.parse().map_err(|why| format!("{VARIABLE} is {text}: {why}"))?;
                if let Some(note) = plan.left_out(&topology::allowed()) {
                    message::print(&format!("{VARIABLE} is {text}: {note}"));
                }
                Ok(Some(plan))
            }
        }
    }

    /// The CPUs that the library leaves out: a run inside a smaller set of CPUs has the rest of the
    /// list.
    fn left_out(&self, allowed: &[u32]) -> Option<String> {
        let mut lost: Vec<_> =
            self.cpus.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect();
        lost.sort_unstable();
        (!lost.is_empty()).then(|| {
            format!(
                "of these {} cannot be used, the program may use {}",
                ranges(&lost),
                ranges(allowed)
            )
        })
    }

    /// Whether threads are to be real-time.
    pub fn is_rtfifo(&self) -> bool {
        self.rtfifo.is_some()
    }

    /// Their priority, if they are real-time.
    pub fn rtfifo(&self) -> Option<u8> {
        self.rtfifo
    }

    /// Value of [`VARIABLE`].
    pub fn variable(&self) -> String {
        let rtfifo = self.rtfifo.map(|priority| format!("rtfifo={priority},")).unwrap_or_default();
        let numa = if self.has_nodes { "numa," } else { "" };
        format!("{rtfifo}{numa}cpus={}", self.first(MOST_CPUS))
    }

    /// The first CPUs with colons between them, at most so many.
    pub fn first(&self, most: u32) -> String {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.cpus.iter().take(most).map(ToString::to_string).collect::<Vec<_>>().join(":")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.cpus.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod reader {
        include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
    }

    use proptest::prelude::*;

    /// Four cores of two hardware threads, on two nodes.
    fn machine() -> Vec<Cpu> {
        let cpu = |number: u32| {
            let core = i64::from(number / 2);
            Cpu { number, capacity: 1024, within: [core / 2, core / 2, core / 2, core] }
        };
        (0..8).map(cpu).collect()
    }

    fn on(place: &Place, cpus: &[Cpu]) -> Result<Plan, String> {
        Plan::on(place, cpus)
    }

    #[test]
    fn the_variable_is_read_as_in_the_library() {
        for vector in reader::read("placement.txt") {
            let text = vector.word(1);
            let plan = text.parse::<Plan>().ok();
            let written = match vector.word(0) {
                "option" => Some(on(&text.parse().unwrap(), &machine()).unwrap().variable()),
                _ => plan.map(|plan| plan.variable()),
            };
            let expected = (vector.word(0) != "refused").then(|| vector.word(2));
            assert_eq!(written.as_deref(), expected, "{}", vector.place);
        }
    }

    #[test]
    fn what_cannot_be_used_of_a_list_is_reported() {
        let left_out = |text: &str| text.parse::<Plan>().unwrap().left_out(&[0, 1, 2]);
        assert_eq!(left_out("cpus=1:0"), None);
        let reported = left_out("cpus=9:0:8").unwrap();
        assert_eq!(reported, "of these 8-9 cannot be used, the program may use 0-2");
    }

    #[test]
    fn one_node_is_not_worth_a_word() {
        let place: Place = "rtfifo,compact".parse().unwrap();
        assert_eq!(on(&place, &machine()[..4]).unwrap().variable(), "rtfifo=1,cpus=0:1:2:3");
    }

    #[test]
    fn a_cpu_that_the_program_may_not_use_is_named_with_those_that_it_may() {
        let place: Place = "cores=1-9".parse().unwrap();
        let printed = on(&place, &machine()).unwrap_err();
        assert!(printed.contains("CPU 8") && printed.contains("0-7"), "{printed}");
        assert!(on(&"spread".parse().unwrap(), &[]).is_err());
    }

    fn inherited(text: &str) -> Result<Option<String>, String> {
        let plan = Plan::wanted(None, Some(OsStr::new(text)))?;
        Ok(plan.map(|plan| plan.variable()))
    }

    #[test]
    fn the_environment_may_ask_as_the_option_does_or_as_the_library_reads_it() {
        let fifo: Place = "rtfifo=3".parse().unwrap();
        assert_eq!(inherited("rtfifo=3"), Ok(Some(Plan::of(&fifo).unwrap().variable())));
        assert_eq!(inherited("numa,cpus=5:0"), Ok(Some("numa,cpus=5:0".to_owned())));
        assert_eq!(inherited("cpus=7,rtfifo"), Ok(Some("rtfifo=1,cpus=7".to_owned())));
        assert_eq!(inherited(""), Ok(None));
        assert_eq!(Plan::wanted(None, None), Ok(None));
    }

    #[test]
    fn what_the_environment_asks_for_is_checked_too() {
        for bad in ["fifo", "rtfifo=50", "cpus=0:0"] {
            assert!(inherited(bad).unwrap_err().starts_with(&format!("TEK_PLACE is {bad}: ")));
        }
    }

    #[test]
    fn the_option_comes_before_the_environment() {
        let place: Place = "rtfifo=3".parse().unwrap();
        let plan = Plan::wanted(Some(&place), Some(OsStr::new("nonsense"))).unwrap().unwrap();
        assert_eq!(plan.rtfifo, Some(3));
    }

    #[test]
    fn this_machine_has_a_plan() {
        let plan = Plan::of(&"rtfifo,spread".parse().unwrap()).unwrap();
        assert_eq!(plan.count(), topology::allowed().len());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fall(text in "[rtfifoscpread=,0-9-]{0,24}") {
            if let Ok(place) = text.parse::<Place>() {
                let _ = on(&place, &machine());
            }
        }

        #[test]
        fn a_plan_reads_as_it_is_written(
            cpus in prop::collection::hash_set(0u32..1024, 1..50),
            rtfifo in prop::option::of(1u8..=49),
            has_nodes: bool,
        ) {
            let plan = Plan { rtfifo, cpus: cpus.into_iter().collect(), has_nodes };
            prop_assert_eq!(plan.variable().parse(), Ok(plan));
        }
    }
}
