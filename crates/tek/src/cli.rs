// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one definition of the command line: help, man pages and completions come from it.
use crate::misuse::Misuse;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use tek_command::companion;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek doctor                                what this machine can do
  tek run --critical 'ui*' -- ./appliance   run a program, its ui threads first
  tek run --model m:1 -- ./appliance        run it with user-level threads
  tek ps --tracked                          what its threads are
  tek top                                   what every thread does, live
  tek status                                what the daemon is at
  tek groups                                how the groups share the CPUs
  tek kthreads                              which kernel threads follow which tasks
  tek suggest -o rules.toml -- ./appliance  find out which of them are time-critical
  tek explain 815                           why a thread runs as it does
  tek stack report -- ./appliance           what stacks its threads need
  tek profile -- ./appliance                where their time goes

EXIT STATUS:
  Each command's --help lists its own. 2 means that the command line was not
  understood, 125 that TEK itself failed.";

/// Thread Evolution Kit: make the time-critical threads of ordinary programs answer at once
#[derive(Parser)]
#[command(name = "tek", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// All of it: the commands that are programs of their own have their name and description only.
pub fn definition() -> clap::Command {
    let companions = companion::ALL.into_iter().map(|companion| {
        let command = clap::Command::new(companion.command).about(companion.about);
        match companion.long_about {
            Some(text) => command.long_about(text),
            None => command,
        }
    });
    Cli::command().subcommands(companions)
}

/// Reports the problem with the options of a command, with its usage, and ends tek.
pub fn refuse(misuse: &Misuse) -> ! {
    let Misuse { command, problem } = misuse;
    let mut tek = definition();
    tek.build(); // only then a command's usage begins with tek
    let known = tek.find_subcommand(command).cloned();
    known.unwrap_or(tek).error(ErrorKind::ArgumentConflict, problem).exit()
}

/// What tek can do.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program under TEK
    ///
    /// Preloads libtek.so into the program and what it starts, so that threads which ask for
    /// SCHED_TEK, or which --critical names, become time-critical: they run before every thread
    /// of the fair scheduling classes, as real-time threads with a budget. Otherwise the program
    /// runs as if tek were not there: its exit status, signals, standard streams and everything
    /// that it inherits are its own. What TEK cannot do it says once on standard error, in lines
    /// that begin with `tek:`.
    Run(crate::run::Args),
    /// Show every thread of the device
    ///
    /// Shows what /proc has about each thread, kernel threads included, and what TEK knows about
    /// those in its programs: their roles, what they run, how they are scheduled and why.
    Ps(crate::ps::Args),
    /// Show live what every thread does
    ///
    /// Shows the threads of the device by what they did since the last refresh: CPU time, waiting
    /// for a CPU, context switches, and how TEK has them. Keys sort, filter and explain; ? lists
    /// them.
    #[cfg(feature = "top")]
    Top(crate::top::Args),
    /// Tell what this kernel and this user can do
    ///
    /// Looks at privileges, limits, control groups and kernel features, and lets a thread of its
    /// own try to become real-time, which goes back at once. Changes nothing.
    Doctor(crate::doctor::Args),
    /// Show what the daemon tekd is at
    ///
    /// tekd makes threads time-critical for processes that may not do so themselves, as far as its
    /// configuration grants it. Shows which threads are switched now, why and by which program,
    /// what it granted, and which requests it refused or sent back.
    Status(crate::status::Args),
    /// Make the threads of a process time-critical, by hand
    ///
    /// Asks the daemon tekd to take all threads of a running process, or one of them, into the
    /// Fast Region, for a time or until they are taken back. The process need not know of it.
    Critical(crate::critical::Args),
    /// Show the groups that share the CPUs, and move processes between them
    ///
    /// The daemon tekd can keep the processes of a device in groups: urgent, normal, service and
    /// background, each with a weight. Shows how many threads each has and what share of the CPUs
    /// it gets, or without tekd what programs under TEK say of their threads.
    Groups(crate::groups::Args),
    /// Show the kernel threads, and the tasks that wait for them
    ///
    /// The daemon tekd can give kernel threads a priority that is computed from those of the
    /// critical tasks that wait for them. Shows which have one now or had one, from which task and
    /// how computed, or, without tekd, what threads the kernel has and how it schedules them.
    Kthreads(crate::kthreads::Args),
    /// Explain why a thread runs as it does
    ///
    /// Its identity, what the kernel has for it, what TEK did with it and why, what it waited for,
    /// and what of this is not known.
    Explain(crate::explain::Args),
    /// Find the time-critical threads of a program, as rules for tek run
    ///
    /// Runs a program, or watches one that runs, and finds the threads that are woken often and
    /// soon done each time. Prints rules that make these time-critical, ready for `tek run
    /// --rules`, with the evidence in comments.
    Suggest(crate::suggest::Args),
    /// Show and learn what stack each kind of thread needs
    ///
    /// Says what the stacks of threads have, use and need: of programs that run under TEK, and of
    /// those whose threads were measured in earlier runs (`tek run --stack`).
    Stack(crate::stack::Args),
    /// Make a trace of user-level threads readable
    ///
    /// Turns what the engine of user-level threads wrote down (libtek-uthread(7), `trace=`) into
    /// JSON for Perfetto and Chrome: which thread ran where, when, and why it left.
    /// `tek run --trace` does so by itself.
    Trace(crate::trace::Args),
    /// Show where the time of a program's threads goes
    ///
    /// Runs a program and shows for each kind of thread, and for all, how much of their time was
    /// work, serial work, waiting for each other, files, the allocator, and waiting for a CPU; what
    /// the critical path is, and of each lock, condition and barrier how often and how long it was
    /// waited for, and where. The program need not know of it.
    Profile(crate::profile::Args),
    /// Serve metrics of the daemon and of programs under TEK to Prometheus
    ///
    /// Serves metrics over HTTP, on loopback by default: tekd's mode, grants and groups, and the
    /// threads and stacks of programs under TEK. Or prints them once, for the textfile collector of
    /// node_exporter.
    Exporter(crate::exporter::Args),
    /// Look into TEK's own files
    #[command(hide = true)]
    Debug(crate::debug::Args),
}
