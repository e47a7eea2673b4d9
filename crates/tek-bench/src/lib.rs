// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek bench`: the experiments of the papers, measured on this machine.

mod alternate;
mod appliance;
mod census;
mod daemon;
mod device;
mod early_end;
mod ground;
mod guardian;
mod host;
mod ident;
mod json;
mod kthread;
mod manycore;
mod matrix;
mod memory;
mod observe;
mod output;
mod programs;
mod random;
mod response;
mod stack;
mod stats;
mod svg;
mod table;
mod terminal;
mod uthread;
mod verdict;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use tek_command::companion::BENCH;

/// Arguments of `tek bench`.
#[derive(Parser)]
#[command(name = BENCH.command, bin_name = BENCH.words, about = BENCH.about)]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// How fast touch events are answered under full CPU load, with and without TEK
    Response(response::Args),
    /// What conventional scheduling does to critical threads, over time and by nice value
    Observe(observe::Args),
    /// What it costs to know what every thread is: calls, snapshots, creation, memory
    Ident(ident::Args),
    /// What stacks take and what of them is used, and how many threads fit, with and without TEK
    Stack(stack::Args),
    /// What tekd does for critical threads while other programs of other users use every CPU
    Device(device::Args),
    /// What kernel threads do to the real-time tasks that wait for them, and what TEK does about it
    Kthread(kthread::Args),
    /// User-level threads, beside the kernel's and those of other libraries
    Uthread(uthread::Args),
    /// What stops programs from using more CPUs: locks, barriers, allocators, placement
    Manycore(manycore::Args),
    /// How long a critical thread takes to answer when it waits for others, with and without TEK
    Matrix(matrix::Args),
}

/// The definition of its command line, for man pages and completions.
pub fn definition() -> clap::Command {
    Args::command()
}

/// Runs the benchmark that the command line says.
pub fn bench() -> anyhow::Result<ExitCode> {
    match Args::parse().bench {
        Bench::Response(args) => response::run(&args),
        Bench::Observe(args) => observe::run(&args),
        Bench::Ident(args) => ident::run(&args),
        Bench::Stack(args) => stack::run(&args),
        Bench::Device(args) => device::run(&args),
        Bench::Kthread(args) => kthread::run(&args),
        Bench::Uthread(args) => uthread::run(&args),
        Bench::Manycore(args) => manycore::run(&args),
        Bench::Matrix(args) => matrix::run(&args),
    }
}
