// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text that a guest's kernel wrote to its console: its last lines, and the ones that matter.
use std::collections::VecDeque;

/// Lines that are kept: the report of a kernel panic fits into them.
const MOST_LINES: usize = 150;

/// Lines that suffice where no failure happened.
const FEW_LINES: usize = 10;

/// Bytes that are kept of a line.
const MOST_BYTES: usize = 400;

/// The end of a console's text.
#[derive(Default)]
pub struct Console {
    lines: VecDeque<String>,
    /// The line that has no end yet.
    begun: Vec<u8>,
    /// Number of lines so far.
    count: u64,
    panic: Option<String>,
    out_of_memory: bool,
    files_do_not_fit: bool,
    message: Option<String>,
    kvm_error: Option<String>,
}

impl Console {
    /// Takes a piece of the text.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ if self.begun.len() < MOST_BYTES => self.begun.push(byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = readable(&std::mem::take(&mut self.begun));
        if line.is_empty() {
            return;
        }
        if self.panic.is_none() {
            self.panic = panic(&line).map(str::to_owned);
        }
        self.out_of_memory |= ["Out of memory: Killed", "out of memory: Killed", "oom-kill:"]
            .iter()
            .any(|sign| line.contains(sign));
        if let Some((_, message)) = line.split_once("tek-lab: ") {
            self.message = Some(message.to_owned());
        }
        if line.starts_with("KVM internal error") {
            self.kvm_error = Some(line.clone());
        }
        self.files_do_not_fit |= line.contains("Initramfs unpacking failed");
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        self.count += 1;
    }

    /// Position of the next line. A line that has begun by now is before it, whatever is added to
    /// that line.
    pub fn mark(&self) -> u64 {
        self.count + u64::from(!readable(&self.begun).is_empty())
    }

    /// The last lines, from a mark on.
    pub fn since(&self, mark: u64) -> Vec<String> {
        let gone = self.count - self.lines.len() as u64;
        let mut lines: Vec<_> =
            self.lines.iter().skip(mark.saturating_sub(gone) as usize).cloned().collect();
        let begun = readable(&self.begun);
        if !begun.is_empty() && mark <= self.count {
            lines.push(begun);
        }
        lines
    }

    /// The last few lines.
    pub fn last(&self) -> Vec<String> {
        let mut lines = self.since(0);
        lines.split_off(lines.len().saturating_sub(FEW_LINES))
    }

    /// The line in which the kernel reported its panic.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The last line of the guest's init or agent, which write only if something is wrong.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The line in which QEMU reported that KVM failed: QEMU stays, and its guest never runs again.
    pub fn kvm_error(&self) -> Option<&str> {
        self.kvm_error.as_deref()
    }

    /// Whether there is no text yet.
    pub fn is_silent(&self) -> bool {
        self.count == 0 && self.begun.is_empty()
    }

    /// Whether the kernel had no room for the files that it was booted with.
    pub fn files_do_not_fit(&self) -> bool {
        self.files_do_not_fit
    }

    /// Whether the kernel ran out of memory since the last query.
    pub fn take_out_of_memory(&mut self) -> bool {
        std::mem::take(&mut self.out_of_memory)
    }
}

/// How a kernel's report of a panic begins: at a line's start, or after its time and thread.
fn panic(line: &str) -> Option<&str> {
    let text = line.find("Kernel panic - ").map(|at| line.split_at(at));
    text.filter(|(before, _)| before.is_empty() || before.ends_with("] ")).map(|(_, text)| text)
}

/// A line without the sequences that move a terminal's cursor or change its colours.
fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end()
        .chars()
        .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        console.push(text.as_bytes());
        console
    }

    #[test]
    fn the_last_lines_are_stored_and_the_one_that_is_being_written() {
        let text: String = (0..200).map(|n| format!("line {n}\r\n")).collect();
        let lines = console(&format!("{text}begun")).since(0);
        assert_eq!((lines.len(), lines[0].as_str()), (MOST_LINES + 1, "line 50"));
        assert_eq!(lines[MOST_LINES - 1..], ["line 199", "begun"]);
        let few = console("1\n2\n").last();
        assert_eq!(few, ["1", "2"]);
        assert_eq!(console(&text).last().first().unwrap(), "line 190");
    }

    #[test]
    fn lines_from_before_a_mark_are_left_out() {
        let mut console = console("before\n");
        let mark = console.mark();
        assert!(console.since(mark).is_empty());
        console.push(b"after\n");
        assert_eq!(console.since(mark), ["after"]);
        console.push("more\n".repeat(1000).as_bytes());
        assert_eq!(console.since(mark).len(), MOST_LINES);
    }

    #[test]
    fn a_line_begun_before_a_mark_is_left_out() {
        let mut console = console("line\nbegun");
        let mark = console.mark();
        assert!(console.since(mark).is_empty());
        assert_eq!(console.since(0), ["line", "begun"]);
        console.push(b" and ended\nafter\n\r");
        assert_eq!(console.since(mark), ["after"]);
        let mark = console.mark(); // the begun line may become an empty one, which does not count
        console.push(b"\nnext\n");
        assert_eq!(console.since(mark), ["next"]);
    }

    #[test]
    fn a_panic_is_found_in_whatever_pieces_it_comes() {
        let mut console = Console::default();
        for byte in
            b"[    1.5] Kernel panic - not syncing: sysrq triggered crash\r\n[    1.6] more\n"
        {
            console.push(&[*byte]);
        }
        assert_eq!(console.panic(), Some("Kernel panic - not syncing: sysrq triggered crash"));
    }

    #[test]
    fn a_line_that_mentions_a_panic_is_none() {
        let panic = |line: &str| console(&format!("{line}\n")).panic().map(str::to_owned);
        assert_eq!(panic("echo Kernel panic - not syncing: so"), None);
        assert!(panic("Kernel panic - not syncing: so").is_some());
        assert!(panic("[    1.5][    T1] Kernel panic - not syncing: so").is_some());
    }

    #[test]
    fn a_lack_of_memory_is_reported_once() {
        for line in [
            "Out of memory: Killed process 61 (tail) total-vm:1kB",
            "Memory cgroup out of memory: Killed process 61 (tail)",
            "oom-kill:constraint=CONSTRAINT_NONE",
        ] {
            let mut console = console(&format!("[    2.0] {line}\n"));
            assert!(console.take_out_of_memory(), "{line}");
            assert!(!console.take_out_of_memory());
        }
    }

    #[test]
    fn a_line_without_end_takes_little_memory() {
        let mut console = Console::default();
        for _ in 0..1000 {
            console.push(&[b'x'; 4096]);
        }
        assert_eq!(console.since(0)[0].len(), MOST_BYTES);
    }

    proptest! {
        #[test]
        fn any_bytes_are_readable_lines(pieces: Vec<Vec<u8>>) {
            let mut console = Console::default();
            for piece in &pieces {
                console.push(piece);
            }
            for line in console.since(0) {
                prop_assert!(!line.chars().any(|c| c.is_control() && c != '\t'));
            }
        }
    }
}
