// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU shares of four threads at nice 1, 2, 3 and 4 on one CPU (tek-2020, III-A).

use crate::json::Row;
use crate::programs;
use crate::table::table;
use crate::terminal::Terminal;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// The measurement of the program `shares`.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub shares: Vec<Share>,
}

/// One thread's.
#[derive(Serialize, Deserialize)]
pub struct Share {
    pub nice: i32,
    pub cpu_ns: u64,
}

/// nice, percent according to the paper, and the weight in the kernel's sched_prio_to_weight[].
const EXPECTED: [(i32, f64, u32); 4] =
    [(1, 26.5, 820), (2, 25.5, 655), (3, 24.5, 526), (4, 23.5, 423)];

/// One line of the comparison, in percent.
#[derive(Debug, PartialEq)]
struct Line {
    nice: i32,
    paper: f64,
    kernel: f64,
    measured: f64,
}

/// Runs the program.
pub fn measure(seconds: u16) -> anyhow::Result<Measured> {
    let program = programs::find("observe", "shares")?;
    programs::run_json(Command::new(program).arg(seconds.to_string()))
}

fn compare(measured: &Measured) -> Vec<Line> {
    let weights: u32 = EXPECTED.iter().map(|(_, _, weight)| weight).sum();
    let all: u64 = measured.shares.iter().map(|share| share.cpu_ns).sum();
    EXPECTED
        .iter()
        .filter_map(|(nice, paper, weight)| {
            let share = measured.shares.iter().find(|share| share.nice == *nice)?;
            Some(Line {
                nice: *nice,
                paper: *paper,
                kernel: 100.0 * f64::from(*weight) / f64::from(weights),
                measured: 100.0 * share.cpu_ns as f64 / all.max(1) as f64,
            })
        })
        .collect()
}

/// For people.
pub fn report(measured: &Measured, terminal: Terminal) -> String {
    let lines = compare(measured);
    let mut table =
        table(&["share of one CPU, %", "paper", "kernel's weights", "measured"], terminal);
    for line in &lines {
        table.add_row([
            format!("thread at nice {}", line.nice),
            format!("{:.1}", line.paper),
            format!("{:.1}", line.kernel),
            format!("{:.1}", line.measured),
        ]);
    }
    let off = |expected: fn(&Line) -> f64| {
        let distances = lines.iter().map(|line| (line.measured - expected(line)).abs());
        distances.fold(0.0, f64::max)
    };
    let (from_paper, from_kernel) = (off(|line| line.paper), off(|line| line.kernel));
    let subject = if from_kernel < from_paper {
        "This kernel follows its weight table, in which a nice level is worth a factor of\n\
         about 1.25, not the paper's even steps of one percent"
    } else {
        "This kernel is nearer to the paper's even steps of one percent than to its weight table"
    };
    format!(
        "{}\n{subject} (off by at most {from_kernel:.1} and {from_paper:.1} points).\n\
         Either way nice divides the CPU and promises no time: the best of the four still\n\
         waits while the others have their shares, so nice alone makes no thread answer at once.\n",
        table.trim_fmt()
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in compare(measured) {
        for (variant, value) in
            [("paper", line.paper), ("kernel weights", line.kernel), ("measured", line.measured)]
        {
            let case = format!("nice {}", line.nice);
            rows.push(Row::number(case, variant, "share of one CPU", "%", value));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(cpu: [u64; 4]) -> Measured {
        Measured { shares: (1..).zip(cpu).map(|(nice, cpu_ns)| Share { nice, cpu_ns }).collect() }
    }

    #[test]
    fn shares_are_percent_of_what_the_four_got() {
        let lines = compare(&measured([40, 30, 20, 10]));
        let percent: Vec<f64> = lines.iter().map(|line| line.measured).collect();
        assert_eq!(percent, [40.0, 30.0, 20.0, 10.0]);
    }

    #[test]
    fn the_kernels_weights_predict_33_8_percent_for_nice_1() {
        let lines = compare(&measured([1, 1, 1, 1]));
        let kernel: Vec<String> = lines.iter().map(|line| format!("{:.1}", line.kernel)).collect();
        assert_eq!(kernel, ["33.8", "27.0", "21.7", "17.5"]);
    }

    #[test]
    fn the_sentence_names_the_model_that_the_kernel_follows() {
        let terminal = Terminal { width: 80, unicode: false };
        let text = report(&measured([338, 270, 217, 175]), terminal);
        assert!(text.contains("follows its weight table"), "{text}");
        let text = report(&measured([265, 255, 245, 235]), terminal);
        assert!(text.contains("nearer to the paper's"), "{text}");
    }

    #[test]
    fn nothing_measured_divides_by_nothing() {
        assert!(compare(&measured([0; 4])).iter().all(|line| line.measured == 0.0));
    }
}
