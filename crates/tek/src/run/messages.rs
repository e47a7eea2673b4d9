// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages for the user while the program runs: each one once.
use super::locks;
use crate::system::privilege;
use crate::units::size;
use crate::words;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tek_abi::{
    printable, until_nul, Event, EVENT_BAD_OPTION, EVENT_FRAME, EVENT_LOCK, EVENT_LOCKS,
    EVENT_NOT_COVERED, EVENT_NOT_PLACED, EVENT_OVERFLOW, EVENT_OVERRAN, EVENT_REFUSED,
    EVENT_STACK_HIGH,
};
use tek_model::Functions;

/// After so many different messages a run falls silent: users read no more, and they cost memory.
const MOST: usize = 500;

/// Frames that are reported of one overflow.
const MOST_FRAMES: u32 = 64;

/// Turns events into messages.
#[derive(Default)]
pub struct Messages {
    reported: HashSet<(u16, String)>,
    /// Frames still to be reported for the overflows so far, by pid and tid.
    frames: HashMap<(u32, u32), u32>,
    functions: Functions,
}

impl Messages {
    /// The message for an event, unless it, or one with the same meaning, was given before.
    pub fn describe(&mut self, event: &Event) -> Option<String> {
        let reported = self.report_new(event);
        if event.kind == EVENT_OVERFLOW && reported.is_some() {
            self.frames.insert((event.pid, event.tid), MOST_FRAMES);
        }
        reported
    }

    fn report_new(&mut self, event: &Event) -> Option<String> {
        if event.kind == EVENT_FRAME {
            return self.frame(event);
        }
        if event.kind == EVENT_LOCK {
            return Some(locks::one_text(&mut self.functions, event));
        }
        let (subject, message) = message(event)?;
        if self.reported.len() >= MOST {
            return None;
        }
        if !self.reported.insert((event.kind, subject)) {
            return None;
        }
        if self.reported.len() == MOST {
            return Some(format!("{message}\nmore messages of this run are not shown"));
        }
        Some(message)
    }

    /// A line of the backtrace of an overflow that was reported. Lines of several threads may mix,
    /// so each line names its thread.
    fn frame(&mut self, event: &Event) -> Option<String> {
        let left = self.frames.get_mut(&(event.pid, event.tid))?;
        *left = left.checked_sub(1)?;
        let name = self.functions.name_in(until_nul(&event.text), event.value[1]);
        let sender = format!("  [{}]", event.tid);
        let [number, _, _, more] = event.value;
        Some(match (number, more) {
            (0, _) => format!("{sender} runs {name}"),
            (_, 0) => format!("{sender} #{number} {name}"),
            (_, 1) => format!("{sender} #{number} {name}, then 1 more frame"),
            _ => format!("{sender} #{number} {name}, then {more} more frames"),
        })
    }
}

/// The subject of an event (equal ones mean the same), and its message; `None` for an event that
/// only the report uses.
fn message(event: &Event) -> Option<(String, String)> {
    let thread = printable(&event.thread);
    let program = printable(&event.program);
    let text = printable(&event.text);
    Some(match event.kind {
        EVENT_REFUSED => (String::new(), refused(event, &thread, &program)),
        EVENT_OVERRAN if !text.is_empty() => {
            let message = format!(
                "thread {thread} of {program} [{}] {text}, and is not time-critical for now",
                event.pid
            );
            (format!("{} {thread}", event.pid), message)
        }
        EVENT_OVERRAN => {
            let [used, window, ban, _] = event.value.map(Duration::from_nanos);
            let message = format!(
                "thread {thread} of {program} [{}] used {used:.3?} of CPU time in {window:?}, more \
                 than its budget, and is not time-critical for the next {ban:?}; if it needs that \
                 much, give it with --budget",
                event.pid
            );
            (format!("{} {thread}", event.pid), message)
        }
        EVENT_NOT_COVERED => {
            let message = format!("{program} {text}: it runs, but not under TEK");
            (message.clone(), message)
        }
        EVENT_NOT_PLACED => (String::new(), not_placed(event, &thread, &program, &text)),
        EVENT_LOCKS => (format!("{} {}", event.pid, event.time_ns), locks::all_text(event)),
        EVENT_BAD_OPTION => (text.clone(), text),
        EVENT_OVERFLOW => {
            let subject = format!("{} {} {}", event.pid, event.tid, event.time_ns);
            (subject, overflow(event, &thread, &program, &text))
        }
        // The same kind of thread, in any process.
        EVENT_STACK_HIGH => {
            (format!("{program} {thread} {text}"), stack_high(event, &thread, &program, &text))
        }
        _ => return None,
    })
}

fn not_placed(event: &Event, thread: &str, program: &str, why: &str) -> String {
    let group = u8::try_from(event.value[0]).map_or_else(|_| "?".into(), words::group);
    format!(
        "thread {thread} of {program} [{}] is not put into the group {group} and shares the CPUs \
         as before: {why}. What tekd grants is in /etc/tek/tekd.toml; tek groups shows the groups",
        event.pid
    )
}

fn overflow(event: &Event, thread: &str, program: &str, role: &str) -> String {
    let role = if role.is_empty() { String::new() } else { format!(" ({role})") };
    let bytes = size(event.value[0]);
    let chosen = if event.error == 0 {
        "which TEK did not choose"
    } else {
        "which TEK chose; the next run gives it more"
    };
    format!(
        "thread {thread}{role} [{}] of {program} [{}] ran out of its stack of {bytes}, {chosen}",
        event.tid, event.pid
    )
}

fn stack_high(event: &Event, thread: &str, program: &str, role: &str) -> String {
    let [peak, bound, stack, _] = event.value;
    let role = if role.is_empty() { String::new() } else { format!(" ({role})") };
    let used = match bound.checked_sub(peak) {
        Some(1..) => format!("{} to {}", size(peak), size(bound)),
        _ => size(peak),
    };
    format!(
        "thread {thread}{role} of {program} [{}] has used {used} of its stack of {}, which is \
         nearly all: give such threads more with pthread_attr_setstacksize, or let the next run \
         with --stack auto do it (auto,override where the program chose the size); tek stack \
         report {program} says how much",
        event.pid,
        size(stack)
    )
}

fn refused(event: &Event, thread: &str, program: &str) -> String {
    let sender =
        format!("thread {thread} of {program} [{}] cannot become time-critical", event.pid);
    let why = std::io::Error::from_raw_os_error(event.error);
    let tekd = printable(&event.text);
    if !tekd.is_empty() {
        return format!(
            "{sender} and runs on as it was: its process may not use real-time priorities, and \
             tekd does not make it so: {tekd}. What tekd grants is in /etc/tek/tekd.toml, and tek \
             status shows which users it serves"
        );
    }
    if event.error != libc::EPERM {
        return format!("{sender}: {why}; it runs on as it was");
    }
    if let Some(cure) = privilege::refused_despite_privilege() {
        return format!("{sender} and runs on as it was: {cure}");
    }
    let ways = privilege::ways_to_get_it();
    let ways: Vec<_> = (1..).zip(&ways).map(|(n, way)| format!("  {n}. {way}\n")).collect();
    format!(
        "{sender} and runs on as it was: its process may not use real-time priorities. Ways to \
         allow it:\n{}Or start tekd, which switches the threads of users that its configuration \
         grants this{}",
        ways.concat(),
        crate::daemon::start(&crate::daemon::path())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, thread: &str, text: &str) -> Event {
        let mut event = Event { pid: 12, error: libc::EAGAIN, ..Event::blank(kind) };
        event.thread[..thread.len()].copy_from_slice(thread.as_bytes());
        event.program[..6].copy_from_slice(b"fridge");
        event.text[..text.len()].copy_from_slice(text.as_bytes());
        event
    }

    #[test]
    fn a_refusal_is_reported_once_for_the_whole_run() {
        let mut messages = Messages::default();
        let first = messages.describe(&event(EVENT_REFUSED, "touch", "")).unwrap();
        assert!(first.starts_with("thread touch of fridge [12] cannot become time-critical"));
        assert_eq!(messages.describe(&event(EVENT_REFUSED, "render", "")), None);
    }

    #[test]
    fn the_reason_that_tekd_gives_is_reported() {
        let refused = event(EVENT_REFUSED, "touch", "8 threads of this process are critical");
        let message = Messages::default().describe(&refused).unwrap();
        assert!(message.contains("tekd does not make it so: 8 threads of this process"));
        assert!(message.contains("tek status"), "{message}");
    }

    #[test]
    fn a_group_that_tekd_refuses_is_reported_once_with_its_reason() {
        let mut refused = event(EVENT_NOT_PLACED, "ui", "urgent is better than normal");
        refused.value[0] = 1;
        let mut messages = Messages::default();
        let message = messages.describe(&refused).unwrap();
        assert!(message.contains("the group urgent and shares the CPUs as before: urgent is"));
        assert_eq!(messages.describe(&refused), None);
    }

    #[test]
    fn an_overrun_that_tekd_noticed_is_reported_in_tekds_numbers() {
        let overran = event(EVENT_OVERRAN, "touch", "used 9 ms of CPU time, of 8 ms");
        let message = Messages::default().describe(&overran).unwrap();
        assert_eq!(
            message,
            "thread touch of fridge [12] used 9 ms of CPU time, of 8 ms, and is not time-critical \
             for now"
        );
    }

    #[test]
    fn an_overrun_is_reported_once_for_each_thread_whatever_it_used() {
        let mut messages = Messages::default();
        let overran = |used, thread| Event {
            value: [used, 1_000_000_000, 0, 0],
            ..event(EVENT_OVERRAN, thread, "")
        };
        let first = messages.describe(&overran(812_345_678, "touch")).unwrap();
        assert!(first.contains("812.346ms of CPU time in 1s"), "{first}");
        assert_eq!(messages.describe(&overran(813_000_000, "touch")), None);
        assert!(messages.describe(&overran(812_000_000, "gas")).is_some());
    }

    #[test]
    fn a_program_that_is_not_covered_is_named_with_the_reason() {
        let message = Messages::default()
            .describe(&event(EVENT_NOT_COVERED, "", "is statically linked"))
            .unwrap();
        assert_eq!(message, "fridge is statically linked: it runs, but not under TEK");
    }

    #[test]
    fn the_frames_of_an_overflow_are_reported_with_it_and_no_other_frames() {
        let mut messages = Messages::default();
        let of = |tid, event| Event { tid, ..event };
        let overflow = Event {
            value: [65536, 0x7000_0000, 0, 0],
            error: 1,
            ..event(EVENT_OVERFLOW, "gas", "gas detection")
        };
        let frame = |number, more| Event {
            value: [number, 0x12, 0x5012, more],
            ..event(EVENT_FRAME, "gas", "/nowhere/fridge")
        };
        assert_eq!(messages.describe(&of(13, frame(1, 0))), None);
        assert_eq!(
            messages.describe(&of(13, overflow)).unwrap(),
            "thread gas (gas detection) [13] of fridge [12] ran out of its stack of 64.0K, which \
             TEK chose; the next run gives it more"
        );
        let reported = [(0, 0), (1, 0), (2, 1), (3, 400)]
            .map(|(number, more)| messages.describe(&of(13, frame(number, more))).unwrap());
        assert_eq!(
            reported,
            [
                "  [13] runs fridge+0x12",
                "  [13] #1 fridge+0x12",
                "  [13] #2 fridge+0x12, then 1 more frame",
                "  [13] #3 fridge+0x12, then 400 more frames"
            ]
        );
        assert_eq!(messages.describe(&of(14, frame(1, 0))), None);
        // The same thread id, of a later thread.
        let later = Event { time_ns: 9, error: 0, ..overflow };
        let message = messages.describe(&of(13, later)).unwrap();
        assert!(message.ends_with("stack of 64.0K, which TEK did not choose"), "{message}");
        let flood = (0..1000).filter_map(|n| messages.describe(&of(13, frame(n, 0)))).count();
        assert_eq!(flood, MOST_FRAMES as usize);
    }

    #[test]
    fn a_flood_of_different_messages_ends() {
        let mut messages = Messages::default();
        let reported = (0..2 * MOST)
            .filter_map(|n| messages.describe(&event(EVENT_BAD_OPTION, "", &n.to_string())))
            .count();
        assert_eq!(reported, MOST);
    }

    #[test]
    fn a_stack_that_is_nearly_full_is_reported_once_for_all_threads_like_it() {
        let mut messages = Messages::default();
        let high = |pid, thread| Event {
            pid,
            value: [250 << 10, 252 << 10, 256 << 10, 0],
            ..event(EVENT_STACK_HIGH, thread, "gas detection")
        };
        let first = messages.describe(&high(12, "gas")).unwrap();
        assert!(
            first.starts_with(
                "thread gas (gas detection) of fridge [12] has used 250K to 252K of its stack of \
                 256K"
            ),
            "{first}"
        );
        assert_eq!(messages.describe(&high(13, "gas")), None);
        assert!(messages.describe(&high(13, "touch")).is_some());
    }

    #[test]
    fn a_summary_is_for_the_report_only() {
        let summary = event(tek_abi::EVENT_SUMMARY, "touch", "");
        assert_eq!(Messages::default().describe(&summary), None);
    }
}
