// SPDX-License-Identifier: MIT OR Apache-2.0
//! The installed libraries of `tek run` besides libtek.so, and how much memory a pool can lock.
use super::check::{info, no, yes, Check};
use crate::run::libraries::{installed_allocators, ALLOC, LIBM_MUSL, MUSL};
use crate::system::{library, privilege};
use crate::units::size;
use nix::sys::resource::{getrlimit, Resource, RLIM_INFINITY};

/// All checks of them.
pub fn checks() -> Vec<Check> {
    vec![beside(), allocators(), locked_memory()]
}

/// The libraries beside libtek.so.
fn beside() -> Check {
    const ID: &str = "other-libraries";
    let Ok((tek, _)) = library::find() else { return info(ID, "see library") };
    let all = [library::SYNC, library::RTFIFO, library::PROFILE, ALLOC, LIBM_MUSL];
    let (there, missing): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|name| tek.with_file_name(name).exists());
    if missing.is_empty() {
        return yes(ID, there.join(" "));
    }
    let found = format!("not beside libtek.so: {}", missing.join(" "));
    if missing == [LIBM_MUSL] {
        return info(
            ID,
            format!(
                "{found}, which is made where musl-dev is installed ({})",
                tek_advice::install(&[MUSL], None)
            ),
        );
    }
    no(ID, found, library::BUILD_AGAIN)
}

fn allocators() -> Check {
    let names = installed_allocators();
    let text = if names.is_empty() { "none".into() } else { names.join(" ") };
    info("allocators", format!("installed besides those of TEK and the C library: {text}"))
}

/// For --alloc pool=SIZE, and for programs that call mlock(2).
#[allow(clippy::useless_conversion)] // not with 32 bits
fn locked_memory() -> Check {
    const ID: &str = "locked-memory";
    if privilege::has_capability(privilege::IPC_LOCK) {
        return info(ID, "CAP_IPC_LOCK: as much as there is");
    }
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((RLIM_INFINITY, _)) => info(ID, "RLIMIT_MEMLOCK: as much as there is"),
        Ok((limit, _)) => {
            info(ID, format!("RLIMIT_MEMLOCK: {} a process (ulimit -l)", size(limit.into())))
        }
        Err(error) => info(ID, error.to_string()),
    }
}
