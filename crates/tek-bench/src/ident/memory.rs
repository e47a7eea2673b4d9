// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a thread table, from its header and from the file's blocks.

use super::calls::Crowd;
use crate::json::Row;
use anyhow::Context;
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use tek_model::Table;

/// Of a process in which no thread has ended yet.
#[derive(Serialize)]
pub struct Measured {
    pub threads: u32,
    /// Slots that hold a record now or held one before.
    pub slots: u32,
    /// The bytes of these slots' records and side records.
    pub record_bytes: u64,
    pub side_bytes: u64,
    /// Memory that the file really uses, header and rest of touched pages included.
    pub file_bytes: u64,
}

impl Measured {
    /// Bytes of records for each thread.
    pub fn bytes_per_thread(&self) -> f64 {
        self.per_thread(self.record_bytes)
    }

    fn per_thread(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.threads.max(1))
    }

    fn parts(&self) -> [(&'static str, u64); 3] {
        [
            ("records", self.record_bytes),
            ("side records", self.side_bytes),
            ("file, as blocks in use", self.file_bytes),
        ]
    }
}

/// Reads it.
pub fn measure(crowd: &Crowd) -> anyhow::Result<Measured> {
    let header = Table::open(crowd.table())?.header()?;
    let file = crowd.table().metadata().context("the table is gone")?;
    let of_all = |bytes: u32| u64::from(header.slots) * u64::from(bytes);
    Ok(Measured {
        threads: header.threads,
        slots: header.slots,
        record_bytes: of_all(header.record_bytes),
        side_bytes: of_all(header.side_bytes),
        file_bytes: file.blocks() * 512, // of 512 bytes whatever the file system's are
    })
}

/// For people.
pub fn report(measured: &Measured) -> String {
    let parts = measured.parts().map(|(what, bytes)| {
        format!("{what} {bytes} bytes ({:.1} a thread)", measured.per_thread(bytes))
    });
    format!(
        "table of {} threads in {} slots: {}\n",
        measured.threads,
        measured.slots,
        parts.join(", ")
    )
}

/// The rows of the JSON document.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let case = format!("table of {} threads", measured.threads);
    let per_thread = |(what, bytes)| {
        Row::number(&case, what, "memory of a thread", "bytes", measured.per_thread(bytes))
    };
    measured.parts().map(per_thread).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_no_thread_uses_any_more_counts_too() {
        let measured = Measured {
            threads: 100,
            slots: 110,
            record_bytes: 4400,
            side_bytes: 14080,
            file_bytes: 40960,
        };
        assert_eq!(measured.bytes_per_thread(), 44.0);
        assert!(report(&measured).contains("side records 14080 bytes (140.8 a thread)"));
    }
}
