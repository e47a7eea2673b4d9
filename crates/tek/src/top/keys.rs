// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each key on the state.
use super::columns::{usual_order, FIXED};
use super::state::{Over, State, Text, LONGEST, SHORTEST};
use crate::ps::thread::Identity;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Longer filters fit no name.
const MOST_FILTER: usize = 64;

/// The times between two samples that + and - go through, in ms.
const INTERVALS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000];

/// The keys and their effects, for the help.
const HELP: &[(&str, &str)] = &[
    ("Up Down PgUp PgDn Home End", "select a thread; the selection follows it"),
    ("Left Right", "see other columns"),
    ("Enter", "why the selected thread runs as it does"),
    ("s or >, <", "sort by the next column, or by the one before"),
    ("r", "reverse the order"),
    ("/", "show threads with a text in program, name or role; Enter ends it, Esc clears it"),
    ("t", "tree: threads below their process and creator"),
    ("k", "the kernel's threads too"),
    ("f", "threads of the Fast Region only"),
    ("p", "pause"),
    ("+ -", "look less often, more often"),
    ("Esc", "back: close this, clear the filter, select nothing"),
    ("^Z", "stop; fg goes on"),
    ("q ^C", "end"),
];

/// The request of a key beyond the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    Nothing,
    /// To end.
    End,
    /// To be stopped, as by a shell.
    Stop,
    /// To show the details of this thread.
    Explain(Identity),
}

impl State {
    /// Carries out the action of a key.
    pub fn key(&mut self, key: KeyEvent) -> Request {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Request::End,
                KeyCode::Char('z') => Request::Stop,
                KeyCode::Char('u') if self.is_typing => self.filter(String::new()),
                _ => Request::Nothing,
            };
        }
        match (&self.over, self.is_typing) {
            (Over::Text(_), _) => self.key_in_text(key.code),
            (Over::Nothing, true) => self.key_in_filter(key.code),
            (Over::Nothing, false) => self.key_in_table(key.code),
        }
    }

    fn key_in_table(&mut self, key: KeyCode) -> Request {
        match key {
            KeyCode::Char('q' | 'Q') => return Request::End,
            KeyCode::Enter => return self.explain(),
            KeyCode::Char('s' | '>') => self.sort_by_next(1),
            KeyCode::Char('<') => self.sort_by_next(-1),
            KeyCode::Char('r') => self.choice.sort.down ^= true,
            KeyCode::Char('t') => self.choice.tree ^= true,
            KeyCode::Char('k') => self.choice.kernel ^= true,
            KeyCode::Char('f') => self.choice.fast ^= true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('p') => self.is_paused ^= true,
            KeyCode::Char('+') => self.change_interval(true),
            KeyCode::Char('-') => self.change_interval(false),
            KeyCode::Char('?' | 'h') => self.over = Over::Text(help()),
            KeyCode::Left => self.first_column = self.first_column.saturating_sub(1),
            KeyCode::Right => {
                let last = self.columns.len().saturating_sub(FIXED + 1);
                self.first_column = (self.first_column + 1).min(last);
            }
            KeyCode::Esc if self.choice.filter.is_empty() => self.unselect(),
            KeyCode::Esc => self.choice.filter.clear(),
            key => self.move_selection(key),
        }
        // Only these change which threads are shown.
        let rearranging = ['s', '>', '<', 'r', 't', 'k', 'f'];
        if key == KeyCode::Esc || rearranging.iter().any(|&c| key == KeyCode::Char(c)) {
            self.arrange();
        }
        Request::Nothing
    }

    fn key_in_filter(&mut self, key: KeyCode) -> Request {
        let mut filter = self.choice.filter.clone();
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                return self.filter(String::new());
            }
            KeyCode::Backspace => {
                filter.pop();
                return self.filter(filter);
            }
            KeyCode::Char(character) if filter.chars().count() < MOST_FILTER => {
                filter.push(character);
                return self.filter(filter);
            }
            key => self.move_selection(key),
        }
        Request::Nothing
    }

    fn key_in_text(&mut self, key: KeyCode) -> Request {
        let page = isize::try_from(self.page()).unwrap_or(isize::MAX);
        match key {
            KeyCode::Up => self.scroll_text(-1),
            KeyCode::Down => self.scroll_text(1),
            KeyCode::PageUp => self.scroll_text(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_text(page),
            KeyCode::Home => self.scroll_text(isize::MIN),
            KeyCode::End => self.scroll_text(isize::MAX),
            KeyCode::Char('q' | 'Q' | '?' | 'h') | KeyCode::Esc | KeyCode::Enter => {
                self.over = Over::Nothing;
            }
            _ => {}
        }
        Request::Nothing
    }

    fn move_selection(&mut self, key: KeyCode) {
        let (at, page) = (self.position, self.page().max(1));
        match key {
            // The first key selects the first row in sight.
            KeyCode::Up | KeyCode::Down if self.selected.is_none() => self.select(self.first),
            KeyCode::Up => self.select(at.saturating_sub(1)),
            KeyCode::Down => self.select(at + 1),
            KeyCode::PageUp => self.select(at.saturating_sub(page)),
            KeyCode::PageDown => self.select(at + page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            _ => {}
        }
    }

    fn filter(&mut self, text: String) -> Request {
        self.choice.filter = text;
        self.arrange();
        Request::Nothing
    }

    fn explain(&mut self) -> Request {
        if self.selected.is_none() {
            self.select(self.first);
        }
        self.selected.map_or(Request::Nothing, Request::Explain)
    }

    fn sort_by_next(&mut self, by: isize) {
        let count = self.columns.len() as isize;
        let sorted = |column: &_| *column == self.choice.sort.column;
        let at = self.columns.iter().position(sorted).unwrap_or(0) as isize;
        self.choice.sort = usual_order(self.columns[(at + by).rem_euclid(count) as usize]);
    }

    fn change_interval(&mut self, longer: bool) {
        let mut times = INTERVALS.iter().copied().map(Duration::from_millis);
        let next = match longer {
            true => times.find(|&time| time > self.interval),
            false => times.rev().find(|&time| time < self.interval),
        };
        self.interval = next.unwrap_or(self.interval).clamp(SHORTEST, LONGEST);
    }
}

fn help() -> Text {
    let paragraphs = HELP.iter().map(|(keys, what)| format!("{keys:<27}{what}")).collect();
    Text { title: "Keys".into(), paragraphs, first: 0 }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::{sample, sample_of};
    use super::super::sample::Sample;
    use super::super::state::tests::state;
    use super::*;
    use crate::ps::column::Column;
    use proptest::prelude::*;

    fn press(state: &mut State, keys: &str) -> Request {
        let press = |c| state.key(KeyEvent::from(KeyCode::Char(c)));
        keys.chars().map(press).last().unwrap_or(Request::Nothing)
    }

    #[test]
    fn s_and_the_angles_go_through_the_columns_and_r_reverses_the_order() {
        let mut state = state();
        press(&mut state, "s");
        assert_eq!(state.choice.sort, usual_order(Column::DelayPercent));
        press(&mut state, "<<<");
        assert_eq!((state.choice.sort.column, state.choice.sort.down), (Column::Tid, true));
        assert_eq!(state.identity(0), Some((200, 200)));
        press(&mut state, "r");
        assert_eq!(state.identity(0), Some((100, 100)));
        press(&mut state, "<");
        assert_eq!(state.choice.sort.column, Column::State);
    }

    #[test]
    fn a_filter_works_while_it_is_typed_and_escape_clears_it() {
        let mut state = state();
        assert_eq!(press(&mut state, "/ga"), Request::Nothing);
        assert_eq!(state.rows.len(), 1);
        press(&mut state, "q");
        assert!(state.rows.is_empty() && state.is_typing);
        state.key(KeyCode::Backspace.into());
        state.key(KeyCode::Enter.into());
        assert_eq!((state.rows.len(), state.is_typing), (1, false));
        state.key(KeyCode::Esc.into());
        assert_eq!((state.rows.len(), state.choice.filter.as_str()), (4, ""));
    }

    #[test]
    fn k_f_t_and_p_are_switches() {
        let mut state = state();
        press(&mut state, "k");
        assert_eq!(state.rows.len(), 5);
        press(&mut state, "f");
        assert_eq!(state.identity(0), Some((102, 102)));
        press(&mut state, "kfftp");
        assert!(state.choice.tree && state.choice.fast && state.is_paused && !state.choice.kernel);
    }

    #[test]
    fn the_interval_stays_within_its_limits() {
        let mut state = state();
        press(&mut state, "+");
        assert_eq!(state.interval, Duration::from_secs(2));
        press(&mut state, &"+".repeat(20));
        assert_eq!(state.interval, LONGEST);
        press(&mut state, &"-".repeat(20));
        assert_eq!(state.interval, SHORTEST);
    }

    #[test]
    fn enter_asks_about_the_selected_thread_and_help_is_closed_by_q() {
        let mut state = state();
        state.key(KeyCode::Down.into());
        state.key(KeyCode::Down.into());
        assert_eq!(state.key(KeyCode::Enter.into()), Request::Explain((100, 100)));
        assert_eq!(press(&mut state, "?q"), Request::Nothing);
        assert_eq!(press(&mut state, "q"), Request::End);
        state.take(Sample::default());
        assert_eq!(state.key(KeyCode::Enter.into()), Request::Nothing);
    }

    #[test]
    fn control_c_ends_wherever_one_is() {
        let mut state = state();
        for keys in ["", "?", "q/"] {
            press(&mut state, keys);
            let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
            assert_eq!(state.key(key('c')), Request::End);
            assert_eq!(state.key(key('z')), Request::Stop);
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Key(KeyCode),
        Size(u16, u16),
        Sample(u32),
    }

    fn act() -> impl Strategy<Value = Act> {
        use KeyCode::*;
        let named = vec![Up, Down, Left, Right, PageUp, PageDown, Home, End, Enter, Esc, Backspace];
        prop_oneof![
            proptest::sample::select(named).prop_map(Act::Key),
            proptest::char::any().prop_map(|c| Act::Key(Char(c))),
            proptest::sample::select("srtkfp/+-?<>t1".chars().collect::<Vec<_>>())
                .prop_map(|c| Act::Key(Char(c))),
            (0u16..200, 0u16..60).prop_map(|(width, height)| Act::Size(width, height)),
            (0u32..80).prop_map(Act::Sample),
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_pressed_the_selection_is_a_row_in_sight(
            acts in proptest::collection::vec(act(), 0..60)
        ) {
            let mut state = state();
            for act in acts {
                match act {
                    Act::Key(key) => { state.key(key.into()); }
                    Act::Size(width, height) => state.resize((width, height)),
                    Act::Sample(0) => state.take(sample()),
                    Act::Sample(count) => state.take(sample_of(count)),
                }
                prop_assert!(state.position < state.rows.len().max(1));
                prop_assert!(state.first <= state.rows.len());
                if state.selected.is_some() {
                    prop_assert_eq!(state.identity(state.position), state.selected);
                    let page = state.page().max(1);
                    prop_assert!((state.first..state.first + page).contains(&state.position));
                }
                prop_assert!((SHORTEST..=LONGEST).contains(&state.interval));
            }
            super::super::draw::tests::drawn(&state, 40, 10);
        }
    }
}
