// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek explain`: why one thread runs as it does, as far as is known.
mod amounts;
mod daemon;
mod describe;
mod facts;
mod kernel;
mod kthread;
mod query;
mod rules;
mod uthread;

use crate::kthreads::find_out;
use crate::message;
use std::io::{self, Write};
use std::process::ExitCode;
use tek_abi::printable;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek explain 815
  tek explain 815 816
  tek explain 45                            a kernel thread: the tasks that wait for it
  tek explain $(pidof fridge)               its first thread
  tek explain $(pidof fridge)/u7            its user-level thread 7
  tek explain --json 815 | jq .tek.reasons

What a program reports about its threads is known only if it runs under TEK and
you may read its table: your own programs, or all as root. Of other programs tek
explain shows what the kernel knows, and how to get the rest. It stops no thread
and waits for none. The rules come from the environment of the process, which is
read last; tek gives up after a second if the process is stuck. If tekd runs, it
reports what it did with the thread and why; of a kernel thread, which tasks wait
for it, and the priority that results.

EXIT STATUS:
    0  the threads were explained; what is not known is named
    1  one of them is not there; the others were explained
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek explain`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Kernel thread id, as tek ps and top -H show it; a process id is that of its first thread;
    /// of a user-level thread PID/uNUMBER
    #[arg(value_name = "TID", required = true, value_parser = subject)]
    threads: Vec<Subject>,

    /// Print JSON: an object for each thread
    #[arg(long)]
    json: bool,
}

/// A thread, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// By its kernel thread id.
    Kernel(u32),
    /// A user-level one: its process and its number there.
    User(u32, u32),
}

fn subject(text: &str) -> Result<Subject, &'static str> {
    const FORM: &str = "write a thread id such as 815, or of a user-level thread 815/u7";
    let number = |text: &str| text.parse().ok().filter(|&number| number > 0).ok_or(FORM);
    match text.split_once('/') {
        None => number(text).map(Subject::Kernel),
        Some((pid, which)) => {
            let which = which.strip_prefix('u').unwrap_or(which);
            Ok(Subject::User(number(pid)?, number(which)?))
        }
    }
}

/// Collects and prints the facts about a user-level thread. False: it does not exist.
fn describe_user(
    out: &mut impl Write,
    (pid, number): (u32, u32),
    as_json: bool,
    is_first: bool,
) -> anyhow::Result<bool> {
    let facts = match uthread::of(pid, number) {
        Err(error) if is_gone(&error) => return Ok(false),
        other => other?,
    };
    if as_json {
        writeln!(out, "{}", crate::json::pretty(&facts)?)?;
        return Ok(true);
    }
    if !is_first {
        writeln!(out, "\n")?;
    }
    print(out, uthread::describe(&facts))?;
    Ok(true)
}

/// Collects the facts and prints them.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout();
    // Queried once, and only if a thread exists.
    let mut kthreads = None;
    let (mut reported, mut code) = (0, ExitCode::SUCCESS);
    for thread in args.threads {
        let tid = match thread {
            Subject::Kernel(tid) => tid,
            Subject::User(pid, number) => {
                if describe_user(&mut out, (pid, number), args.json, reported == 0)? {
                    reported += 1;
                } else {
                    message::print(&format!(
                        "there is no user-level thread {number} in process {pid}: it may have ended"
                    ));
                    code = ExitCode::FAILURE;
                }
                continue;
            }
        };
        let mut facts = match query::of(tid) {
            Err(error) if is_gone(&error) => {
                message::print(&format!("there is no thread {tid}: it may have ended"));
                code = ExitCode::FAILURE;
                continue;
            }
            other => other?,
        };
        // Last, because the answer may take a while.
        match daemon::ask(tid) {
            Ok(known) => facts.daemon = known,
            Err(reason) => facts.not_known.push(reason),
        }
        let kthreads = kthreads.get_or_insert_with(find_out::reported);
        if facts.kernel_thread.is_some() {
            facts.follows = Some(kthread::of(tid, &facts.name, kthreads));
        } else if let Ok(reported) = kthreads {
            facts.waits_for = kthread::of_task(tid, reported);
        }
        if args.json {
            writeln!(out, "{}", crate::json::pretty(&facts)?)?;
            continue;
        }
        if reported > 0 {
            writeln!(out, "\n")?;
        }
        print(&mut out, describe::describe(&facts))?;
        reported += 1;
    }
    Ok(code)
}

/// The report on a thread: headlines, and below each its paragraphs. Names in it may be any text.
/// If there is no such thread, the error is `NotFound` or ESRCH.
pub fn sections(tid: u32) -> io::Result<Vec<(&'static str, Vec<String>)>> {
    Ok(describe::describe(&query::of(tid)?))
}

/// The same of a user-level thread.
pub fn sections_of_user(pid: u32, number: u32) -> io::Result<Vec<(&'static str, Vec<String>)>> {
    Ok(uthread::describe(&uthread::of(pid, number)?))
}

fn print(out: &mut impl Write, sections: Vec<describe::Section>) -> io::Result<()> {
    let bold = anstyle::Style::new().bold();
    for (number, (title, paragraphs)) in sections.into_iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{bold}{title}{bold:#}")?;
        for paragraph in paragraphs {
            // Names in it may be any text.
            writeln!(out, "  {}", printable(paragraph.as_bytes()))?;
        }
    }
    Ok(())
}

/// Whether a thread does not exist, or ended during the query.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_level_thread_is_named_by_its_process_and_its_number() {
        assert_eq!(subject("815"), Ok(Subject::Kernel(815)));
        assert_eq!(subject("815/u7"), Ok(Subject::User(815, 7)));
        assert_eq!(subject("815/7"), Ok(Subject::User(815, 7)));
        for text in ["", "0", "x", "815/", "/7", "815/u", "815/0", "815/u7/8", "4294967296", "-1"] {
            assert!(subject(text).is_err(), "{text}");
        }
    }
}
