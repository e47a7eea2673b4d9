// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state on a screen. Only the rows that are in sight are made into text.
use super::header;
use super::state::{Over, State, Text, LINES_ABOVE};
use crate::ps::column::Column;
use crate::ps::render::cut;
use console::{pad_str, Alignment};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use tek_abi::printable;

const KEYS: &str = "q end  ? keys  / filter  s sort  Enter why  k kernel  f Fast  t tree  p pause";

/// The styles. Without colours all of it is still distinguishable.
#[derive(Clone, Copy)]
pub struct Display {
    /// Whether there are colours.
    pub has_colours: bool,
}

impl Display {
    fn coloured(self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn fast(self) -> Style {
        self.coloured(Color::Green).add_modifier(Modifier::BOLD)
    }

    fn kernel(self) -> Style {
        self.coloured(Color::Blue)
    }

    fn problem(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }
}

const HEADS: Style = Style::new().add_modifier(Modifier::REVERSED);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws everything. At any size, nothing is written outside the area.
pub fn draw(state: &State, appearance: Display, area: Rect, buffer: &mut Buffer) {
    let mut canvas = Canvas { area, buffer };
    canvas.line(0, &header::device(&state.sample), BOLD);
    let mode = header::mode(&state.sample);
    let is_fast = !state.sample.fast().is_empty();
    canvas.line(1, &mode, if is_fast { appearance.fast() } else { Style::new() });
    canvas.line(2, &header::shown(state), Style::new());
    match &state.over {
        Over::Nothing => table(state, appearance, &mut canvas),
        Over::Text(text) => read(state, text, &mut canvas),
    }
    let (last, style) = match &state.problem {
        _ if state.is_typing => (format!("/{}_", printable(state.choice.filter.as_bytes())), BOLD),
        Some(problem) => (printable(problem.as_bytes()), appearance.problem()),
        None => (KEYS.to_owned(), Style::new()),
    };
    // On a screen of a few lines the header is more useful than the last line.
    if area.height >= LINES_ABOVE {
        canvas.line(area.height - 1, &last, style);
    }
}

struct Canvas<'a> {
    area: Rect,
    buffer: &'a mut Buffer,
}

impl Canvas<'_> {
    /// Writes a line, cut where the screen ends.
    fn line(&mut self, y: u16, text: &str, style: Style) {
        self.text(0, y, self.area.width, text, style);
    }

    fn text(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        if y < self.area.height && x < self.area.width {
            let room = usize::from(width.min(self.area.width - x));
            let text = cut(text, Some(room));
            self.buffer.set_stringn(self.area.x + x, self.area.y + y, text, room, style);
        }
    }

    fn style(&mut self, y: u16, style: Style) {
        if y < self.area.height {
            let line = Rect { y: self.area.y + y, height: 1, ..self.area };
            self.buffer.set_style(line, style);
        }
    }
}

fn table(state: &State, appearance: Display, canvas: &mut Canvas) {
    let columns = state.shown_columns();
    let heads = |column: Column| column.name().to_uppercase();
    canvas.style(LINES_ABOVE - 1, HEADS);
    for (x, column, width) in places(&columns) {
        let is_sorted = column == state.choice.sort.column;
        let style = if is_sorted { BOLD.add_modifier(Modifier::UNDERLINED) } else { Style::new() };
        cell(canvas, (x, LINES_ABOVE - 1), column, width, &heads(column), style);
    }
    for (text, y) in state.why_empty().iter().zip(LINES_ABOVE..) {
        canvas.line(y, text, Style::new());
    }
    let rows = state.rows.iter().enumerate().skip(state.first).take(state.page());
    for ((position, row), y) in rows.zip(LINES_ABOVE..) {
        let Some(thread) = state.sample.threads.get(row.index) else { continue };
        let style = match thread {
            _ if state.sample.is_fast(thread) => appearance.fast(),
            thread if thread.task.stat.kernel => appearance.kernel(),
            _ => Style::new(),
        };
        for (x, column, width) in places(&columns) {
            let mut text = state.sample.human(column, thread);
            if column == Column::Name {
                text.insert_str(0, &row.branch);
            }
            cell(canvas, (x, y), column, width, &text, style);
        }
        if state.selected.is_some() && position == state.position {
            canvas.style(y, style.add_modifier(Modifier::REVERSED));
        }
    }
}

/// Columns with their positions.
fn places(columns: &[(Column, u16)]) -> impl Iterator<Item = (u16, Column, u16)> + '_ {
    columns.iter().scan(0u16, |next, &(column, width)| {
        let x = *next;
        *next = next.saturating_add(width + 1);
        Some((x, column, width))
    })
}

fn cell(
    canvas: &mut Canvas,
    (x, y): (u16, u16),
    column: Column,
    width: u16,
    text: &str,
    style: Style,
) {
    let side = if column.is_number() { Alignment::Right } else { Alignment::Left };
    let text = cut(text, Some(width.into()));
    canvas.text(x, y, width, &pad_str(&text, width.into(), side, None), style);
}

/// A text instead of the table.
fn read(state: &State, text: &Text, canvas: &mut Canvas) {
    let title = format!("{}  (Esc closes, arrows move)", text.title);
    canvas.style(LINES_ABOVE - 1, HEADS);
    canvas.line(LINES_ABOVE - 1, &title, BOLD);
    let lines = state.text_lines(text);
    let page = state.page();
    for (line, y) in lines.iter().skip(text.first).take(page).zip(LINES_ABOVE..) {
        let is_headline = !line.starts_with(' ') && !text.title.is_empty();
        canvas.line(y, line, if is_headline { BOLD } else { Style::new() });
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::sample::tests::sample_of;
    use super::super::state::tests::state;
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    /// The screen after drawing.
    pub fn screen(state: &State, appearance: Display, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, appearance, frame.area(), frame.buffer_mut())).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Its lines, without trailing blanks.
    pub fn drawn(state: &State, width: u16, height: u16) -> Vec<String> {
        let buffer = screen(state, Display { has_colours: true }, width, height);
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn eighty_columns_show_what_threads_do_and_how_tek_has_them() {
        let mut state = state();
        state.resize((80, 24));
        let lines = drawn(&state, 80, 24);
        let expected = [
            "load 1.02 0.98 2.10  2 CPUs  5 threads, 1 of the kernel",
            "tekd: responsiveness, 1 Fast by it  responsiveness mode, 1 Fast: touch\\u{1b}[2J…",
            "every 1s  by cpu% down  4 shown  tek itself 1.2% of a CPU, 12ms a look",
            "    TID NAME              CPU% DELAY% VOL/S INVOL/S REGION  PROGRAM      POLICY",
            "    101 gas               75.0    7.5  1010     750 -       fridge       other",
            "    100 fridge            20.0    2.0  1000     200 -       fridge       other",
            "    102 touch\\u{1b}[2J\\…   2.0    0.2  1020    20.0 fast    fridge       other",
            "    200 shell              0.0    0.0  2000     0.0 -       shell        other",
        ];
        assert_eq!(lines[..8], expected);
        assert!(lines[8..23].iter().all(String::is_empty));
        assert_eq!(lines[23], KEYS);
    }

    #[test]
    fn forty_columns_and_ten_lines_show_the_most_important() {
        let mut state = state();
        state.resize((40, 10));
        state.select(1);
        let expected = [
            "load 1.02 0.98 2.10  2 CPUs  5 threads,…",
            "tekd: responsiveness, 1 Fast by it  res…",
            "every 1s  by cpu% down  4 shown  tek it…",
            "    TID NAME              CPU% DELAY%",
            "    101 gas               75.0    7.5",
            "    100 fridge            20.0    2.0",
            "    102 touch\\u{1b}[2J\\…   2.0    0.2",
            "    200 shell              0.0    0.0",
            "",
            "q end  ? keys  / filter  s sort  Enter …",
        ];
        assert_eq!(drawn(&state, 40, 10), expected);
    }

    #[test]
    fn only_rows_in_sight_are_drawn_and_the_selected_one_is_marked() {
        let mut state = state();
        state.take(sample_of(10_000));
        state.resize((80, 24));
        state.select(5_000);
        let buffer = screen(&state, Display { has_colours: false }, 80, 24);
        let reversed: Vec<u16> =
            (0..24).filter(|&y| buffer[(70, y)].modifier.contains(Modifier::REVERSED)).collect();
        assert_eq!(reversed, [3, 22]);
    }

    #[test]
    fn without_colours_there_are_none() {
        let mut state = state();
        state.choice.kernel = true;
        state.problem = Some("cannot read x".into());
        state.arrange();
        let colours = |has_colours| {
            let buffer = screen(&state, Display { has_colours }, 80, 24);
            buffer.content().iter().filter(|cell| cell.fg != Color::Reset).count()
        };
        assert_eq!(colours(false), 0);
        assert!(colours(true) > 0);
    }

    #[test]
    fn a_tree_draws_its_branches_before_the_names() {
        let mut state = state();
        state.choice.tree = true;
        state.arrange();
        let lines = drawn(&state, 80, 24);
        assert!(lines[5].starts_with("    101 |- gas "), "{lines:?}");
    }

    #[test]
    fn no_size_is_too_small() {
        let mut state = state();
        for size in [(0, 0), (1, 1), (3, 2), (200, 3), (2, 50), (7, 5), (500, 5)] {
            state.resize(size);
            drawn(&state, size.0, size.1);
            state.over = Over::Text(Text { paragraphs: vec!["a b".into()], ..Text::default() });
            drawn(&state, size.0, size.1);
            state.over = Over::Nothing;
        }
    }

    #[test]
    fn the_filter_that_is_typed_is_seen() {
        let mut state = state();
        (state.is_typing, state.choice.filter) = (true, "ga\x07".into());
        assert_eq!(drawn(&state, 40, 10)[9], "/ga\\u{7}_");
    }
}
