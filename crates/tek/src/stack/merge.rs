// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack merge`: profiles from many devices, or many runs, as one.
use super::source::{describe, store};
use crate::message;
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tek_abi::printable;
use tek_stack::{Parsed, Profile, Program};

const AFTER_HELP: &str = "\
EXAMPLES:
  tek stack merge -o fleet/2f0e17.stack device-*/2f0e17.stack
  tek stack merge --into-store /mnt/usb/*.stack

What is largest of all devices is kept, and threads are counted together. What
program a profile is of, the name of its file says, BUILD-ID.stack. Profiles of
different programs are no one file; in the store each has its own.

EXIT STATUS:
    0  they were merged
    1  a file cannot be read, is no profile, or is of another program; nothing
       was written
  125  TEK itself failed
    2  an option was not understood";

/// Arguments of `tek stack merge`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group = clap::ArgGroup::new("into").required(true))]
pub struct Args {
    /// Write the merged profile into this file
    #[arg(short, long, value_name = "FILE", group = "into")]
    output: Option<PathBuf>,

    /// Add them to the profiles of this device
    #[arg(long, group = "into")]
    into_store: bool,

    /// Where profiles lie [default: TEK_STACK_PROFILES, else ~/.local/state/tek/stack,
    /// for root /var/lib/tek/stack]
    #[arg(long, alias = "stack-profiles", value_name = "DIRECTORY", requires = "into_store")]
    profiles: Option<PathBuf>,

    /// Profiles, tek-stack-profile(5), or directories with such
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
}

/// Merges.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut merged = BTreeMap::<Option<Program>, Profile>::new();
    let mut failed = false;
    let mut fail = |problem: String| {
        message::print(&problem);
        failed = true;
    };
    let mut names = BTreeSet::new();
    for path in &files_in(&args.files) {
        if !path.exists() {
            fail(format!("{}: there is no such file", path.display()));
            continue;
        }
        let program = program_of(path);
        if program.is_none() && args.into_store {
            fail(format!(
                "{}: the name does not say of what program it is: call it BUILD-ID.stack or \
                 @NAME.stack",
                path.display()
            ));
            continue;
        }
        match Parsed::read(path) {
            Ok(Parsed { profile, problems }) => {
                describe(&path.display().to_string(), &problems);
                names.insert(profile.program.clone());
                merged.entry(program).or_default().merge(&profile);
            }
            Err(error) => fail(error.to_string()),
        }
    }
    let ids: Vec<_> = merged.keys().flatten().map(ToString::to_string).collect();
    if args.output.is_some() && (ids.len() > 1 || names.len() > 1) {
        let names: Vec<_> = names.iter().map(|name| printable(name.as_bytes())).collect();
        let of = if ids.len() > 1 { ids.join(" and ") } else { names.join(" and ") };
        fail(format!("these are profiles of several programs, and a file is of one: {of}"));
    }
    if failed {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(path) = &args.output {
        let mut profile = Profile::default();
        merged.values().for_each(|one| profile.merge(one));
        let (text, dropped) = profile.format();
        report_dropped(path, dropped);
        replace(path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    } else {
        let is_usual = args.profiles.is_none();
        let store = store(args.profiles)?;
        let store = match is_usual {
            true => tek_stack::Store::create_all(store.directory())?,
            false => tek_stack::Store::create(store.directory())?,
        };
        for (program, merged) in &merged {
            let Some(program) = program else { continue };
            let dropped = store.update(program, |profile| profile.merge(merged))?;
            report_dropped(&store.path(program), dropped);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The files, and those that lie in directories.
fn files_in(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut within: Vec<_> = entries.map(|entry| entry.path()).collect();
        within.retain(|path| program_of(path).is_some());
        within.sort();
        files.extend(within);
    }
    files
}

fn report_dropped(path: &Path, dropped: usize) {
    if dropped > 0 {
        message::print(&format!(
            "{} has no room for {dropped} kinds of thread, those with the fewest threads",
            path.display()
        ));
    }
}

/// Its name has it, as in the store.
fn program_of(path: &Path) -> Option<Program> {
    Program::parse(path.file_name()?.to_str()?.strip_suffix(".stack")?)
}

/// A concurrent reader, or a source that is the same file, finds the old file or the new one.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if !path.metadata().map_or(true, |metadata| metadata.is_file()) {
        // /dev/stdout is not to be replaced.
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}
