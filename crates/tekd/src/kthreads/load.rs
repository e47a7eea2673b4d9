// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the BPF programs.
use nix::sys::resource::{getrlimit, rlim_t, Resource};
use tek_bpf::{Kind, Watcher};

/// With fewer, the programs would take the descriptors of clients.
const LEAST_DESCRIPTORS: rlim_t = 512;

/// Loads all programs, or only those for waits of critical tasks for threads of programs.
pub fn open(has_kthreads: bool) -> Result<(tek_bpf::Kthreads, Watcher), String> {
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(rlim_t::MAX, |(soft, _)| soft);
    if !has_kthreads && most < LEAST_DESCRIPTORS {
        // Clients need them more.
        return Err(format!(
            "tekd may open {most} files only: {LEAST_DESCRIPTORS} are needed (LimitNOFILE)"
        ));
    }
    let opened = match has_kthreads {
        true => tek_bpf::Kthreads::open(),
        false => tek_bpf::Kthreads::open_for(&[Kind::Locks, Kind::Answers]),
    };
    let mut programs = opened.map_err(|error| error.to_string())?;
    let watcher = programs.watcher().ok_or("its programs have a watcher already")?;
    Ok((programs, watcher))
}
