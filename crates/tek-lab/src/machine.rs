// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU: one booted guest.
//!
//! QEMU shares with this process only the file descriptors that it inherits: sockets for the port,
//! the console and its messages, and the initramfs and the disk as files without a name. The kernel
//! kills it when the thread that started it ends, however that happens, so QEMU cannot outlive us.
use crate::acceleration::Acceleration;
use crate::kernel::Obtained;
use crate::{size, Kind};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tek_advice::Package;

/// The machine to boot.
pub struct Plan<'a> {
    /// The kind, with the changes by options.
    pub kind: &'a Kind,
    /// Its kernel.
    pub kernel: &'a Obtained,
    /// The output of [`crate::initramfs::pack`].
    pub initramfs: &'a File,
    /// TCP port of this machine's loopback where the guest waits, before its first instruction, for
    /// gdb.
    pub gdb: Option<u16>,
    /// The end of a socket that becomes the guest's port for a terminal.
    pub terminal: Option<&'a UnixStream>,
    /// Whether it may have this machine's own processor.
    pub acceleration: &'a Acceleration,
    /// Whether emulated CPUs run one at a time. Then the guest's time is counted by their
    /// instructions, if the kernel boots with that.
    pub in_turns: bool,
}

/// Why QEMU could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not installed.
    #[error("{program} is not installed: {}", tek_advice::install(&[*.package], None))]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: Package,
    },
    /// The kernel is for a processor that the lab has no machine for.
    #[error("no machine for kernels of the architecture {0}; amd64, arm64 and armhf are known")]
    Architecture(String),
    /// The guest's files do not fit into its memory.
    #[error(
        "the guest's files take {} MB, and three times that while it boots, which is too much for \
         its memory of {memory}: give it more (--memory {}M), or take less into it",
        .files >> 20, .wanted >> 20
    )]
    Memory {
        /// Bytes of its files.
        files: u64,
        /// Its memory.
        memory: String,
        /// Bytes with which it would boot.
        wanted: u64,
    },
    /// The size of the memory or the disk is invalid.
    #[error("{0} is no size of a disk or memory; write it as 512M or 2G")]
    Size(String),
    /// There is no place for the disk's file.
    #[error(
        "cannot make a disk of {size} in {}: {source}; TMPDIR names another place",
        std::env::temp_dir().display()
    )]
    Disk {
        /// Its size.
        size: String,
        /// The error.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: &'static str,
        /// The error.
        source: io::Error,
    },
}

/// The properties of a processor.
struct Processor {
    qemu: &'static str,
    package: &'static [(&'static str, u32)],
    machine: &'static str,
    cpu: &'static str,
    /// The kernel's name of the serial port.
    console: &'static str,
    /// More arguments for the kernel.
    append: &'static str,
    /// Kernels for it can run on this machine's own processor.
    own: bool,
}

impl Processor {
    fn of(architecture: &str) -> Result<Self, Error> {
        Ok(match architecture {
            "amd64" => Self {
                qemu: "qemu-system-x86_64",
                package: &[("qemu-system-x86", 0)],
                // Only devices that a guest needs: each device takes time at boot.
                machine: "q35,sata=off,smbus=off,vmport=off,i8042=off",
                cpu: "max",
                console: "ttyS0",
                // Both are about timers, which QEMU serves late where this machine is busy: the
                // kernel would panic for the one, and take a slow clock for the other.
                append: " no_timer_check tsc=reliable",
                own: cfg!(target_arch = "x86_64"),
            },
            "armhf" => Self {
                qemu: "qemu-system-arm",
                package: &[("qemu-system-arm", 0)],
                // All devices below 4 GB, where a kernel without LPAE finds them.
                machine: "virt,highmem=off",
                cpu: "cortex-a15",
                console: "ttyAMA0",
                append: "",
                own: false,
            },
            "arm64" => Self {
                qemu: "qemu-system-aarch64",
                package: &[("qemu-system-arm", 0)],
                machine: "virt",
                // It has no signed pointers, whose emulation would take most of a guest's time.
                cpu: "cortex-a72",
                console: "ttyAMA0",
                append: "",
                own: false,
            },
            other => return Err(Error::Architecture(other.to_owned())),
        })
    }
}

/// QEMU for guests of an architecture, and the package that has it.
pub fn emulator(architecture: &str) -> Option<(&'static str, Package)> {
    let processor = Processor::of(architecture).ok()?;
    Some((processor.qemu, Package { names: processor.package }))
}

/// A guest's process.
pub trait Process {
    /// How it ended, if it does so within a time.
    fn ended(&mut self, within: Duration) -> Option<ExitStatus>;
}

/// A guest, and the sockets that lead to it. It is killed when this is dropped.
pub struct Machine {
    /// Frames, both ways.
    pub port: UnixStream,
    /// The kernel's console.
    pub console: UnixStream,
    /// QEMU's standard error.
    pub words: UnixStream,
    /// QEMU.
    pub process: Box<dyn Process>,
    /// It may run on this machine's own processor (KVM); otherwise that is emulated.
    pub accelerated: bool,
}

/// QEMU's process, killed when this is dropped.
struct Qemu(Child);

impl Process for Qemu {
    fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + within;
        loop {
            match self.0.try_wait() {
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots a guest, on this machine's own processor if the plan allows it and KVM works.
pub fn boot(plan: &Plan, accelerate: bool) -> Result<Machine, Error> {
    let processor = Processor::of(&plan.kernel.architecture)?;
    let accelerated =
        accelerate && processor.own && plan.acceleration.is_wanted() && kvm_is_usable();
    check_memory(plan)?;
    let start = |source| Error::Start { program: processor.qemu, source };
    let (port, its_port) = UnixStream::pair().map_err(start)?;
    let (console, its_console) = UnixStream::pair().map_err(start)?;
    let (words, its_words) = UnixStream::pair().map_err(start)?;
    let disk = plan.kind.disk.as_deref().map(disk).transpose()?;

    let mut command = Command::new(processor.qemu);
    command.args(arguments(
        plan,
        &processor,
        accelerated,
        &Files {
            port: its_port.as_raw_fd(),
            console: its_console.as_raw_fd(),
            initramfs: plan.initramfs.as_raw_fd(),
            disk: disk.as_ref().map(AsRawFd::as_raw_fd),
            terminal: plan.terminal.map(AsRawFd::as_raw_fd),
        },
    ));
    let its_words = OwnedFd::from(its_words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(its_words));
    // The terminal's Ctrl-C, which is for this process, must not reach it.
    command.process_group(0);
    let mut inherited =
        vec![its_port.as_raw_fd(), its_console.as_raw_fd(), plan.initramfs.as_raw_fd()];
    inherited.extend(disk.as_ref().map(AsRawFd::as_raw_fd));
    inherited.extend(plan.terminal.map(AsRawFd::as_raw_fd));
    let own = std::process::id();
    // SAFETY: between fork and exec it only makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() as u32 != own {
                libc::_exit(1); // the parent died before the prctl()
            }
            for &fd in &inherited {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing {
            program: processor.qemu,
            package: Package { names: processor.package },
        },
        _ => start(source),
    })?;
    Ok(Machine { port, console, words, process: Box::new(Qemu(child)), accelerated })
}

/// An instruction takes 4 ns of the guest's time, and a wait of all its CPUs takes no time of this
/// machine. So a load of this machine slows the guest and its clock alike, and the guest sees none.
const TIME_BY_INSTRUCTIONS: &str = "shift=2,sleep=off";

/// Whether a kernel boots with that. Linux 6.1 stops at the start of its second CPU in QEMU 7.2.
fn boots_with_counted_time(release: &str) -> bool {
    let major = release.split('.').next().and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= 7)
}

/// The approximate memory that a kernel itself needs.
const KERNELS_OWN: u64 = 64 << 20;

/// Whether the guest's files fit into its memory. At boot they are there twice, as an archive and
/// unpacked, and the latter can take half of the remaining memory. The kernel's own messages about
/// this are hard to understand.
fn check_memory(plan: &Plan) -> Result<(), Error> {
    let memory = &plan.kind.memory;
    let bytes = size::parse(memory).ok_or_else(|| Error::Size(memory.clone()))?;
    // A file in memory, so that this cannot fail.
    let files = plan.initramfs.metadata().map_or(0, |about| about.len());
    match 3 * files + KERNELS_OWN {
        needed if needed <= bytes => Ok(()),
        needed => {
            let wanted = (needed + KERNELS_OWN).next_multiple_of(KERNELS_OWN);
            Err(Error::Memory { files, memory: memory.clone(), wanted })
        }
    }
}

/// An empty disk in a file without a name.
fn disk(size: &str) -> Result<File, Error> {
    let bytes = size::parse(size).ok_or_else(|| Error::Size(size.to_owned()))?;
    let file = tempfile::tempfile().and_then(|file| file.set_len(bytes).map(|()| file));
    file.map_err(|source| Error::Disk { size: size.to_owned(), source })
}

/// The descriptors that QEMU inherits.
struct Files {
    port: i32,
    console: i32,
    initramfs: i32,
    disk: Option<i32>,
    terminal: Option<i32>,
}

fn arguments(plan: &Plan, processor: &Processor, accelerated: bool, files: &Files) -> Vec<String> {
    let Plan { kind, kernel, .. } = plan;
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| {
        arguments.push(option.to_owned());
        arguments.push(value);
    };
    add("-machine", processor.machine.into());
    add("-cpu", processor.cpu.into());
    if accelerated {
        add("-accel", "kvm".into());
    }
    add("-accel", if plan.in_turns { "tcg,thread=single" } else { "tcg" }.into());
    if plan.in_turns && !accelerated && boots_with_counted_time(&kernel.release) {
        add("-icount", TIME_BY_INSTRUCTIONS.into());
    }
    add("-smp", kind.cpus.to_string());
    // With a unit, since QEMU takes a bare number for MiB.
    let memory = size::parse(&kind.memory);
    add("-m", memory.map_or_else(|| kind.memory.clone(), |bytes| format!("{}K", bytes >> 10)));
    add("-kernel", kernel.image.display().to_string());
    add("-initrd", format!("/proc/self/fd/{}", files.initramfs));
    add("-append", kernel_arguments(plan, processor));
    add("-chardev", format!("socket,id=console,fd={}", files.console));
    add("-serial", "chardev:console".into());
    add("-device", "virtio-serial-pci".into());
    add("-chardev", format!("socket,id=port,fd={}", files.port));
    add("-device", format!("virtserialport,chardev=port,name={}", crate::protocol::PORT));
    if let Some(fd) = files.terminal {
        add("-chardev", format!("socket,id=terminal,fd={fd}"));
        add("-device", format!("virtserialport,chardev=terminal,name={}", crate::terminal::PORT));
    }
    if let Some(fd) = files.disk {
        // A full disk of the host becomes a failed write in the guest: it must not stop the guest.
        let errors = "werror=report,rerror=report";
        add("-drive", format!("if=none,id=disk,format=raw,file=/proc/self/fd/{fd},{errors}"));
        add("-device", "virtio-blk-pci,drive=disk".into());
    }
    if let Some(port) = plan.gdb {
        add("-gdb", format!("tcp:127.0.0.1:{port}"));
        arguments.push("-S".into());
    }
    for option in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        arguments.push(option.into());
    }
    arguments.extend(["-display", "none"].map(String::from));
    arguments
}

fn kvm_is_usable() -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

fn kernel_arguments(plan: &Plan, processor: &Processor) -> String {
    // A panic reboots at once, which ends QEMU (-no-reboot).
    let mut arguments = format!("console={} panic=-1{}", processor.console, processor.append);
    if plan.gdb.is_some() {
        // gdb uses the addresses of the symbols.
        arguments += " nokaslr";
    }
    if !plan.kind.append.is_empty() {
        arguments += " ";
        arguments += &plan.kind.append;
    }
    arguments
}

#[cfg(test)]
mod tests;
