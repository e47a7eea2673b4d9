// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek explain`: why one thread runs as it does, as far as is known.
mod daemon;
mod facts;
mod kernel;
mod kthread;
mod rules;
mod tell;

use crate::kthreads::find_out;
use crate::run::message;
use facts::Facts;
use std::io::{self, Write};
use std::process::ExitCode;
use tek_abi::printable;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek explain 815
  tek explain 815 816
  tek explain 45                            a thread of the kernel: who waits for it
  tek explain $(pidof fridge)               its first thread
  tek explain --json 815 | jq .tek.reasons

What a program tells TEK about its threads can be read only of one that runs
under TEK, and whose table you may read: your own, or as root. Of the others the
kernel's part is told, and how to get the rest. Nothing that is looked at is
stopped or waited for; the rules come from the environment of the process, which
is read last, and given up after a second if the process is stuck. If tekd runs it
is asked what it did with the thread, and why; of a thread of the kernel, who waits for
it and what priority that makes.

EXIT STATUS:
    0  the threads were explained; what is not known is named
    1  one of them is not there; the others were explained
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek explain`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Kernel thread id, as tek ps and top -H show it; a process id is that of its first thread
    #[arg(value_name = "TID", required = true, value_parser = clap::value_parser!(u32).range(1..))]
    tids: Vec<u32>,

    /// Print JSON: an object for each thread
    #[arg(long)]
    json: bool,
}

/// Finds out and tells.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout();
    // Asked once, and only if a thread is there.
    let mut kthreads = None;
    let (mut told, mut code) = (0, ExitCode::SUCCESS);
    for tid in args.tids {
        let mut facts = match facts::of(tid) {
            Err(error) if is_gone(&error) => {
                message::print(&format!("there is no thread {tid}: it may have ended"));
                code = ExitCode::FAILURE;
                continue;
            }
            other => other?,
        };
        // Last, because it may keep whoever asks waiting.
        match daemon::ask(tid) {
            Ok(known) => facts.daemon = known,
            Err(reason) => facts.not_known.push(reason),
        }
        let kthreads = kthreads.get_or_insert_with(find_out::told);
        if facts.kernel_thread.is_some() {
            facts.follows = Some(kthread::of(tid, &facts.name, kthreads));
        } else if let Ok(told) = kthreads {
            facts.waits_for = kthread::of_task(tid, told);
        }
        if args.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&facts)?)?;
            continue;
        }
        if told > 0 {
            writeln!(out, "\n")?;
        }
        print(&mut out, &facts)?;
        told += 1;
    }
    Ok(code)
}

/// What is told of a thread: headlines, and below each its paragraphs, in which names may be any text.
/// An error that there is no such thread is `NotFound` or ESRCH.
pub fn sections(tid: u32) -> io::Result<Vec<(&'static str, Vec<String>)>> {
    Ok(tell::tell(&facts::of(tid)?))
}

fn print(out: &mut impl Write, facts: &Facts) -> io::Result<()> {
    let bold = anstyle::Style::new().bold();
    for (number, (title, paragraphs)) in tell::tell(facts).into_iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{bold}{title}{bold:#}")?;
        for paragraph in paragraphs {
            // Names in it are whatever the program chose.
            writeln!(out, "  {}", printable(paragraph.as_bytes()))?;
        }
    }
    Ok(())
}

/// Whether a thread is not there, or ended while it was looked at.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}
