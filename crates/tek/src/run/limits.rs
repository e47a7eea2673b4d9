// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the process, setrlimit(2), within which a part of `tek run` has no room.
use nix::sys::resource::{getrlimit, rlim_t, Resource};
use std::env;

/// What threads tell goes through a file, which has this size when a thousand of them have told much.
const EVENTS_BYTES: rlim_t = 1 << 20;

/// An arena takes 64 MiB of addresses, and each stack 8 MiB unless the program says another size.
const ARENAS_BYTES: rlim_t = 1 << 30;

/// Whether a program may not write what its threads tell.
pub fn leave_no_room_for_events() -> bool {
    is_below(Resource::RLIMIT_FSIZE, EVENTS_BYTES)
}

/// Whether an arena of malloc's for each worker, which lasts as long as the worker, would take the
/// addresses that the stacks of threads need. A number of arenas that was set stays.
pub fn leave_no_room_for_arenas() -> bool {
    env::var_os("MALLOC_ARENA_MAX").is_none() && is_below(Resource::RLIMIT_AS, ARENAS_BYTES)
}

fn is_below(resource: Resource, bytes: rlim_t) -> bool {
    getrlimit(resource).is_ok_and(|(soft, _)| soft < bytes)
}
