// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features that user-level threads can have here: storage of their own, and guard pages below
//! their stacks.
use super::check::{info, no, yes, Check};
use crate::system::{library, memory, number};

const LIBRARY: &str = "uthread-library";
const STORAGE: &str = "uthread-storage";
const GUARDS: &str = "uthread-guards";

/// All checks of them.
pub fn checks() -> Vec<Check> {
    let guards = (memory::has_light_guards(), number("/proc/sys/vm/max_map_count"));
    vec![library(), storage(glibc().as_deref(), switch()), stack_guards(guards.0, guards.1)]
}

fn library() -> Check {
    match library::find_uthread() {
        Ok((path, _)) => yes(LIBRARY, path.display().to_string()),
        Err(error) => no(LIBRARY, error.to_string(), error.cure()),
    }
}

/// How a thread pointer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Instruction(&'static str),
    SystemCall,
    /// The engine does not know how.
    Unknown,
}

/// The kind of switch that this processor and this kernel allow.
fn switch() -> Switch {
    if cfg!(target_arch = "x86_64") {
        // HWCAP2_FSGSBASE of <asm/hwcap2.h>: Linux lets programs write FS and GS.
        const FSGSBASE: u64 = 1 << 1;
        // SAFETY: takes a plain number, and handles unknown ones.
        let has = unsafe { libc::getauxval(libc::AT_HWCAP2) } as u64 & FSGSBASE != 0;
        return if has { Switch::Instruction("wrfsbase") } else { Switch::SystemCall };
    }
    if cfg!(target_arch = "aarch64") {
        return Switch::Instruction("tpidr_el0");
    }
    Switch::Unknown
}

/// Version of the C library that programs have, if it is the GNU one.
fn glibc() -> Option<String> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the function takes nothing and returns a static string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        Some(version.to_string_lossy().into_owned())
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Thread-local storage: errno, the locale, malloc's data for each thread.
fn storage(glibc: Option<&str>, switch: Switch) -> Check {
    let Some(version) = glibc else {
        return info(
            STORAGE,
            "another C library than glibc: user-level threads are for glibc only",
        );
    };
    match switch {
        _ if !recent(version) => no(
            STORAGE,
            format!("glibc {version} is too old for user-level threads with storage of their own"),
            "use glibc 2.34 or later (Debian 12, Ubuntu 22.04)",
        ),
        Switch::Instruction(name) => yes(
            STORAGE,
            format!("each user-level thread can have its own (glibc {version}), switched by \
                     {name}"),
        ),
        Switch::SystemCall => info(
            STORAGE,
            format!(
                "each user-level thread can have its own (glibc {version}), switched by a system \
                 call: Linux 5.9 on a processor with FSGSBASE needs none"
            ),
        ),
        Switch::Unknown => info(
            STORAGE,
            "user-level threads share that of the thread of the kernel which they run on: own ones \
             are for x86-64 and aarch64",
        ),
    }
}

/// Whether it has all features of the oldest version that TEK supports.
fn recent(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(2), Some(34))
}

/// Without light guards each stack needs two mappings, its own and its guard page's: this limits
/// the number of stacks.
fn stack_guards(light: bool, most_mappings: Option<i64>) -> Check {
    match (light, most_mappings) {
        (true, _) => {
            yes(GUARDS, "below the stack of each user-level thread, without mappings of their own")
        }
        (false, Some(most)) => info(
            GUARDS,
            format!(
                "below the stack of each user-level thread, but each takes two mappings: some {} \
                 threads (vm.max_map_count); Linux 6.13 needs none",
                (most / 2).max(0)
            ),
        ),
        (false, None) => info(GUARDS, "below the stack of each user-level thread, as mappings"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Answer;
    use super::*;

    #[test]
    fn storage_of_their_own_depends_on_the_c_library_and_the_processor() {
        let instruction = Switch::Instruction("wrfsbase");
        assert_eq!(storage(Some("2.36"), instruction).answer, Answer::Yes);
        assert_eq!(storage(Some("2.36"), Switch::SystemCall).answer, Answer::Info);
        assert_eq!(storage(Some("2.36"), Switch::Unknown).answer, Answer::Info);
        assert_eq!(storage(None, instruction).answer, Answer::Info);
        let old = storage(Some("2.31"), instruction);
        assert_eq!((old.answer, old.cure.is_some()), (Answer::No, true));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(recent("2.34") && recent("2.100") && recent("3.0"));
        assert!(!recent("2.33") && !recent("2.4") && !recent("") && !recent("x"));
    }

    #[test]
    fn guards_that_are_mappings_limit_the_threads() {
        assert_eq!(stack_guards(true, Some(65530)).answer, Answer::Yes);
        assert!(stack_guards(false, Some(65530)).found.contains("some 32765 threads"));
        assert_eq!(stack_guards(false, None).answer, Answer::Info);
    }
}
