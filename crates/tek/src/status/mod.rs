// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek status`: the status of tekd.
mod answer;
mod describe;
pub mod kthreads;
pub mod lifts;

use crate::daemon::{text_of, Connection, Error};
use crate::message;
#[cfg(test)]
pub use answer::tests::at_work;
pub use answer::Status;
use anyhow::Context;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use tek_abi::{text, Request, ASK_STATUS};
use tek_model::{Device, Wanted};

/// More than the status of tekd on a device with 32,768 threads.
const MOST_BYTES: u64 = 64 << 20;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek status
  tek status --json | jq '.fast[].name'
  watch tek status

Shows what tekd may touch (its domain), which threads it made time-critical and
why, its grants and their users, and the requests that it lately refused or sent
back. Roles of threads are from the tables of their processes, if you may read
them. Threads that their own processes made time-critical are shown by tek ps
--region fast.

EXIT STATUS:
    0  tekd runs
    1  it does not run, or does not answer this user
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek status`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print JSON: what tekd says, with the roles of threads
    #[arg(long)]
    json: bool,
}

/// Asks and shows.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = match ask() {
        Ok(file) => file,
        Err(error) => {
            message::print(&error.to_string());
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut answered = answered(file)?;
    let status = Status::deserialize_from(&answered)?;
    let roles = roles_of(&status);
    let mut out = anstream::stdout();
    if args.json {
        add_roles(&mut answered, &roles);
        writeln!(out, "{}", crate::json::pretty(&answered)?)?;
    } else {
        describe::print(&mut out, &status, &roles)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The status of the daemon. The answer may take seconds.
pub fn now() -> anyhow::Result<Value> {
    answered(ask()?)
}

/// The same, if this tek understands it.
pub fn understood() -> anyhow::Result<Status> {
    Status::deserialize_from(&now()?)
}

/// Its part about threads that are lifted for their waiters; `None`: tekd does not run, or does not
/// report any.
pub fn lifts_now() -> Option<lifts::Reported> {
    understood().ok()?.inherit
}

fn answered(file: Option<File>) -> anyhow::Result<Value> {
    let file = file.context("tekd answered without telling anything")?;
    let text = text_of(file, MOST_BYTES).context("cannot read the answer of tekd")?;
    serde_json::from_str(&text).context("the answer of tekd is not JSON")
}

fn ask() -> Result<Option<File>, Error> {
    Ok(Connection::open()?.ask(Request::new(ASK_STATUS, 0))?.1)
}

/// The roles of the threads that are Fast, where their tables have them.
fn roles_of(status: &Status) -> HashMap<u32, String> {
    let pids: Vec<u32> = status.fast.iter().map(|fast| fast.pid).collect();
    if pids.is_empty() {
        return HashMap::new();
    }
    let wanted = Wanted { pids, directories: tek_model::directories(), ..Wanted::default() };
    let device = Device::examine(&wanted);
    let tasks =
        device.iter().flat_map(|device| &device.programs).flat_map(|program| &program.tasks);
    tasks
        .filter_map(|task| {
            let own = task.record.filter(|own| own.record.role_bytes != 0)?;
            Some((task.stat.tid, text(&own.side.role)))
        })
        .collect()
}

fn add_roles(answered: &mut Value, roles: &HashMap<u32, String>) {
    let Some(threads) = answered.get_mut("fast").and_then(Value::as_array_mut) else { return };
    for thread in threads.iter_mut().filter_map(Value::as_object_mut) {
        let tid = thread.get("tid").and_then(Value::as_u64).and_then(|tid| u32::try_from(tid).ok());
        let role = tid.and_then(|tid| roles.get(&tid));
        thread.insert("role".into(), role.map_or(Value::Null, |role| role.as_str().into()));
    }
}
