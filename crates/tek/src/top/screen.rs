// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal of `tek top`. It is restored at the end, when stopped, after an error and after a
//! panic.
use super::draw::{draw, Display};
use super::state::State;
use nix::sys::signal::{raise, SigSet, Signal};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen,
};
use ratatui::layout::{Position, Rect};
use ratatui::Terminal;
use std::io::{self, Stdout};
use std::sync::Once;
use tek_command::entry::before_panic;

/// The terminal, given back when dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    appearance: Display,
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        give_back_before_panics();
        // NO_COLOR counts unless it is empty (no-color.org).
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let taken = take();
        let terminal = taken.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match terminal {
            Ok(terminal) => Ok(Self { terminal, appearance: Display { has_colours } }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws, as large as the terminal is now.
    pub fn draw(&mut self, state: &mut State) -> io::Result<()> {
        let appearance = self.appearance;
        self.terminal.draw(|frame| {
            let area = frame.area();
            state.resize((area.width, area.height));
            draw(state, appearance, area, frame.buffer_mut());
        })?;
        Ok(())
    }

    /// Gives the terminal back and stops this process until it is continued. Its parent sees that
    /// it was stopped by SIGTSTP.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        give_back();
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTSTP);
        // It is blocked, and taken from a signalfd: unblocked, it has its default effect.
        raise(Signal::SIGTSTP)?;
        stop.thread_unblock()?;
        stop.thread_block()?;
        self.go_on()
    }

    /// Takes the terminal again, whatever its state.
    pub fn go_on(&mut self) -> anyhow::Result<()> {
        // A terminal that was raw before may have changed; while it counts as raw, that is not
        // checked.
        disable_raw_mode()?;
        take()?;
        // Its clear() queries the terminal for the cursor, and fails without an answer.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// Errors are ignored: the terminal may be gone.
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Otherwise the message of the panic would be on the screen that is closed.
fn give_back_before_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        before_panic(give_back);
    });
}
