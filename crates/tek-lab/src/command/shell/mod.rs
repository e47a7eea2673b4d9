// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek lab shell`.
mod relay;
mod terminal;

use super::machine::Which;
use super::origin::report;
use super::output::{self, Watched};
use crate::session::{self, Listener};
use crate::{Job, Outcome};
use anyhow::bail;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
THE SHELL:
The shell is busybox's, as root in /root; it ends with `exit` or Ctrl-D, and the guest with it.
Everything that was written in the guest is lost then. Its exit status is that of tek, or 125 if
the lab failed.

EXAMPLES:
  tek lab shell
  tek lab shell --kind v1 --cpus 4 --add ./my-program:/usr/bin/my-program
  tek lab shell --gdb          then, elsewhere: gdb vmlinux -ex 'target remote :1234'";

/// Longer than any session.
const UNLIMITED: Duration = Duration::from_secs(365 * 86_400);

/// Arguments of `tek lab shell`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Show the guest's console on standard error
    #[arg(long)]
    console: bool,
    #[command(flatten)]
    machine: Which,
}

/// Does it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let machine = args.machine.prepare(&mut [])?;
    let (ours, theirs) = UnixStream::pair()?;
    let mut job = Job::new("shell", ["tek-lab", "terminal", "sh", "-l"].map(String::from).into());
    job.directory = Some("/root".into());
    for name in ["TERM", "COLORTERM"] {
        job.environment.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
    }
    job.environment.insert("PS1".into(), r"\h:\w\$ ".into());
    let limits = args.machine.limits(UNLIMITED);
    let console = Watched::new(args.console)?;
    if terminal::is_one() {
        report("booting a guest; its shell ends with Ctrl-D");
    }
    args.machine.describe_gdb();
    let relay = relay::start(ours)?;
    let result = session::run(&machine.plan(Some(&theirs)), &[job], limits, &mut Quiet { console });
    // Its port is closed now on both sides, so the relay ends when it has forwarded the rest.
    drop(theirs);
    relay.end();
    let ended = result?;
    let [ended] = ended.as_slice() else { bail!("one job has {} ends", ended.len()) };
    Ok(ExitCode::from(match &ended.outcome {
        Outcome::Exited { status } => *status,
        // By the user at its prompt.
        Outcome::Stopped => 0,
        other => {
            output::report_of_guest(&format!("the shell {other}"));
            if other.concerns_the_guest() && !args.console {
                output::describe_console(&ended.console);
            }
            125
        }
    }))
}

/// Shows the output that does not belong to the terminal.
struct Quiet {
    console: Watched,
}

impl Listener for Quiet {
    fn emulating(&mut self, why: &str) -> io::Result<()> {
        output::describe_emulation(why);
        Ok(())
    }

    fn error(&mut self, _job: &Job, bytes: &[u8]) -> io::Result<()> {
        output::to_stderr(bytes);
        Ok(())
    }

    fn console(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.push(bytes);
        Ok(())
    }
}

/// Arguments of the guest's end.
#[derive(clap::Args)]
pub struct TerminalArgs {
    program: String,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The guest's end: runs a program at the host's terminal.
pub fn terminal(args: TerminalArgs) -> anyhow::Result<ExitCode> {
    let status = crate::terminal::run(&args.program, &args.arguments)?;
    let signal = || 128_u8.saturating_add(status.signal().unwrap_or(0) as u8);
    Ok(ExitCode::from(status.code().map_or_else(signal, |code| code as u8)))
}
