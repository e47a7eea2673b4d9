// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spin locks, queue nodes, mathematical functions, allocators and getters by themselves (Figs 3 to
//! 7).

use super::launch::{command, run_lines};
use super::paper;
use super::setting::{Setting, GLIBC};
use super::Part;
use crate::alternate::order;
use crate::json::{NotRun, Row};
use crate::programs;
use crate::stats::{median, median_of_ratios};
use crate::table::table;
use crate::terminal::Terminal;
use anyhow::{bail, Context};
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tek_command::values::kind::name_of;
use tek_command::values::lock::Lock;

const LIMIT: Duration = Duration::from_secs(300);

/// A point of a figure: of each round, a value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub part: Part,
    /// The line of the figure.
    pub variant: String,
    /// Along its axis: a number of threads, or a function.
    pub at: String,
    pub values: Vec<f64>,
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub points: Vec<Point>,
}

impl Measured {
    fn add(&mut self, part: Part, variant: String, at: String, value: f64) {
        let same = |it: &&mut Point| (it.part, &it.variant, &it.at) == (part, &variant, &at);
        match self.points.iter_mut().find(same) {
            Some(point) => point.values.push(value),
            None => self.points.push(Point { part, variant, at, values: vec![value] }),
        }
    }

    fn values(&self, part: Part, variant: &str, at: &str) -> &[f64] {
        let same = |it: &&Point| (it.part, &it.variant[..], &it.at[..]) == (part, variant, at);
        self.points.iter().find(same).map_or(&[], |it| &it.values)
    }

    /// One variant's value as a multiple of another one's there: the median of the rounds.
    pub fn ratio(&self, part: Part, at: &str, one: &str, other: &str) -> Option<f64> {
        median_of_ratios(self.values(part, one, at), self.values(part, other, at))
    }

    /// Its value divided by the best of all variants but Concurrency Kit's.
    pub fn by_best(&self, part: Part, at: &str, one: &str) -> Option<f64> {
        let of_it = |it: &&Point| it.part == part && it.at == at && !it.variant.starts_with("ck-");
        let all = self.points.iter().filter(of_it).filter_map(|it| median(&it.values));
        let best = all.fold(0.0, f64::max);
        Some(median(self.values(part, one, at))? / best).filter(|it| it.is_finite())
    }

    /// The least number of rounds of a part's points.
    pub fn rounds(&self, part: Part) -> usize {
        let of_it = self.points.iter().filter(|it| it.part == part);
        of_it.map(|it| it.values.len()).min().unwrap_or(0)
    }
}

/// How much is measured.
pub struct Extent {
    pub rounds: usize,
    pub little: bool,
    pub cpus: usize,
    pub threads: Vec<usize>,
    /// The numbers of threads for the verdicts on spin locks.
    pub judged_threads: Vec<usize>,
    pub allocs: Vec<String>,
}

/// Measures a part. A case that fails is named, and the rest is measured.
pub fn measure(
    part: Part,
    extent: &Extent,
    measured: &mut Measured,
    progress: &ProgressBar,
) -> Vec<NotRun> {
    let mut not_run = Vec::<NotRun>::new();
    let groups = match groups(part, extent) {
        Ok(groups) => groups,
        Err(error) => {
            let reason = format!("{error:#}");
            return vec![NotRun { variant: part.name().to_owned(), reason }];
        }
    };
    for round in 0..extent.rounds {
        for variant in groups.iter().flat_map(|group| group.rotated(round)) {
            let name = format!("{}, {}", part.name(), variant.name);
            if not_run.iter().any(|it| it.variant == name) {
                continue;
            }
            progress.set_message(format!("{name}, round {}", round + 1));
            match variant.run(extent.cpus) {
                Ok(points) => points.into_iter().for_each(|(variant, at, value)| {
                    measured.add(part, variant, at, value);
                }),
                Err(error) => {
                    not_run.push(NotRun { variant: name, reason: format!("{error:#}") });
                }
            }
        }
    }
    not_run
}

/// The compared variants, which so run next to each other.
struct Group {
    variants: Vec<Variant>,
    /// How often in each round.
    times: usize,
}

impl Group {
    fn rotated(&self, round: usize) -> impl Iterator<Item = &Variant> {
        let places: Vec<usize> = (0..self.variants.len()).collect();
        let periods = round * self.times..(round + 1) * self.times;
        periods
            .flat_map(move |iteration| order(&places, iteration))
            .map(|place| &self.variants[place])
    }
}

/// A run of a program that prints some points.
struct Variant {
    name: String,
    directory: &'static str,
    program: String,
    setting: Setting,
    arguments: Vec<String>,
    /// Why there may be no such program.
    hint: Option<&'static str>,
}

/// Variant, place on the axis, value.
type Found = (String, String, f64);

/// A line that one of the programs prints: it has some of these fields.
#[derive(Deserialize)]
struct Line {
    kind: Option<String>,
    getter: Option<String>,
    function: Option<String>,
    threads: Option<usize>,
    #[serde(rename = "Mops")]
    mops: Option<f64>,
    pairs_per_second: Option<f64>,
    ns: Option<f64>,
}

impl Line {
    fn point(self, of: &Variant) -> anyhow::Result<Found> {
        let named = self.kind.or(self.getter);
        let variant = match (&named, of.name.as_str()) {
            (Some(kind), "interleaved") => format!("{kind}, interleaved"),
            (Some(kind), _) => kind.clone(),
            (None, name) => name.split_once(',').map_or(name, |(variant, _)| variant).to_owned(),
        };
        let at = self.function.or(self.threads.map(|it| it.to_string())).unwrap_or_default();
        let millions = self.pairs_per_second.map(|it| it / 1e6);
        let value = self.mops.or(millions).or(self.ns).context("it printed no number")?;
        Ok((variant, at, value))
    }
}

impl Variant {
    fn run(&self, cpus: usize) -> anyhow::Result<Vec<Found>> {
        let command = command(self.directory, &self.program, &self.setting, cpus, &[]);
        if let (Err(_), Some(hint)) = (&command, self.hint) {
            bail!("{hint}");
        }
        let mut command = command?;
        command.args(&self.arguments);
        run_lines::<Line>(command, LIMIT)?.into_iter().map(|line| line.point(self)).collect()
    }
}

/// The names of the locks in the program spin.
fn spin_kinds() -> anyhow::Result<Vec<String>> {
    let mut list = command("manycore/spin", "spin", &Setting::default(), 1, &[])?;
    list.arg("--list");
    let printed = programs::output_within(list, LIMIT)?;
    Ok(String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect())
}

/// The variants of a group are compared, so they run one after the other in each round.
fn groups(part: Part, extent: &Extent) -> anyhow::Result<Vec<Group>> {
    let variant = |name: String, directory, program: &str, arguments: Vec<String>| Variant {
        name,
        directory,
        program: program.to_owned(),
        setting: Setting::default(),
        arguments,
        hint: None,
    };
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut counts = extent.threads.clone();
    counts.extend(extent.judged_threads.iter().filter(|&it| !extent.threads.contains(it)));
    let ms = if extent.little { 20 } else { 300 };
    let spin = |name: String, threads: &str, more: &str| {
        let many = if extent.little { 1000 } else { 100_000 };
        let arguments = format!("--threads {threads} --rounds 1 --times {many} {more}");
        variant(name, "manycore/spin", "spin", words(arguments))
    };
    const LIBRARIES: &str = "manycore/libraries";
    let variants = match part {
        // A process for each kind: the CPU's predictors depend on the kinds that the process ran
        // before, and that differs by more than locks do. A group for each number of threads: the
        // latency between a virtual machine's CPUs changes from second to second, so a hand-over
        // takes 9 ns or 240 ns. Where all threads have a CPU, a run is short.
        Part::Spin => {
            let kinds = spin_kinds()?;
            let times = if extent.little { 1 } else { 10 };
            let group = |count: &usize| {
                let one = |kind: &String| {
                    let name = format!("{kind}, {count} threads");
                    spin(name, &count.to_string(), &format!("--kinds {kind}"))
                };
                let times = if *count <= extent.cpus { times } else { 1 };
                Group { variants: kinds.iter().map(one).collect(), times }
            };
            return Ok(counts.iter().map(group).collect());
        }
        Part::Uncontended => {
            let all =
                std::iter::once(None).chain(Lock::value_variants().iter().map(|&it| Some(it)));
            let of = |lock: Option<Lock>| {
                let lock = lock.map(name_of);
                let name = lock.clone().unwrap_or_else(|| GLIBC.to_owned());
                let arguments = words(if extent.little { "1" } else { "11" }.to_owned());
                let it = variant(name, "manycore", "uncontended", arguments);
                Variant { setting: Setting { lock, ..Setting::default() }, ..it }
            };
            all.map(of).collect()
        }
        Part::Nodes => {
            let list: Vec<String> = counts.iter().map(usize::to_string).collect();
            let placed = |memory: &str| {
                spin(memory.to_owned(), &list.join(","), &format!("--memory {memory} --pin"))
            };
            vec![placed("local"), placed("interleaved")]
        }
        Part::Math => {
            let libraries = ["glibc", "musl", "newlib"];
            let hint = Some(
                "it was not there when TEK was built: musl is the package musl-dev, and on newlib \
                 bench/manycore/libraries/meson.build says more",
            );
            let of =
                |it: &str| variant(it.to_owned(), LIBRARIES, &format!("math-{it}"), Vec::new());
            libraries.map(|it| Variant { hint: hint.filter(|_| it != "glibc"), ..of(it) }).into()
        }
        Part::Alloc => {
            let mut all = Vec::new();
            for &threads in &extent.threads {
                for alloc in &extent.allocs {
                    let arguments = words(format!("own {threads} {ms}"));
                    let name = format!("{alloc}, {threads} threads");
                    let alloc = Some(alloc.clone()).filter(|it| it != GLIBC);
                    let it = variant(name, LIBRARIES, "allocator", arguments);
                    all.push(Variant { setting: Setting { alloc, ..Setting::default() }, ..it });
                }
            }
            all
        }
        Part::Getters => {
            let run = |&threads: &usize| {
                let arguments = words(format!("{threads} {ms}"));
                variant(format!("{threads} threads"), LIBRARIES, "getter", arguments)
            };
            extent.threads.iter().map(run).collect()
        }
        _ => Vec::new(),
    };
    Ok(vec![Group { variants, times: 1 }])
}

fn unit(part: Part) -> &'static str {
    match part {
        Part::Math => "ns a call",
        Part::Uncontended => "ns to lock and unlock",
        Part::Alloc | Part::Getters => "million pairs a second",
        _ => "million acquisitions a second",
    }
}

/// For people.
pub fn report(measured: &Measured, part: Part, terminal: Terminal) -> String {
    let of_it: Vec<&Point> = measured.points.iter().filter(|it| it.part == part).collect();
    if of_it.is_empty() {
        return String::new();
    }
    let unique = super::setting::unique;
    let rows = unique(of_it.iter().map(|it| it.variant.clone()).collect());
    let mut columns = unique(of_it.iter().map(|it| it.at.clone()).collect());
    columns.sort_by_key(|at| at.parse::<u64>().ok());
    let value = |variant: &str, at: &str| {
        let value = median(measured.values(part, variant, at));
        value.map_or("-".to_owned(), |it| format!("{it:.2}"))
    };
    let first = format!("{}, {}", part.name(), unit(part));
    // Functions are many, and libraries few.
    let is_turned = part == Part::Math;
    let (down, along) = if is_turned { (&columns, &rows) } else { (&rows, &columns) };
    let mut header = vec![first.as_str()];
    header.extend(along.iter().map(String::as_str));
    let mut table = table(&header, terminal);
    for name in down {
        let mut row = vec![name.clone()];
        row.extend(along.iter().map(|other| match is_turned {
            true => value(other, name),
            false => value(name, other),
        }));
        table.add_row(row);
    }
    let axis = if is_turned { "" } else { "; columns: threads" };
    format!(
        "{}\n(medians of the rounds{axis})\npaper, {}\n",
        table.trim_fmt(),
        paper::statement(part)
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let rows = measured.points.iter().filter_map(|it| {
        let case = format!("{}, {}", it.part.name(), it.at);
        Some(Row::number(case, it.variant.clone(), "median", unit(it.part), median(&it.values)?))
    });
    rows.collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn measured(all: &[(Part, &str, &str, f64)]) -> Measured {
        let mut measured = Measured::default();
        for &(part, variant, at, value) in all {
            measured.add(part, variant.to_owned(), at.to_owned(), value);
        }
        measured
    }

    #[test]
    fn lines_of_each_program_become_points() {
        let of = |name: &str| Variant {
            name: name.to_owned(),
            directory: "",
            program: String::new(),
            setting: Setting::default(),
            arguments: Vec::new(),
            hint: None,
        };
        let line = |text: &str| serde_json::from_str::<Line>(text).unwrap();
        let point = |text: &str, name: &str| line(text).point(&of(name)).unwrap();
        let spin = r#"{"kind": "k42", "threads": 4, "Mops": 2.5, "stopped": false}"#;
        assert_eq!(point(spin, "k42"), ("k42".to_owned(), "4".to_owned(), 2.5));
        assert_eq!(point(spin, "interleaved").0, "k42, interleaved");
        let pairs = r#"{"program": "allocator", "threads": 2, "pairs_per_second": 3000000}"#;
        assert_eq!(point(pairs, "tlsf, 2 threads"), ("tlsf".to_owned(), "2".to_owned(), 3.0));
        let math = r#"{"libm": "musl", "function": "log", "ns": 9.5, "least_ns": 9}"#;
        assert_eq!(point(math, "musl"), ("musl".to_owned(), "log".to_owned(), 9.5));
        assert!(line(r#"{"why": "this machine has one memory node"}"#).point(&of("x")).is_err());
    }

    #[test]
    fn a_table_has_a_line_of_the_figure_in_each_row() {
        let all = [(Part::Nodes, "k42", "1", 5.0), (Part::Nodes, "k42", "2", 4.0)];
        let terminal = Terminal { width: 120, unicode: false };
        let text = report(&measured(&all), Part::Nodes, terminal);
        assert!(text.contains("5.00") && text.contains("Fig. 4"));
        let text = report(&measured(&[(Part::Math, "musl", "log", 9.0)]), Part::Math, terminal);
        assert!(
            text.lines()
                .any(|line| line.trim_start().starts_with("log  ") && line.contains("9.00")),
            "{text}"
        );
        assert_eq!(report(&Measured::default(), Part::Spin, terminal), "");
    }
}
