// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of querying how much of its stack of 8 MiB a running thread has used.

use super::lab::{Lab, Limits, Tek};
use crate::json::Row;
use crate::programs;
use crate::stats::{median_of_ratios, summarize};
use serde::{Deserialize, Serialize};

/// The output of the program.
#[derive(Deserialize, Serialize)]
pub struct Measured {
    /// Threads that were queried in alternation.
    pub threads: u32,
    pub stack_bytes: u64,
    /// Time of a measure, in each batch.
    pub ns: Vec<f64>,
    /// Time of a bare system call, after each batch.
    pub system_call_ns: Vec<f64>,
    /// Resident bytes of the process, before and after all measures.
    pub resident_before: u64,
    pub resident_after: u64,
}

impl Measured {
    /// The time of a measure as a multiple of a bare system call's: the median of the batches.
    pub fn by_system_call(&self) -> Option<f64> {
        median_of_ratios(&self.ns, &self.system_call_ns)
    }

    /// The memory that measuring made resident.
    pub fn resident_added(&self) -> f64 {
        self.resident_after as f64 - self.resident_before as f64
    }
}

/// Measures it.
pub fn measure(lab: &Lab) -> anyhow::Result<Measured> {
    let program = programs::find("stack", "peaks")?;
    let profiles = lab.profiles("live")?;
    lab.run(&mut lab.command(&program, Tek::Stack("report", &profiles), Limits::default()))
}

/// For people.
pub fn report(measured: &Measured) -> String {
    let (Some(summary), Some(call)) =
        (summarize(&measured.ns), summarize(&measured.system_call_ns))
    else {
        return String::new();
    };
    format!(
        "measuring a running thread's stack of {} KiB, one of {} in turns: {:.0} ns (least {:.0}, \
         {} batches; a bare system call {:.0} ns); resident memory before {} KiB, after {}\n",
        measured.stack_bytes / 1024,
        measured.threads,
        summary.p50,
        summary.min,
        summary.n,
        call.p50,
        measured.resident_before / 1024,
        measured.resident_after / 1024
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let case = "measuring a running thread";
    let time = summarize(&measured.ns)
        .map(|summary| Row::distribution(case, "TEK", "time of a measure", "ns", &summary));
    let resident = measured.resident_added();
    let resident = Row::number(case, "TEK", "resident memory added", "bytes", resident);
    time.into_iter().chain([resident]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_measuring_makes_resident_is_seen() {
        let measured = Measured {
            threads: 50,
            stack_bytes: 8 << 20,
            ns: vec![900.0, 1000.0, 5000.0],
            system_call_ns: vec![100.0; 3],
            resident_before: 4096,
            resident_after: 8192,
        };
        assert_eq!(measured.by_system_call(), Some(10.0));
        assert_eq!(measured.resident_added(), 4096.0);
        assert!(report(&measured).contains("before 4 KiB, after 8"));
    }
}
