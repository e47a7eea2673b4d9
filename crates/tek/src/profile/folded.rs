// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded stacks, which flamegraph.pl, inferno and speedscope read: frames with `;` between them,
//! and microseconds.
use super::report::Profile;
use std::io::{self, Write};
use tek_abi::is_printable;
use tek_command::values::time::PARTS;

/// Writes them: program, role, thread, part, and for waits their object and place.
pub fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let program = frame(profile.program.rsplit('/').next().unwrap_or("?"));
    for thread in &profile.threads {
        let base =
            format!("{program};{};{} {}", frame(&thread.role), frame(&thread.name), thread.tid);
        for (name, ns) in PARTS.iter().zip(thread.parts.all()) {
            let mut left = ns;
            if *name == "sync" {
                for ((what, site), wait) in &thread.waits {
                    // The part does not contain the delay of its waits any more.
                    let reported = (*wait).min(left);
                    left -= reported;
                    line(out, &format!("{base};sync;{};{}", frame(what), frame(site)), reported)?;
                }
            }
            line(out, &format!("{base};{name}"), left)?;
        }
    }
    Ok(())
}

fn line(out: &mut impl Write, stack: &str, ns: u64) -> io::Result<()> {
    let us = ns.div_ceil(1000);
    if us == 0 {
        Ok(())
    } else {
        writeln!(out, "{stack} {us}")
    }
}

/// A name without the characters that separate frames.
fn frame(name: &str) -> String {
    // Rust symbols have `;` in the types of arrays.
    name.replace(|c: char| c == ';' || !is_printable(c), ",")
}
