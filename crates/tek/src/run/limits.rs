// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the process, setrlimit(2), that are too low for a part of `tek run`.
use crate::system::elf;
use nix::sys::resource::{getrlimit, rlim_t, Resource};
use std::env;
use std::path::Path;

/// The size of the event file when a thousand threads have reported much.
const EVENTS_BYTES: rlim_t = 1 << 20;

/// An arena takes 64 MiB of addresses, and each stack 8 MiB unless the program sets another size.
const ARENAS_BYTES: rlim_t = 1 << 30;

/// Whether a program may not write its threads' events.
pub fn leave_no_room_for_events() -> bool {
    is_below(Resource::RLIMIT_FSIZE, EVENTS_BYTES)
}

/// Whether an arena of malloc's for each worker would need too many addresses: for the stacks of
/// threads, or for mlockall(2), which counts addresses. An arena lasts as long as its worker. A
/// number of arenas that was set stays.
pub fn leave_no_room_for_arenas(program: Option<&Path>) -> bool {
    let locks_memory = || program.is_some_and(|file| elf::calls_one_of(file, &["mlockall"]));
    env::var_os("MALLOC_ARENA_MAX").is_none()
        && (is_below(Resource::RLIMIT_AS, ARENAS_BYTES)
            || is_below(Resource::RLIMIT_MEMLOCK, ARENAS_BYTES) && locks_memory())
}

fn is_below(resource: Resource, bytes: rlim_t) -> bool {
    getrlimit(resource).is_ok_and(|(soft, _)| soft < bytes)
}
