// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of libtek.so, in the environment of the program.
//!
//! tek changes its own environment in place and lets the program inherit it, so that variables keep
//! their order and duplicates, and entries without `=` survive.
use super::directory::RunDirectory;
use super::libraries::{self, Beside};
use super::place;
use super::preload::Preload;
use super::stack::{self, Tuning};
use super::sync;
use super::uthread::{self, Plan};
use super::Args;
use crate::message;
use crate::system::library;
use anyhow::ensure;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Sets the variables for the options. Without an option its variable stays as tek found it, so
/// that the environment can give defaults too.
pub fn set(
    args: &Args,
    rules: Option<&str>,
    tuning: Option<&Tuning>,
    library: &Path,
    beside: &Beside,
    place: Option<&place::Plan>,
    directory: &RunDirectory,
) -> anyhow::Result<()> {
    set_libraries(library, beside)?;
    if let Some(place) = place {
        set_place(place, library)?;
    }
    env::set_var("TEK_EVENTS", directory.events_path());
    env::set_var("TEK_RUN_DIR", directory.path());
    if !args.critical.is_empty() {
        // They are among the rules, and take the place of the variable.
        env::remove_var("TEK_CRITICAL");
    }
    if let Some(rules) = rules {
        env::set_var("TEK_RULES", rules);
    }
    if let Some(budget) = args.budget {
        env::set_var("TEK_BUDGET", budget.to_string());
    }
    if let Some(group) = args.group {
        env::set_var("TEK_GROUP", group.name());
    }
    if let Some(range) = args.rt_range {
        env::set_var("TEK_RT_RANGE", range.to_string());
    }
    if args.no_follow_marked {
        env::set_var("TEK_FOLLOW_MARKED", "0");
    }
    if args.no_inherit {
        env::set_var("TEK_INHERIT", "0");
    }
    set_stack(tuning);
    Ok(())
}

/// Sets what is preloaded.
fn set_libraries(library: &Path, beside: &Beside) -> anyhow::Result<()> {
    let mut preload = Preload::inherited();
    preload.remove(|other| beside.replaces(other));
    for other in beside.libraries.iter().rev() {
        preload.add(other)?;
    }
    preload.add(library)?;
    preload.store();
    if let Some(alloc) = beside.alloc {
        env::set_var(libraries::ALLOC_VARIABLE, alloc.to_string());
    }
    if let Some(libm) = &beside.libm {
        env::set_var(libraries::LIBM_VARIABLE, libm.value());
    }
    Ok(())
}

/// Preloads a library beside TEK's, for an option that needs it.
fn add_beside(library: &Path, name: &str, option: &str) -> anyhow::Result<()> {
    let path = library.with_file_name(name);
    ensure!(
        path.exists(),
        "{option}: {} is not installed: {}",
        path.display(),
        crate::system::library::BUILD_AGAIN
    );
    let mut preload = Preload::inherited();
    preload.add(&path)?;
    preload.store();
    Ok(())
}

/// Sets the CPUs of threads, and the library with which they wait for each other there.
fn set_place(plan: &place::Plan, library: &Path) -> anyhow::Result<()> {
    env::set_var(place::VARIABLE, plan.variable());
    if plan.is_rtfifo() {
        // Without it a waiter for a spin lock spins for ever if its holder waits for the same CPU.
        add_beside(library, library::RTFIFO, "--place rtfifo")?;
    }
    Ok(())
}

/// Sets the program's locks, after the rest. `own`: the library is the one for programs of tek's
/// own word size; for programs of another word size there is none with locks.
pub fn set_sync(wanted: &sync::Wanted, library: &Path, own: bool) -> anyhow::Result<()> {
    if !own && !library.with_file_name(library::SYNC).exists() {
        message::print(
            "the program is of another word size than TEK's locks: its own stay those of the C \
             library",
        );
        return Ok(());
    }
    for note in &wanted.notes {
        message::print(note);
    }
    env::set_var(sync::VARIABLE, &wanted.variable);
    add_beside(library, library::SYNC, "--lock and its like")
}

/// Sets the variables for stacks.
fn set_stack(tuning: Option<&Tuning>) {
    if let Some(Tuning { variable, read, .. }) = tuning {
        if let Some(variable) = variable {
            env::set_var(stack::VARIABLE, variable);
        }
        match read {
            Some(list) => env::set_var(stack::PROFILES_VARIABLE, list),
            None => env::remove_var(stack::PROFILES_VARIABLE),
        }
    }
}

/// Sets the variables for user-level threads.
pub fn set_uthread(
    plan: &Plan,
    rules: Option<&str>,
    tuning: Option<&Tuning>,
    library: &Path,
    beside: &Beside,
    directory: &RunDirectory,
) -> anyhow::Result<()> {
    set_libraries(library, beside)?;
    env::set_var("TEK_EVENTS", directory.events_path());
    env::set_var("TEK_RUN_DIR", directory.path());
    env::set_var(uthread::VARIABLE, &plan.variable);
    if let Some(rules) = rules {
        env::set_var("TEK_RULES", rules);
    }
    set_stack(tuning);
    Ok(())
}

/// Sets the variables for profiling. Other libraries of TEK stay behind it: it calls them.
pub fn set_profile(variable: &str, library: &Path) -> anyhow::Result<()> {
    let mut preload = Preload::inherited();
    preload.add(library)?;
    preload.store();
    env::set_var("TEK_PROFILE", variable);
    Ok(())
}

/// Limits malloc's arenas, in programs that TEK does not cover too.
pub fn limit_arenas(most: Option<u32>) {
    if let Some(most) = most {
        // For the C library a tunable takes precedence over the older variable.
        if let Some(old) = env::var_os("GLIBC_TUNABLES").filter(|old| !old.is_empty()) {
            env::set_var("GLIBC_TUNABLES", tunables(&old, most));
        }
        env::set_var("MALLOC_ARENA_MAX", most.to_string());
    }
}

/// The tunables, `name=value` with colons between them, with another limit of arenas.
fn tunables(old: &OsStr, arenas: u32) -> OsString {
    const NAME: &[u8] = b"glibc.malloc.arena_max";
    let limits = |tunable: &&[u8]| tunable.split(|&byte| byte == b'=').next() == Some(NAME);
    let remaining = old.as_bytes().split(|&byte| byte == b':').filter(|tunable| !limits(tunable));
    let mut list = remaining.collect::<Vec<_>>();
    let own = [NAME, b"=", arenas.to_string().as_bytes()].concat();
    list.push(&own);
    OsString::from_vec(list.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_arenas_takes_the_place_of_an_older_one_and_other_tunables_stay() {
        let limited = |old: &str| tunables(OsStr::new(old), 2);
        assert_eq!(limited("a.b=1"), "a.b=1:glibc.malloc.arena_max=2");
        assert_eq!(
            limited("glibc.malloc.arena_max=7:glibc.malloc.arena_maximum=3:a.b=1"),
            "glibc.malloc.arena_maximum=3:a.b=1:glibc.malloc.arena_max=2"
        );
    }
}
