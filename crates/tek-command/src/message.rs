// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of tek itself for the user.
use std::io::Write;
use tek_abi::printable;

/// Prints a message on tek's own standard error, each line marked as tek's. A closed pipe at the
/// other end is no reason to stop.
pub fn print(message: &str) {
    let line = |line: &str| format!("tek: {}\n", printable(line.trim_end().as_bytes()));
    let lines: String = message.lines().map(line).collect();
    // One write, so that lines of the program do not mix with it.
    let _ = std::io::stderr().write_all(lines.as_bytes());
}
