// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek groups set`: moves a process or a thread into a group, by hand.
use super::name;
use crate::daemon::{Connection, Error};
use crate::find::{self, Target};
use crate::message;
use std::io::Write;
use std::process::ExitCode;
use tek_abi::{Request, ASK_GROUP, ASK_PROCESS};
use tek_policy::Group;

/// The cure where there are no groups.
pub fn no_groups() -> String {
    format!("{} (tekd.toml(5) has more)", crate::daemon::add_table("[groups]"))
}

pub const AFTER_HELP: &str = "\
EXAMPLES:
  tek groups set fridge background          all threads of the process fridge
  tek groups set --thread 816 service       this thread only

A name is that of a program or of the first thread of a process, as tek ps shows
it, and must be that of one process only. It is placed until it ends or tekd
stops; what it starts meanwhile begins in its group. A program that is to choose
for itself, which needs no `others`, is started with tek run --group.

EXIT STATUS:
    0  tekd placed it
    1  there is no such process or more than one, or tekd refused or does not run
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek groups set`.
#[derive(clap::Args)]
#[command(allow_missing_positional = true)]
pub struct Args {
    /// Process, by its id or its name
    #[arg(value_name = "PID|NAME", required_unless_present = "thread")]
    process: Option<String>,

    /// Group
    #[arg(value_name = "GROUP", required = true, value_parser = name::parser())]
    group: Group,

    /// This thread only
    #[arg(long, value_name = "TID", value_parser = clap::value_parser!(u32).range(1..))]
    thread: Option<u32>,
}

/// Asks.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let target = match find::target(args.process.as_deref(), args.thread)? {
        Ok(target) => target,
        Err(problem) => {
            message::print(&problem);
            return Ok(ExitCode::FAILURE);
        }
    };
    let asked =
        Connection::open().and_then(|mut connection| connection.ask(request(args.group, &target)));
    if let Err(error) = asked {
        message::print(&reported(&error));
        return Ok(ExitCode::FAILURE);
    }
    let Target { shown, .. } = target;
    writeln!(
        std::io::stdout(),
        "{shown}: in the group {}, until it ends or tekd stops",
        args.group
    )?;
    Ok(ExitCode::SUCCESS)
}

fn request(group: Group, target: &Target) -> Request {
    Request {
        tid: target.tid,
        start_ticks: target.start_ticks,
        flags: if target.is_process { ASK_PROCESS } else { 0 },
        group: name::number(group),
        ..Request::new(ASK_GROUP, 0)
    }
}

/// The error, and the cure if there are no groups.
pub fn reported(error: &Error) -> String {
    match error {
        Error::Refused { error: libc::EOPNOTSUPP, .. } => format!("{error}: {}", no_groups()),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use zerocopy::IntoBytes;

    fn args(line: &str) -> Result<Args, String> {
        let words = ["tek", "groups", "set"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Groups(super::super::Args {
                command: Some(super::super::Command::Set(args)),
                ..
            }) => Ok(args),
            _ => unreachable!(),
        }
    }

    #[test]
    fn a_process_or_a_thread_is_named_with_its_group() {
        let process = args("fridge background").unwrap();
        assert_eq!(
            (process.process.as_deref(), process.group),
            (Some("fridge"), Group::Background)
        );
        let thread = args("--thread 816 service").unwrap();
        assert_eq!((thread.process, thread.thread), (None, Some(816)));
        assert_eq!(thread.group, Group::Service);
        for line in ["", "fridge", "background", "fridge best", "--thread 0 normal"] {
            assert!(args(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_request_names_the_process_and_no_later_one() {
        let target = Target {
            tid: 815,
            start_ticks: 4711,
            is_process: true,
            shown: "fridge [815]".into(),
            again: "815".into(),
        };
        let made = Request { number: 1, ..request(Group::Service, &target) };
        assert_eq!((made.tid, made.start_ticks, made.flags), (815, 4711, ASK_PROCESS));
        assert_eq!(made.group, u32::from(tek_abi::GROUP_SERVICE));
        assert_eq!(Request::decode(made.as_bytes()), Ok(made));
    }

    #[test]
    fn where_there_are_no_groups_the_error_has_the_way_to_get_them() {
        let refused = |error, why: &str| reported(&Error::Refused { error, why: why.into() });
        let text = refused(libc::EOPNOTSUPP, "groups are not in force: tekd.toml has no [groups]");
        assert!(text.contains("has no [groups]") && text.ends_with(&no_groups()), "{text}");
        assert!(!refused(libc::EPERM, "no grant").contains("tekd.toml(5)"));
    }
}
