// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek lab fetch`.
use super::machine::KINDS;
use super::origin::{report, Origin};
use crate::archive::Source;
use crate::kernel::{self, Wanted};
use crate::{sysroot, Cache, Kind, Kinds, Sysroot};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `tek lab fetch`.
#[derive(clap::Args)]
#[command(after_help = "\
EXAMPLES:
  tek lab fetch                all that the kinds of machines need, 330 MB
  tek lab fetch --kind rt      15 MB
  tek lab fetch --newest       the newest of each series; removes superseded ones
  tek lab fetch --kind rt --mirror http://archive.example/debian
  tek lab fetch --sysroot arm64 --json | jq -r '.sysroots[].path'

The kernels are Debian's packages, from where this machine's apt gets Debian. apt's own settings
(proxies, certificates) count; its sources and lists stay as they are. What is in the cache needs
no network. Which series there are is in lab/kinds.toml.

EXIT STATUS:
    0  all of it is in the cache
    1  something cannot be got
  125  TEK itself failed
    2  an option was not understood")]
pub struct Args {
    /// Fetch what this kind of machine needs; can be given several times [default: all kinds]
    #[arg(long, value_name = "KIND", value_parser = KINDS, hide_possible_values = true)]
    kind: Vec<String>,
    /// Fetch packages of another architecture, by their entry in lab/kinds.toml: what tools/cross
    /// builds with
    #[arg(long, value_name = "NAME", value_parser = a_sysroot)]
    sysroot: Vec<String>,
    /// Fetch the kernels' modules too where no kind needs them (160 MB each)
    #[arg(long)]
    modules: bool,
    /// Look for newer versions than those in the cache
    #[arg(long)]
    newest: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    origin: Origin,
}

/// The files that were downloaded for a kind.
#[derive(Serialize)]
struct Got {
    kind: String,
    kernel: kernel::Record,
    image: PathBuf,
    modules: Option<PathBuf>,
    sysroot: Option<GotSysroot>,
}

#[derive(Serialize)]
struct GotSysroot {
    path: PathBuf,
    #[serde(flatten)]
    record: sysroot::Record,
}

/// Does it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let kinds = Kinds::own();
    let cache = args.origin.cache()?;
    let source = args.origin.source();
    let mut all = Vec::new();
    let mut failed = false;
    let mut sysroots = Vec::new();
    for sysroot in args.sysroot.iter().filter_map(|name| kinds.sysroot(name)) {
        match fetch_sysroot(sysroot, &cache, &source, &args) {
            Ok(got) => {
                if !args.json {
                    writeln!(std::io::stdout(), "{}: {}", sysroot.name, got.path.display())?;
                }
                sysroots.push(got);
            }
            Err(error) => {
                report(&format!("{}: {error}", sysroot.name));
                failed = true;
            }
        }
    }
    for kind in named(&kinds, &args) {
        match fetch(&kinds, kind, &cache, &source, &args) {
            Ok(got) => {
                if !args.json {
                    writeln!(std::io::stdout(), "{}", line(&got))?;
                }
                all.push(got);
            }
            Err(error) => {
                report(&format!("kind {}: {error}", kind.name));
                failed = true;
            }
        }
    }
    if args.json {
        let text = serde_json::json!({
            "schema": 1, "directory": cache.directory(), "kinds": all, "sysroots": sysroots
        });
        writeln!(std::io::stdout(), "{}", tek_command::json::pretty(&text)?)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn a_sysroot(text: &str) -> Result<String, String> {
    match Kinds::own().sysroot(text) {
        Some(sysroot) => Ok(sysroot.name.clone()),
        None => Err("lab/kinds.toml has no sysroot of that name".to_owned()),
    }
}

/// The kinds that are named; all if nothing is.
fn named<'a>(kinds: &'a Kinds, args: &'a Args) -> impl Iterator<Item = &'a Kind> {
    let all = args.kind.is_empty() && args.sysroot.is_empty();
    kinds.kinds().filter(move |kind| all || args.kind.contains(&kind.name))
}

fn fetch_sysroot(
    sysroot: &Sysroot,
    cache: &Cache,
    source: &Source,
    args: &Args,
) -> anyhow::Result<GotSysroot> {
    let record = sysroot::obtain(sysroot, cache, args.newest, source, &mut report)?;
    Ok(GotSysroot { path: record.directory(cache), record })
}

fn fetch(
    kinds: &Kinds,
    kind: &Kind,
    cache: &Cache,
    source: &Source,
    args: &Args,
) -> anyhow::Result<Got> {
    let modules = args.modules || kind.needs_modules();
    let wanted = Wanted { modules, newest: args.newest, settle: false, source };
    let record = kernel::record(kinds, kinds.kernel_of(kind), cache, &wanted, &mut report)?;
    let obtained = record.obtained(cache);
    let sysroot = match kinds.sysroot_of(kind) {
        Some(sysroot) => Some(fetch_sysroot(sysroot, cache, source, args)?),
        None => None,
    };
    Ok(Got {
        kind: kind.name.clone(),
        modules: obtained.modules.clone().filter(|_| obtained.has_all_modules()),
        image: obtained.image,
        kernel: record,
        sysroot,
    })
}

fn line(got: &Got) -> String {
    let mut line = format!("{}: Linux {} ({})", got.kind, got.kernel.release, got.kernel.version());
    if got.modules.is_some() {
        line += ", its modules";
    }
    if let Some(sysroot) = &got.sysroot {
        line += &format!(
            ", {} packages of {}",
            sysroot.record.packages.len(),
            sysroot.record.architecture
        );
    }
    line
}
