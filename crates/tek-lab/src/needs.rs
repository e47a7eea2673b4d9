// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of this machine that guests need. The check comes before any download.
use crate::programs::find;
use crate::{machine, Kind};
use tek_advice::Package;

const BUSYBOX: Package = Package { names: &[("busybox-static", 0)] };
const KMOD: Package = Package { names: &[("kmod", 0)] };
const E2FSPROGS: Package = Package { names: &[("e2fsprogs", 0)] };

/// Programs that are missing, with the packages that have them.
#[derive(Debug, thiserror::Error)]
#[error("not installed here: {}: {}", programs(.0), cure(.0))]
pub struct Missing(Vec<(String, Package)>);

fn programs(missing: &[(String, Package)]) -> String {
    let programs: Vec<_> = missing.iter().map(|(program, _)| program.as_str()).collect();
    programs.join(", ")
}

fn cure(missing: &[(String, Package)]) -> String {
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    tek_advice::install(&packages, None)
}

/// Checks for the programs that guests of a kind need. The kernel is for that architecture. Guests
/// are `foreign` if their files come from a sysroot, `modular` if their kernel has modules.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_reported_at_once_with_one_command() {
        let missing = Missing(vec![("a (x)".into(), BUSYBOX), ("b (y)".into(), KMOD)]);
        let log = missing.to_string();
        assert!(log.starts_with("not installed here: a (x), b (y): "), "{log}");
        assert!(log.contains("busybox-static kmod"), "{log}");
    }
}
