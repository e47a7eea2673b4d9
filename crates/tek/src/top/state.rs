// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shown part of a sample: order, selection, the rows in sight. It needs no terminal. keys.rs
//! changes it by keys.
use super::columns;
use super::order::{self, Choice, Row};
use super::sample::Sample;
use super::wrap::wrap;
use crate::ps::column::Column;
use crate::ps::thread::{Identity, Thread};
use std::collections::HashSet;
use std::time::Duration;

/// Limits of the time between two samples.
pub const SHORTEST: Duration = Duration::from_millis(100);
/// See [`SHORTEST`].
pub const LONGEST: Duration = Duration::from_secs(60);

/// Lines above the rows and below them.
pub const LINES_ABOVE: u16 = 4;
const LINES_BELOW: u16 = 1;

/// The text over the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Nothing.
    #[default]
    Nothing,
    /// A text to be read.
    Text(Text),
}

/// A text to be read: headlines, and paragraphs that are longer than a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Its subject.
    pub title: String,
    /// Its paragraphs.
    pub paragraphs: Vec<String>,
    /// The first line in sight.
    pub first: usize,
}

/// All of it.
pub struct State {
    /// The last sample.
    pub sample: Sample,
    /// The choice of what is shown.
    pub choice: Choice,
    /// The columns that can be shown.
    pub columns: Vec<Column>,
    /// The number of scrolled columns that are skipped.
    pub first_column: usize,
    /// The threads in their order.
    pub rows: Vec<Row>,
    /// The selected one.
    pub selected: Option<Identity>,
    /// Its row, which the selection keeps when the thread ends.
    pub position: usize,
    /// The first row in sight.
    pub first: usize,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether no more samples are taken.
    pub is_paused: bool,
    /// Time between two samples.
    pub interval: Duration,
    /// The text over the table.
    pub over: Over,
    /// The last problem.
    pub problem: Option<String>,
    size: (u16, u16),
}

impl State {
    /// Of a first sample.
    pub fn new(sample: Sample, choice: Choice, interval: Duration) -> Self {
        let mut state = Self {
            columns: columns::with(choice.sort.column),
            sample: Sample::default(),
            choice,
            first_column: 0,
            rows: Vec::new(),
            selected: None,
            position: 0,
            first: 0,
            is_typing: false,
            is_paused: false,
            interval,
            over: Over::Nothing,
            problem: None,
            size: (80, 24),
        };
        state.take(sample);
        state
    }

    /// Goes on to another sample.
    pub fn take(&mut self, sample: Sample) {
        self.problem = sample.problems.last().cloned().or(self.problem.take());
        self.sample = sample;
        self.arrange();
    }

    /// Puts the rows in order anew. The selection stays with its thread; if that is not shown any
    /// more, the selection stays at its row.
    pub fn arrange(&mut self) {
        self.rows = order::rows(&self.sample, &self.choice);
        if let Some(selected) = self.selected {
            let found = (0..self.rows.len()).find(|&at| self.identity(at) == Some(selected));
            self.select(found.unwrap_or(self.position));
        }
        self.scroll();
    }

    /// Selects a row, or the last one if there are not so many.
    pub fn select(&mut self, position: usize) {
        self.position = position.min(self.rows.len().saturating_sub(1));
        self.selected = self.identity(self.position);
        self.scroll();
    }

    /// Selects none, and shows the first rows.
    pub fn unselect(&mut self) {
        (self.selected, self.position, self.first) = (None, 0, 0);
    }

    /// The thread of a row.
    pub fn thread(&self, position: usize) -> Option<&Thread> {
        self.sample.threads.get(self.rows.get(position)?.index)
    }

    /// The identity of the thread of a row.
    pub fn identity(&self, position: usize) -> Option<Identity> {
        self.thread(position).map(Thread::identity)
    }

    /// The visible threads; user-level ones have the tid 0.
    pub fn tids_in_sight(&self) -> HashSet<u32> {
        let rows = self.first..self.rows.len().min(self.first + self.page());
        rows.filter_map(|position| self.thread(position)).map(|t| t.task.stat.tid).collect()
    }

    /// How many rows there is room for.
    pub fn page(&self) -> usize {
        self.size.1.saturating_sub(LINES_ABOVE + LINES_BELOW).into()
    }

    /// Sets the terminal's columns and lines.
    pub fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.scroll();
        self.scroll_text(0);
    }

    /// The columns that there is room for, with their widths.
    pub fn shown_columns(&self) -> Vec<(Column, u16)> {
        let Choice { sort, tree, .. } = self.choice;
        columns::fitting(&self.columns, self.first_column, sort.column, tree, self.size.0)
    }

    /// The lines of a text that lies over the table.
    pub fn text_lines(&self, text: &Text) -> Vec<String> {
        let width = usize::from(self.size.0.max(1));
        text.paragraphs.iter().flat_map(|paragraph| wrap(paragraph, width)).collect()
    }

    /// The lines that are shown where there is no row.
    pub fn why_empty(&self) -> Vec<String> {
        if !self.rows.is_empty() {
            return Vec::new();
        }
        let width = usize::from(self.size.0.max(1));
        let why = order::why_none(&self.sample, &self.choice);
        why.iter().flat_map(|line| wrap(line, width)).take(self.page()).collect()
    }

    /// Moves a text that lies over the table, no further than its last page.
    pub fn scroll_text(&mut self, by: isize) {
        let Over::Text(text) = &self.over else { return };
        let last = self.text_lines(text).len().saturating_sub(self.page());
        let first = text.first.saturating_add_signed(by).min(last);
        if let Over::Text(text) = &mut self.over {
            text.first = first;
        }
    }

    /// Scrolls the selected row into sight, without empty lines that could be filled.
    fn scroll(&mut self) {
        let page = self.page().max(1);
        if self.selected.is_some() {
            let lowest = (self.position + 1).saturating_sub(page);
            self.first = self.first.clamp(lowest, self.position);
        }
        self.first = self.first.min(self.rows.len().saturating_sub(page));
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::sample::tests::{sample, thread};
    use super::*;

    /// The small device, sorted by CPU time.
    pub fn state() -> State {
        let sort = columns::usual_order(Column::CpuPercent);
        let choice =
            Choice { sort, filter: String::new(), tree: false, kernel: false, fast: false };
        State::new(sample(), choice, Duration::from_secs(1))
    }

    #[test]
    fn the_selection_follows_its_thread() {
        let mut state = state();
        state.select(1);
        assert_eq!(state.selected, Some((100, 100)));
        let mut later = sample();
        later.threads[1] = thread(100, 100, "fridge", "fridge", 1);
        state.take(later);
        assert_eq!((state.selected, state.position), (Some((100, 100)), 2));
    }

    #[test]
    fn when_its_thread_ends_the_selection_stays_where_it_was() {
        let mut state = state();
        state.select(3);
        let mut later = sample();
        later.threads.pop();
        state.take(later);
        assert_eq!((state.selected, state.position), (Some((102, 102)), 2));
        // Another thread that got the same tid is another thread.
        let mut later = sample();
        later.threads[3].task.stat.start_ns += 1;
        later.threads.truncate(4);
        state.take(later);
        assert_eq!(state.selected, Some((102, 103)));
        state.take(Sample::default());
        assert_eq!((state.selected, state.position), (None, 0));
    }

    #[test]
    fn the_selected_row_is_always_in_sight() {
        let mut state = state();
        state.resize((80, 7));
        assert_eq!(state.page(), 2);
        state.select(3);
        assert_eq!(state.first, 2);
        state.resize((80, 24));
        assert_eq!(state.first, 0);
        state.resize((1, 1));
        assert_eq!(state.first, 3);
    }

    #[test]
    fn the_threads_in_sight_are_those_of_the_rows_that_are() {
        let mut state = state();
        state.resize((80, 7));
        assert_eq!(state.tids_in_sight(), HashSet::from([101, 100]));
        state.select(3);
        assert_eq!(state.tids_in_sight(), HashSet::from([102, 200]));
        state.take(Sample::default());
        assert_eq!(state.tids_in_sight(), HashSet::new());
    }

    #[test]
    fn a_text_is_not_moved_beyond_its_end() {
        let mut state = state();
        let paragraphs = vec!["some words that are longer than a line of that".into(); 10];
        state.over = Over::Text(Text { paragraphs, ..Text::default() });
        state.resize((20, 10));
        state.scroll_text(1000);
        let Over::Text(text) = &state.over else { panic!() };
        assert_eq!(text.first, state.text_lines(text).len() - state.page());
        state.resize((80, 40));
        let Over::Text(text) = &state.over else { panic!() };
        assert_eq!(text.first, 0);
    }
}
