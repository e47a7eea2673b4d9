// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --place`: on which CPU each thread of the program runs.
//!
//! This module computes the order of the CPUs. The library in the program deals them out. It gets
//! the order as one variable (`TEK_PLACE` of libtek(7)), or as the engine's option `pin`.
use crate::message;
use crate::suggested::Suggested;
use crate::system::topology::{self, Cpu};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;

/// The variable that libtek.so reads.
pub const VARIABLE: &str = "TEK_PLACE";

/// libtek.so knows CPUs below this number.
const MOST_CPUS: u32 = 1024;

/// The priority of a plain `rtfifo`, and the highest: the kernel's interrupt threads have 50.
const USUAL_PRIORITY: u8 = 1;
const MOST_PRIORITY: u8 = 49;

/// The form of the option, with an example that works on this machine.
fn form() -> String {
    format!(
        "write rtfifo, rtfifo=PRIORITY, spread, compact or cores=LIST, or rtfifo and one of the \
         others with a comma between them, as in rtfifo,cores={}",
        ranges(&topology::allowed())
    )
}

/// The option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The real-time priority that threads get.
    rtfifo: Option<u8>,
    order: Order,
}

/// In which order CPUs are dealt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    /// By their numbers, as in the paper.
    Numbers,
    Spread,
    Compact,
    Cores(Vec<u32>),
}

/// A place on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    rtfifo: Option<u8>,
    /// In the order in which they are dealt.
    cpus: Vec<u32>,
    has_nodes: bool,
}

/// Parses the option, and has the values for shells' completion.
pub const PLACES: Suggested<Place> = Suggested {
    parse: |text| text.parse(),
    names: || ["rtfifo", "spread", "compact", "cores=0"].map(Into::into).into(),
};

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut rtfifo, mut order, mut rest) = (None, None, Some(text));
        while let Some(text) = rest {
            if let Some(list) = text.strip_prefix("cores=") {
                // The list has commas of its own, so it is the last item.
                let first = order.replace(Order::Cores(cores(list)?)).is_none();
                rest = None;
                if !first {
                    return Err(form());
                }
                continue;
            }
            let (item, behind) =
                text.split_once(',').map_or((text, None), |(item, behind)| (item, Some(behind)));
            rest = behind;
            let first = match (item, item.strip_prefix("rtfifo=")) {
                ("spread", _) => order.replace(Order::Spread).is_none(),
                ("compact", _) => order.replace(Order::Compact).is_none(),
                ("rtfifo", _) => rtfifo.replace(USUAL_PRIORITY).is_none(),
                (_, Some(text)) => rtfifo.replace(priority(text)?).is_none(),
                _ => return Err(form()),
            };
            if !first {
                return Err(form());
            }
        }
        Ok(Self { rtfifo, order: order.unwrap_or(Order::Numbers) })
    }
}

fn priority(text: &str) -> Result<u8, String> {
    let number = decimal(text).and_then(|number| u8::try_from(number).ok());
    number.filter(|number| (1..=MOST_PRIORITY).contains(number)).ok_or_else(|| {
        format!(
            "the priority of rtfifo is a number from 1 to {MOST_PRIORITY}: the kernel's interrupt \
             threads have 50"
        )
    })
}

fn decimal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A list such as `0-3,6`, in its order.
fn cores(list: &str) -> Result<Vec<u32>, String> {
    let form = || {
        let own = ranges(&topology::allowed());
        format!("write CPUs after cores=, numbers and ranges with the lower one first, as in {own}")
    };
    let number = |text| decimal(text).filter(|&number| number < MOST_CPUS).ok_or_else(form);
    let mut cpus = Vec::new();
    for item in list.split(',') {
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(form());
        }
        for cpu in low..=high {
            if cpus.contains(&cpu) {
                return Err(format!(
                    "CPU {cpu} is twice in the list: each is dealt in turn anyway"
                ));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Numbers in rising order as the kernel writes them, `0-3,6`.
fn ranges(numbers: &[u32]) -> String {
    let mut text = String::new();
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

impl Place {
    /// Whether threads are to be real-time.
    pub fn is_rtfifo(&self) -> bool {
        self.rtfifo.is_some()
    }

    /// The place here and now.
    pub fn plan(&self) -> Result<Plan, String> {
        let allowed = topology::allowed();
        self.on(&topology::read(Path::new(topology::ROOT), &allowed))
    }

    /// The place where these CPUs may be used.
    fn on(&self, cpus: &[Cpu]) -> Result<Plan, String> {
        let numbers: Vec<_> =
            cpus.iter().map(|cpu| cpu.number).filter(|&number| number < MOST_CPUS).collect();
        let order = match &self.order {
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
        Ok(Plan { rtfifo: self.rtfifo, cpus: cpus_of, has_nodes })
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
            return place.plan().map(Some);
        }
        let Some(text) = inherited.filter(|text| !text.is_empty()) else { return Ok(None) };
        let text = text.to_string_lossy();
        match text.parse::<Place>() {
            Ok(place) => place.plan().map(Some),
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
    use proptest::prelude::*;

    /// Four cores of two hardware threads, on two nodes.
    fn machine() -> Vec<Cpu> {
        let cpu = |number: u32| {
            let core = i64::from(number / 2);
            Cpu { number, capacity: 1024, within: [core / 2, core / 2, core / 2, core] }
        };
        (0..8).map(cpu).collect()
    }

    fn variable(text: &str) -> String {
        text.parse::<Place>().unwrap().on(&machine()).unwrap().variable()
    }

    #[test]
    fn each_way_has_its_order() {
        assert_eq!(variable("rtfifo"), "rtfifo=1,numa,cpus=0:1:2:3:4:5:6:7");
        assert_eq!(variable("spread"), "numa,cpus=0:4:2:6:1:5:3:7");
        assert_eq!(variable("compact"), "numa,cpus=0:1:2:3:4:5:6:7");
        assert_eq!(variable("cores=5,0-2"), "numa,cpus=5:0:1:2");
        assert_eq!(variable("rtfifo=7,cores=0-1,6"), "rtfifo=7,numa,cpus=0:1:6");
        assert_eq!(variable("spread,rtfifo"), "rtfifo=1,numa,cpus=0:4:2:6:1:5:3:7");
    }

    #[test]
    fn what_cannot_be_used_of_a_list_is_told() {
        let left_out = |text: &str| text.parse::<Plan>().unwrap().left_out(&[0, 1, 2]);
        assert_eq!(left_out("cpus=1:0"), None);
        let reported = left_out("cpus=9:0:8").unwrap();
        assert_eq!(reported, "of these 8-9 cannot be used, the program may use 0-2");
    }

    #[test]
    fn one_node_is_not_worth_a_word() {
        let place: Place = "rtfifo,compact".parse().unwrap();
        assert_eq!(place.on(&machine()[..4]).unwrap().variable(), "rtfifo=1,cpus=0:1:2:3");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "",
            ",",
            "fifo",
            "rtfifo,",
            "rtfifo,rtfifo",
            "spread,compact",
            "rtfifo=0",
            "rtfifo=50",
            "rtfifo=x",
            "rtfifo=+1",
            "cores",
            "cores=",
            "cores=,",
            "cores=1,",
            "cores=3-1",
            "cores=1-",
            "cores=-1",
            "cores=0,0",
            "cores=0-2,1",
            "cores=1024",
            "cores=+1",
            "cores=0 1",
            "spread,cores=0",
            "cores=0,rtfifo",
            "Spread",
        ] {
            assert!(bad.parse::<Place>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_cpu_that_the_program_may_not_use_is_named_with_those_that_it_may() {
        let place: Place = "cores=1-9".parse().unwrap();
        let printed = place.on(&machine()).unwrap_err();
        assert!(printed.contains("CPU 8") && printed.contains("0-7"), "{printed}");
        assert!("spread".parse::<Place>().unwrap().on(&[]).is_err());
    }

    fn inherited(text: &str) -> Result<Option<String>, String> {
        let plan = Plan::wanted(None, Some(OsStr::new(text)))?;
        Ok(plan.map(|plan| plan.variable()))
    }

    #[test]
    fn the_environment_may_ask_as_the_option_does_or_as_the_library_reads_it() {
        let fifo: Place = "rtfifo=3".parse().unwrap();
        assert_eq!(inherited("rtfifo=3"), Ok(Some(fifo.plan().unwrap().variable())));
        assert_eq!(inherited("numa,cpus=5:0"), Ok(Some("numa,cpus=5:0".to_owned())));
        assert_eq!(inherited("cpus=7,rtfifo"), Ok(Some("rtfifo=1,cpus=7".to_owned())));
        assert_eq!(inherited(""), Ok(None));
        assert_eq!(Plan::wanted(None, None), Ok(None));
    }

    #[test]
    fn what_the_environment_asks_for_is_checked_too() {
        for bad in [
            "fifo",
            "rtfifo=50",
            "rtfifo=1,cpus=",
            "cpus=0:0",
            "cpus=1024",
            "cpus=0,",
            "cpus=0,rtfifo=",
            "cpus=0,numa=1",
            "cpus=0,cpus=1",
            "numa",
            "cpus=+1",
        ] {
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
        let plan = "rtfifo,spread".parse::<Place>().unwrap().plan().unwrap();
        assert_eq!(plan.count(), topology::allowed().len());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fall(text in "[rtfifoscpread=,0-9-]{0,24}") {
            if let Ok(place) = text.parse::<Place>() {
                let _ = place.on(&machine());
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

        #[test]
        fn a_list_comes_through(numbers in prop::collection::btree_set(0u32..1024, 1..50)) {
            let numbers: Vec<_> = numbers.into_iter().collect();
            prop_assert_eq!(cores(&ranges(&numbers)).unwrap(), numbers);
        }
    }
}
