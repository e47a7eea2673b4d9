// SPDX-License-Identifier: MIT OR Apache-2.0
//! What libtek.so is told, by the environment of the program.
//!
//! tek changes its own environment in place and lets the program inherit it, so that variables
//! keep their order and duplicates, and entries without `=` survive.
use super::directory::RunDirectory;
use super::stack::{self, Tuning};
use super::uthread::{self, Plan};
use super::Args;
use crate::system::library;
use anyhow::bail;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Sets what the options ask for. Without an option its variable stays as tek found it, so that
/// defaults can be given by the environment too.
pub fn set(
    args: &Args,
    rules: Option<&str>,
    tuning: Option<&Tuning>,
    library: &Path,
    directory: &RunDirectory,
) -> anyhow::Result<()> {
    let preload = preload(env::var_os("LD_PRELOAD").as_deref(), library)?;
    // SAFETY of set_var, which the 2024 edition will ask for: tek has one thread.
    env::set_var("LD_PRELOAD", preload);
    env::set_var("TEK_EVENTS", directory.events_path());
    env::set_var("TEK_RUN_DIR", directory.path());
    if !args.critical.is_empty() {
        let patterns: Vec<_> = args.critical.iter().map(ToString::to_string).collect();
        env::set_var("TEK_CRITICAL", patterns.join(","));
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
    set_stack(tuning);
    Ok(())
}

/// Sets what is asked of stacks.
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

/// Sets what has the program run on user-level threads.
pub fn set_uthread(
    plan: &Plan,
    rules: Option<&str>,
    tuning: Option<&Tuning>,
    library: &Path,
    directory: &RunDirectory,
) -> anyhow::Result<()> {
    env::set_var("LD_PRELOAD", preload(env::var_os("LD_PRELOAD").as_deref(), library)?);
    env::set_var("TEK_EVENTS", directory.events_path());
    env::set_var("TEK_RUN_DIR", directory.path());
    env::set_var(uthread::VARIABLE, &plan.variable);
    if let Some(rules) = rules {
        env::set_var("TEK_RULES", rules);
    }
    set_stack(tuning);
    Ok(())
}

/// Limits malloc's arenas, in programs that TEK does not cover too.
pub fn limit_arenas(most: Option<u32>) {
    if let Some(most) = most {
        // The C library lets a tunable win over the older variable.
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
    let others = old.as_bytes().split(|&byte| byte == b':').filter(|tunable| !limits(tunable));
    let mut list = others.collect::<Vec<_>>();
    let own = [NAME, b"=", arenas.to_string().as_bytes()].concat();
    list.push(&own);
    OsString::from_vec(list.join(&b':'))
}

/// TEK's libraries to preload. In a program there is one of them.
const LIBRARIES: [&str; 2] = ["libtek.so", library::UTHREAD];

/// LD_PRELOAD with the library in first place, and without the other one.
fn preload(old: Option<&OsStr>, library: &Path) -> anyhow::Result<OsString> {
    let path = library.as_os_str();
    // ld.so(8): the list is separated by spaces or colons, and they cannot be escaped.
    if path.as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        bail!(
            "{} cannot be preloaded, because LD_PRELOAD cannot hold a path with a space or a \
             colon: install TEK, or set TEK_LIBRARY to a copy or symbolic link, in a directory \
             without them",
            library.display()
        );
    }
    let old = old.map(|old| without(old, |other| is_other(other, library))).unwrap_or_default();
    if old.is_empty() {
        return Ok(path.to_owned());
    }
    let first = old.as_bytes().split(|byte| matches!(byte, b' ' | b':')).next();
    if first == Some(path.as_bytes()) {
        return Ok(old);
    }
    let mut list = path.to_owned();
    list.push(":");
    list.push(old);
    Ok(list)
}

/// Whether an entry is TEK's, but not this library.
fn is_other(entry: &[u8], library: &Path) -> bool {
    let name = Path::new(OsStr::from_bytes(entry)).file_name();
    let ours = name.is_some_and(|name| LIBRARIES.iter().any(|other| name == *other));
    ours && name != library.file_name()
}

/// A list without some of its entries; the separators of the others stay as they are.
fn without(list: &OsStr, unwanted: impl Fn(&[u8]) -> bool) -> OsString {
    let mut kept = Vec::new();
    for entry in list.as_bytes().split_inclusive(|byte| matches!(byte, b' ' | b':')) {
        let name = entry.strip_suffix(b" ").or(entry.strip_suffix(b":")).unwrap_or(entry);
        if !unwanted(name) {
            kept.extend_from_slice(entry);
        }
    }
    OsString::from_vec(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(old: Option<&str>) -> OsString {
        preload(old.map(OsStr::new), Path::new("/lib/libtek.so")).unwrap()
    }

    #[test]
    fn the_library_comes_first_and_others_stay() {
        assert_eq!(preloaded(None), "/lib/libtek.so");
        assert_eq!(preloaded(Some("")), "/lib/libtek.so");
        assert_eq!(preloaded(Some("a.so b.so")), "/lib/libtek.so:a.so b.so");
    }

    #[test]
    fn a_run_inside_a_run_does_not_name_it_twice() {
        assert_eq!(preloaded(Some("/lib/libtek.so:a.so")), "/lib/libtek.so:a.so");
    }

    #[test]
    fn of_the_two_libraries_the_one_that_is_asked_for_is_preloaded() {
        let uthread =
            |old| preload(Some(OsStr::new(old)), Path::new("/lib/libtek-uthread.so")).unwrap();
        assert_eq!(uthread("/opt/lib/libtek.so:a.so b.so"), "/lib/libtek-uthread.so:a.so b.so");
        assert_eq!(uthread("/lib/libtek.so"), "/lib/libtek-uthread.so");
        assert_eq!(uthread("/lib/libtek-uthread.so:a.so"), "/lib/libtek-uthread.so:a.so");
        assert_eq!(preloaded(Some("/lib/libtek-uthread.so:a.so")), "/lib/libtek.so:a.so");
        assert_eq!(preloaded(Some("a.so b.so /x/libtek-uthread.so")), "/lib/libtek.so:a.so b.so ");
    }

    #[test]
    fn a_limit_of_arenas_takes_the_place_of_an_older_one_and_other_tunables_stay() {
        let limited = |old: &str| tunables(OsStr::new(old), 2);
        assert_eq!(limited("a.b=1"), "a.b=1:glibc.malloc.arena_max=2");
        assert_eq!(
            limited("glibc.malloc.arena_max=7:glibc.malloc.arena_maximum=3:a.b=1"),
            "glibc.malloc.arena_maximum=3:a.b=1:glibc.malloc.arena_max=2"
        );
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_an_error() {
        for path in ["/a b/libtek.so", "/a:b/libtek.so"] {
            assert!(preload(None, Path::new(path)).is_err());
        }
    }
}
