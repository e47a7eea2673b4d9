// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of this machine without which no guest comes up: looked for before anything is
//! downloaded.
use crate::{machine, Kind};
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tek_advice::Package;

const BUSYBOX: Package = Package { names: &[("busybox-static", 0)] };
const KMOD: Package = Package { names: &[("kmod", 0)] };
const E2FSPROGS: Package = Package { names: &[("e2fsprogs", 0)] };

/// What is missing, and how it is installed.
#[derive(Debug, thiserror::Error)]
#[error("not installed here: {}: {}", .0.iter().map(|(what, _)| what.as_str()).collect::<Vec<_>>().join(", "), cure(.0))]
pub struct Missing(Vec<(String, Package)>);

fn cure(missing: &[(String, Package)]) -> String {
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    tek_advice::install(&packages, None)
}

/// Looks for what guests of that kind need, whose kernel is for that architecture. `foreign` ones
/// have their files from a sysroot, `modular` ones have kernels with modules.
pub fn check(kind: &Kind, architecture: &str, foreign: bool, modular: bool) -> Result<(), Missing> {
    let mut missing = Vec::new();
    let mut need = |program: &str, what: &str, package| {
        if find(program).is_none() {
            missing.push((format!("{program} ({what})"), package));
        }
    };
    need("busybox", "in every guest", BUSYBOX);
    if modular {
        need("modinfo", "reads the kernel's modules", KMOD);
    }
    if kind.disk.is_some() && !foreign {
        need("mke2fs", "makes the disk's file system", E2FSPROGS);
    }
    if let Some((qemu, package)) = machine::emulator(architecture) {
        need(qemu, "the machine", package);
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Missing(missing)),
    }
}

/// A program in PATH, or where programs for root are, which a user's PATH may lack.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<_> = env::split_paths(&path).collect();
    directories.extend(["/usr/sbin", "/sbin"].map(|path| Path::new(path).to_owned()));
    directories.into_iter().map(|directory| directory.join(program)).find(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_told_at_once_with_one_command() {
        let missing = Missing(vec![("a (x)".into(), BUSYBOX), ("b (y)".into(), KMOD)]);
        let told = missing.to_string();
        assert!(told.starts_with("not installed here: a (x), b (y): "), "{told}");
        assert!(told.contains("busybox-static kmod"), "{told}");
    }

    #[test]
    fn a_program_is_found_where_root_has_its_own() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program"), None);
    }
}
