// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek critical`: puts the threads of a process into the Fast Region, by hand.

use crate::daemon::{Connection, Error};
use crate::find::{self, Target};
use crate::message;
use crate::ps::interval;
use nix::time::{clock_gettime, ClockId};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tek_abi::{Reply, Request, TimeOffsets, ASK_CRITICAL, ASK_NORMAL, ASK_PROCESS};

const AFTER_HELP: &str = "\
EXAMPLES:
  tek critical fridge --for 5s              all threads of the process fridge
  tek critical 815 --priority -5            until it is taken back, or ends
  tek critical --thread 816 --for 500ms     this thread only
  tek critical fridge --end                 and back again

A name is that of a program or of the first thread of a process, as tek ps shows
it, and must be that of one process only. Whether you may do this to the process,
and for how many threads, is in the configuration of tekd; tek status shows the
threads that are time-critical now. Threads that the process creates later are not
included: send a new request, or run the program under tek run --critical.

EXIT STATUS:
    0  tekd did it
    1  there is no such process or more than one, or tekd refused or does not run
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek critical`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Process, by its id or its name
    #[arg(value_name = "PID|NAME", required_unless_present = "thread")]
    process: Option<String>,

    /// This thread only
    #[arg(long, value_name = "TID", value_parser = clap::value_parser!(u32).range(1..))]
    thread: Option<u32>,

    /// For so long, such as 5s, 500ms or 2m [default: until --end, or their end]
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    time: Option<Duration>,

    /// Priority among time-critical threads: -20 (first) to 19 (last)
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-20..=19))]
    priority: i32,

    /// Take them back
    #[arg(long, conflicts_with_all = ["time", "priority"])]
    end: bool,
}

/// Asks.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let target = match find::target(args.process.as_deref(), args.thread)? {
        Ok(target) => target,
        Err(problem) => {
            message::print(&problem);
            return Ok(ExitCode::FAILURE);
        }
    };
    match ask(&request(&args, &target)) {
        Ok(reply) => writeln!(std::io::stdout(), "{}", reported(&args, &target, &reply))?,
        Err(error) => {
            message::print(&error.to_string());
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(request: &Request) -> Result<Reply, Error> {
    Ok(Connection::open()?.ask(*request)?.0)
}

fn request(args: &Args, target: &Target) -> Request {
    let kind = if args.end { ASK_NORMAL } else { ASK_CRITICAL };
    Request {
        tid: target.tid,
        start_ticks: target.start_ticks,
        flags: if target.is_process { ASK_PROCESS } else { 0 },
        priority: if args.end { 0 } else { args.priority },
        until_ns: args.time.map_or(0, after),
        ..Request::new(kind, 0)
    }
}

/// CLOCK_MONOTONIC of the initial time namespace after that time.
fn after(time: Duration) -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let until = u64::try_from((now + time).as_nanos()).unwrap_or(u64::MAX);
    let offset = TimeOffsets::own().unwrap_or_default().monotonic_ns;
    until.saturating_add_signed(offset.saturating_neg())
}

fn reported(args: &Args, target: &Target, reply: &Reply) -> String {
    let identity = &target.shown;
    if args.end {
        return format!("{identity}: as before");
    }
    let how = match reply.rt_priority {
        0 => "time-critical, with the policy and priority that it has".to_owned(),
        priority => format!("time-critical, real-time priority {priority}"),
    };
    match args.time {
        Some(time) => format!("{identity}: {how}, for {time:?}"),
        None => format!("{identity}: {how}, until `tek critical {} --end`", target.again),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> Result<Args, String> {
        let words = ["tek", "critical"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Critical(args) => Ok(args),
            _ => unreachable!(),
        }
    }

    fn target() -> Target {
        Target {
            tid: 815,
            start_ticks: 4711,
            is_process: true,
            shown: "fridge [815]".into(),
            again: "815".into(),
        }
    }

    #[test]
    fn a_request_has_the_thread_its_priority_and_the_end() {
        let before = after(Duration::ZERO);
        let made = request(&args("815 --for 5s --priority -3").unwrap(), &target());
        assert_eq!((made.kind, made.tid, made.start_ticks), (ASK_CRITICAL, 815, 4711));
        assert_eq!((made.flags, made.priority), (ASK_PROCESS, -3));
        assert!((before + 5_000_000_000..before + 60_000_000_000).contains(&made.until_ns));
        let thread = Target { is_process: false, ..target() };
        let made = request(&args("--thread 815").unwrap(), &thread);
        assert_eq!((made.flags, made.until_ns, made.priority), (0, 0, 0));
        let made = request(&args("815 --end").unwrap(), &target());
        assert_eq!((made.kind, made.flags), (ASK_NORMAL, ASK_PROCESS));
        for request in [made, Request { number: 1, ..made }] {
            use zerocopy::IntoBytes;
            assert_eq!(Request::decode(request.as_bytes()), Ok(request));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "815 --priority 20",
            "815 --for never",
            "815 --end --for 1s",
            "815 --end --priority 1",
            "--thread 0",
        ] {
            assert!(args(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_message_has_what_was_done_and_how_to_undo_it() {
        let done = |line: &str, rt_priority| {
            let args = args(line).unwrap();
            let reply = Reply { rt_priority, ..Reply::to(&request(&args, &target())) };
            reported(&args, &target(), &reply)
        };
        assert_eq!(
            done("fridge --for 5s", 29),
            "fridge [815]: time-critical, real-time priority 29, for 5s"
        );
        let reported = done("fridge", 0);
        assert!(reported.ends_with("that it has, until `tek critical 815 --end`"), "{reported}");
        assert_eq!(done("fridge --end", 0), "fridge [815]: as before");
    }
}
