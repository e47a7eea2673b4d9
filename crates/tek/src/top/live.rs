// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek top` on a terminal.
use super::columns;
use super::daemon;
use super::details;
use super::events::{Event, Events};
use super::keys::Request;
use super::order::Choice;
use super::sample::Sampler;
use super::screen::Screen;
use super::state::{Over, State};
use crate::ps::{cpu_time, rest};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use ratatui::crossterm::event::KeyEvent;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Values since the start of each thread are of little use, so the second sample comes soon.
const FIRST_WAIT: Duration = Duration::from_millis(300);

/// Shows until a key or a signal ends it.
pub fn run(choice: Choice, interval: Duration) -> anyhow::Result<()> {
    // Before any thread is made, so that all threads have the same signals blocked.
    let mut events = Events::new()?;
    let mut sampler = Sampler::new(columns::with(choice.sort.column), daemon::BETWEEN_SAMPLES)?;
    let mut state = State::new(sampler.examine(HashSet::new())?, choice, interval);
    let (mut last, mut rested) = (Instant::now(), Instant::now());
    let mut began = Some(cpu_time());
    let mut screen = Screen::open()?;
    loop {
        screen.draw(&mut state)?;
        let wait = if state.sample.is_compared { state.interval } else { FIRST_WAIT };
        if let Some(began) = began.take() {
            rested = Instant::now() + rest(began);
        }
        let next = (!state.is_paused).then(|| rested.max(last + wait.min(state.interval)));
        match events.wait(next)? {
            Event::Time => {
                // Samples that took longer than the interval are left out, not made up for.
                (last, began) = (Instant::now(), Some(cpu_time()));
                let in_sight = state.tids_in_sight();
                state.take(sampler.examine(in_sight)?);
            }
            Event::Keys(keys) => {
                if press(&mut state, keys)?.is_break() {
                    return Ok(());
                }
            }
            Event::End => return Ok(()),
            Event::Stop => screen.stop()?,
            Event::Continued => screen.go_on()?,
            // Its size is queried each time.
            Event::Resized => {}
        }
    }
}

fn press(state: &mut State, keys: Vec<KeyEvent>) -> anyhow::Result<ControlFlow<()>> {
    for key in keys {
        match state.key(key) {
            Request::Nothing => {}
            Request::End => return Ok(ControlFlow::Break(())),
            // To all processes to which a terminal would send it; it comes back as an event.
            Request::Stop => kill(Pid::from_raw(0), Signal::SIGTSTP)?,
            Request::Explain(_) => {
                if let Some(text) = state.thread(state.position).map(details::of) {
                    state.over = Over::Text(text);
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
