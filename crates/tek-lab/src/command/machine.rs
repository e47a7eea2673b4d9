// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that choose the machine to boot, alike in all commands.
use super::contents::{self, own_files};
use super::origin::{report, Origin};
use crate::acceleration::Acceleration;
use crate::cache::InUse;
use crate::kernel::{self, Obtained, Wanted};
use crate::machine::Plan;
use crate::session::{Limits, BOOTS};
use crate::{initramfs, needs, size, sysroot, Kind, Kinds};
use anyhow::{bail, Context};
use clap::builder::PossibleValue;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use tek_command::suggested::Suggested;

/// The default port of gdbserver-like programs, QEMU's own too.
const GDB: &str = "1234";

/// The time until a guest must have ended a job after the request.
const GRACE: Duration = Duration::from_secs(5);

/// The time until its results must be reported and cleared away: `$OUT` may be large, and the
/// machine busy.
const CLEARING: Duration = Duration::from_secs(60);

/// The limit while a user debugs with gdb.
const A_DAY: Duration = Duration::from_secs(86_400);

/// Which machine, and what is in it.
#[derive(clap::Args)]
#[command(next_help_heading = "The machine")]
pub struct Which {
    /// Kind of machine; `tek lab list` shows them
    #[arg(long, value_name = "KIND", default_value = "rt", value_parser = KINDS,
          hide_possible_values = true)]
    kind: String,
    /// Number of CPUs, instead of the kind's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    /// Memory, such as 256M or 1G, instead of the kind's: at least 64M, and three times the size
    /// of the guest's files. A number without K, M, G or T is one of bytes
    #[arg(long, value_name = "SIZE", value_parser = a_memory)]
    memory: Option<String>,
    /// An empty disk of that size, which the guest finds formatted at /disk
    #[arg(long, value_name = "SIZE", value_parser = a_size)]
    disk: Option<String>,
    /// More arguments for the kernel, after the kind's own
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Boot this kernel image instead of the kind's; what it needs before it can load modules must
    /// be built in (initramfs, virtio_pci, virtio_console, serial console)
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Directory of that kernel's modules, which has `kernel/` and `modules.dep`
    #[arg(long, value_name = "DIR", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Wait for gdb at this TCP port of 127.0.0.1 before the first instruction. Adds nokaslr to the
    /// kernel's arguments, and no limit holds but one that --limit gives
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = GDB, value_parser = clap::value_parser!(u16).range(1..))]
    gdb: Option<u16>,
    /// Emulate the processor even where KVM could be used
    #[arg(long)]
    no_kvm: bool,
    /// Where the processor is emulated, run the guest's CPUs in turns and never at the same time:
    /// QEMU may lose track of code that the kernel changes while another CPU runs it. From Linux
    /// 7.0 on the guest's time is counted by their instructions, so it does not see this machine's
    /// load
    #[arg(long)]
    in_turns: bool,
    /// Seconds until the guest must be up
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = a_limit)]
    boot_limit: u64,
    #[command(flatten)]
    contents: contents::What,
    #[command(flatten)]
    origin: Origin,
}

/// Parses the name of a kind of machine.
pub const KINDS: Suggested<String> = Suggested {
    parse: a_kind,
    names: || {
        // clap keeps names for the whole run.
        let name = |kind: &Kind| PossibleValue::new(&*kind.name.clone().leak());
        Kinds::own().kinds().map(name).collect()
    },
};

fn a_kind(text: &str) -> Result<String, String> {
    match Kinds::own().kind(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// No kernel boots with less.
const LEAST_MEMORY: u64 = 64 << 20;

fn a_memory(text: &str) -> Result<String, &'static str> {
    match size::parse(text) {
        Some(LEAST_MEMORY..) => Ok(text.to_owned()),
        Some(_) => Err("no kernel boots with less than 64M"),
        None => Err("write it as 256M or 1G"),
    }
}

fn a_size(text: &str) -> Result<String, &'static str> {
    match size::parse(text) {
        Some(1..) => Ok(text.to_owned()),
        _ => Err("write it as 256M or 1G"),
    }
}

/// Parses a limit: a number of seconds, at least 1.
pub fn a_limit(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => Err("a whole number of seconds, from 1 to 86400 (a day)"),
    }
}

/// All that is needed to boot.
pub struct Machine {
    kind: Kind,
    kernel: Obtained,
    initramfs: File,
    gdb: Option<u16>,
    acceleration: Acceleration,
    in_turns: bool,
    /// Each boot reads the kernel's image.
    _in_use: Option<InUse>,
}

impl Which {
    /// Gets the kernel and the files, also those of this machine that the command names: in the
    /// command each becomes the path that it has in the guest.
    pub fn prepare(&self, command: &mut [String]) -> anyhow::Result<Machine> {
        let kinds = Kinds::own();
        let mut kind = kinds.kind(&self.kind)?.clone();
        kind.cpus = self.cpus.unwrap_or(kind.cpus);
        kind.memory = self.memory.clone().unwrap_or(kind.memory);
        kind.disk = self.disk.clone().or(kind.disk);
        for more in &self.append {
            kind.append = format!("{} {more}", kind.append).trim().to_owned();
        }
        self.check_needs(&kinds, &kind, command)?;
        let in_use = self.origin.cache().ok().and_then(|cache| cache.in_use());
        let kernel = self.kernel(&kinds, &kind)?;
        let sysroot = self.sysroot(&kinds, &kind)?;
        let foreign = sysroot.is_some();
        let mut contents = self.contents.contents(&kernel.architecture, sysroot)?;
        let guest_has = |name: &str| Ok(initramfs::has_program(&kind, &kernel, &contents, name)?);
        for path in own_files(command, foreign, guest_has)? {
            contents::check_architecture(&path, &kernel.architecture)?;
            contents.added.push((path.clone(), path));
        }
        let initramfs = initramfs::pack(&kind, &kernel, &contents)?;
        let notes = self.origin.cache().ok().map(|cache| cache.directory().to_owned());
        let acceleration = Acceleration::new(!self.no_kvm, notes, &kernel.release);
        let (gdb, in_turns) = (self.gdb, self.in_turns);
        Ok(Machine { kind, kernel, initramfs, gdb, acceleration, in_turns, _in_use: in_use })
    }

    /// Reports problems of this machine before anything is downloaded.
    fn check_needs(&self, kinds: &Kinds, kind: &Kind, command: &[String]) -> anyhow::Result<()> {
        let architecture = &kinds.kernel_of(kind).architecture;
        let foreign = kinds.sysroot_of(kind).is_some();
        let modular = self.kernel.is_none() || self.modules.is_some();
        needs::check(kind, architecture, foreign, modular)?;
        let contents = self.contents.contents(architecture, None)?;
        crate::check_own(&contents.tek)?;
        contents::check_named(command)
    }

    fn kernel(&self, kinds: &Kinds, kind: &Kind) -> anyhow::Result<Obtained> {
        let kernel = kinds.kernel_of(kind);
        let Some(image) = &self.kernel else {
            let source = self.origin.source();
            let wanted = Wanted {
                modules: kind.needs_modules(),
                newest: false,
                settle: true,
                source: &source,
            };
            let cache = self.origin.cache()?;
            return Ok(kernel::obtain(kinds, kernel, &cache, &wanted, &mut report)?);
        };
        let about = || format!("cannot read {}", image.display());
        // First, because opening a pipe would wait.
        if !image.metadata().with_context(about)?.is_file() {
            bail!("{} is no kernel image: it is no regular file", image.display());
        }
        File::open(image).with_context(about)?;
        let release = match &self.modules {
            Some(modules) if !modules.join("kernel").is_dir() => {
                bail!("{} has no modules: there is no directory kernel in it", modules.display())
            }
            Some(modules) => modules.canonicalize()?,
            None => image.clone(),
        };
        let release = release.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Obtained {
            release,
            architecture: kernel.architecture.clone(),
            image: std::path::absolute(image)?,
            modules: self.modules.clone(),
            config: None,
        })
    }

    /// The libraries of the guest's programs, if it is of another architecture.
    fn sysroot(&self, kinds: &Kinds, kind: &Kind) -> anyhow::Result<Option<PathBuf>> {
        let Some(sysroot) = kinds.sysroot_of(kind) else { return Ok(None) };
        let cache = self.origin.cache()?;
        let source = self.origin.source();
        let record = sysroot::obtain(sysroot, &cache, false, &source, &mut report)?;
        Ok(Some(record.directory(&cache)))
    }

    /// The limits of a session, with this limit for jobs. With gdb no limit ends a guest that
    /// booted or panicked and then stands at a breakpoint. If the first guest fails to come up, no
    /// second one waits for gdb.
    pub fn limits(&self, job: Duration) -> Limits {
        let limits = Limits {
            boot: Duration::from_secs(self.boot_limit),
            job,
            grace: GRACE,
            panic: GRACE,
            clearing: CLEARING,
            boots: BOOTS,
        };
        match self.gdb {
            Some(_) => Limits { boot: A_DAY, panic: A_DAY, clearing: A_DAY, boots: 1, ..limits },
            None => limits,
        }
    }

    /// Reports the port for gdb, if there is one.
    pub fn describe_gdb(&self) {
        if let Some(port) = self.gdb {
            report(&format!("waiting for gdb at 127.0.0.1:{port}"));
        }
    }

    /// Whether a user debugs with gdb and needs time.
    pub fn is_debugged(&self) -> bool {
        self.gdb.is_some()
    }
}

impl Machine {
    /// The machine to boot; with the guest's end of a terminal, if it is to have one.
    pub fn plan<'a>(&'a self, terminal: Option<&'a UnixStream>) -> Plan<'a> {
        Plan {
            kind: &self.kind,
            kernel: &self.kernel,
            initramfs: &self.initramfs,
            gdb: self.gdb,
            terminal,
            acceleration: &self.acceleration,
            in_turns: self.in_turns,
        }
    }
}
