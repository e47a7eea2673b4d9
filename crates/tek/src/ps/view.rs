// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the device as the command line requires: chosen, in order, and reading no more than is
//! shown.
use super::column::Column;
use super::filter::Filter;
use super::thread::{Names, Thread, Threads};
use super::{render, tree, Sorting};
use crate::status;
use std::collections::HashSet;
use tek_model::{directories, Device, Wanted, Watch};

/// The choice of threads and columns.
pub struct View {
    pub columns: Vec<Column>,
    /// The worker and the object of the wait are shown too if there are user-level threads.
    pub adds_what_they_have: bool,
    sort: Option<Sorting>,
    tree: bool,
    filter: Filter,
    watch: Watch,
    threads: Threads,
    reported: HashSet<String>,
    /// Whether the report of tekd about waits is shown.
    shows_waits: bool,
}

/// The result of a sample.
pub struct Reading {
    /// The requested threads, in their order.
    pub threads: Vec<Thread>,
    /// The missing or unreadable files, and why; each only the first time.
    pub problems: Vec<String>,
    /// Whether all requested numbers are gone: no later sample will find any.
    pub gone: bool,
}

/// Adds the waits that tekd watches to those that programs report themselves.
fn add_waits(threads: &mut [Thread]) {
    let Some(reported) = status::lifts_now() else { return };
    for thread in threads.iter_mut().filter(|thread| thread.user.is_none()) {
        let tid = thread.task.stat.tid;
        thread.waits_for = thread.waits_for.or_else(|| reported.waits_for(tid));
        thread.lifted_by_tekd_for = reported.lifted_by(tid);
    }
}

impl View {
    /// For these columns and threads.
    pub fn new(columns: Vec<Column>, sort: Option<Sorting>, tree: bool, filter: Filter) -> Self {
        let mut wanted = Wanted {
            pids: filter.pid.clone(),
            directories: directories(),
            uthreads: true,
            ..Wanted::default()
        };
        for column in columns.iter().copied().chain(sort.map(|sort| sort.column)) {
            column.want(&mut wanted);
        }
        let shows = |column| columns.contains(&column) || sort.is_some_and(|s| s.column == column);
        let names = Names { function: shows(Column::Function), call_site: shows(Column::CallSite) };
        let threads = Threads::new(names);
        let shows_waits = shows(Column::WaitsFor) || shows(Column::LiftedBy);
        Self {
            columns,
            adds_what_they_have: false,
            sort,
            tree,
            filter,
            watch: Watch::new(wanted),
            threads,
            reported: HashSet::new(),
            shows_waits,
        }
    }

    /// From now on CPU times are exact, whatever the columns are: for differences.
    pub fn take_exact_times(&mut self) {
        self.watch.wanted.schedstat = true;
    }

    /// Samples the device.
    pub fn examine(&mut self) -> anyhow::Result<Reading> {
        let device = self.watch.examine()?;
        Ok(self.chosen(device))
    }

    /// Samples, for a frequent caller. Changes that another process made to sleeping threads are
    /// reported at once for these tids, for the rest within [`tek_model::ROUND`] samples.
    pub fn examine_changes(&mut self, in_sight: HashSet<u32>) -> anyhow::Result<Reading> {
        let device = self.watch.examine_changes(in_sight)?;
        Ok(self.chosen(device))
    }

    fn chosen(&mut self, mut device: Device) -> Reading {
        let problems = std::mem::take(&mut device.problems).into_iter();
        let text = |problem| format!("{:#}", anyhow::Error::from(problem));
        let (missing, gone) = self.filter.missing(&device);
        let problems = missing.into_iter().chain(problems.map(text));
        let problems = problems.filter(|problem| self.reported.insert(problem.clone())).collect();
        let mut threads = self.threads.of(device, |thread| self.filter.fits(thread));
        if self.shows_waits {
            add_waits(&mut threads);
        }
        if let Some(Sorting { column, down }) = self.sort {
            let mut keyed: Vec<_> = threads.into_iter().map(|t| (column.value(&t), t)).collect();
            tek_sort::by(&mut keyed, |(a, _), (b, _)| if down { b.order(a) } else { a.order(b) });
            threads = keyed.into_iter().map(|(_, thread)| thread).collect();
        }
        Reading { threads, problems, gone }
    }

    /// The lines of a table of them, its heads first.
    pub fn lines(&self, threads: Vec<Thread>) -> Vec<String> {
        let mut columns = self.columns.clone();
        if self.adds_what_they_have && threads.iter().any(|thread| thread.user.is_some()) {
            for (after, column) in [(Column::Tid, Column::Worker), (Column::State, Column::Waits)] {
                let at = columns.iter().position(|&column| column == after);
                columns.insert(at.map_or(0, |at| at + 1), column);
            }
        }
        let cells = |thread: &Thread| -> Vec<String> {
            columns.iter().map(|column| column.human(thread)).collect()
        };
        if !self.tree {
            return render::table(&columns, threads.iter().map(cells));
        }
        // The branches are drawn before the names, or in the first column.
        let at = columns.iter().position(|&column| column == Column::Name).unwrap_or(0);
        let rows = tree::arrange(threads).into_iter().map(|(thread, branch)| {
            let mut cells = cells(&thread);
            cells[at].insert_str(0, &branch);
            cells
        });
        render::table(&columns, rows)
    }
}
