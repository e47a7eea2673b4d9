// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of Debian packages, as the release on this machine has them.
use crate::Person;
use std::path::Path;
use std::process::Command;

/// A package with all the names that it has had, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// Each name with the first release of Debian that has it; 0: of all that TEK supports.
    pub names: &'static [(&'static str, u32)],
}

impl Package {
    /// The name that apt of this machine can install, without apt's lists the name in this release;
    /// `None` where apt has lists of packages and none of them has it.
    pub fn name(&self) -> Option<&'static str> {
        let names = self.names.iter().map(|(name, _)| *name);
        match known(names.clone()) {
            Some(known) => names.into_iter().find(|name| known.contains(name)),
            None => Some(by_release(self.names, release())),
        }
    }
}

/// The names that apt can install; `None` where apt has no lists.
fn known(names: impl Iterator<Item = &'static str> + Clone) -> Option<Vec<&'static str>> {
    if !has_lists() {
        return None;
    }
    let mut command = Command::new("apt-cache");
    command.env("LC_ALL", "C").arg("policy").args(names.clone());
    let reported = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let candidates = candidates(&reported);
    Some(names.filter(|name| candidates.contains(name)).collect())
}

/// The packages with a candidate in the output of `apt-cache policy`, which has a line `NAME:` for
/// each, and `  Candidate: VERSION` below it.
fn candidates(reported: &str) -> Vec<&str> {
    let mut candidates = Vec::new();
    let mut package = "";
    for line in reported.lines() {
        match (line.strip_suffix(':'), line.trim().strip_prefix("Candidate: ")) {
            (Some(name), _) if !line.starts_with(' ') => package = name,
            (_, Some(version)) if version != "(none)" => candidates.push(package),
            _ => {}
        }
    }
    candidates
}

fn by_release(names: &[(&'static str, u32)], release: u32) -> &'static str {
    let fitting = names.iter().find(|(_, since)| release >= *since);
    fitting.or(names.last()).map_or("", |(name, _)| name)
}

/// The number of this Debian release; the highest one where /etc/os-release has none.
fn release() -> u32 {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let number = text.lines().find_map(|line| line.strip_prefix("VERSION_ID="));
    number.and_then(|number| number.trim_matches('"').parse().ok()).unwrap_or(u32::MAX)
}

/// The command that installs packages. `foreign` is Debian's name of an architecture that is not
/// this machine's own, such as i386.
pub fn install(packages: &[Package], foreign: Option<&str>) -> String {
    let suffix = foreign.map_or_else(String::new, |name| format!(":{name}"));
    let mut names = Vec::new();
    for package in packages {
        match package.name() {
            Some(name) => names.push(format!("{name}{suffix}")),
            None => {
                let name = package.names.first().map_or("", |(name, _)| name);
                return format!("the archives of this machine's apt have no package {name}");
            }
        }
    }
    let names = names.join(" ");
    if !Path::new("/usr/bin/apt-get").exists() {
        return format!(
            "install what Debian calls {names}, with the package manager of this system"
        );
    }
    let command = match foreign {
        Some(foreign) if !is_enabled(foreign) => {
            format!(
                "dpkg --add-architecture {foreign} && apt-get update && apt-get install {names}"
            )
        }
        // An image of a container has no lists.
        _ if !has_lists() => format!("apt-get update && apt-get install {names}"),
        _ => format!("apt-get install {names}"),
    };
    Person::here().as_root(&command)
}

/// Whether dpkg takes packages of that architecture.
fn is_enabled(foreign: &str) -> bool {
    let reported = Command::new("dpkg").arg("--print-foreign-architectures").output();
    reported.is_ok_and(|reported| {
        String::from_utf8_lossy(&reported.stdout).lines().any(|line| line == foreign)
    })
}

/// Whether apt has the index of some archive.
fn has_lists() -> bool {
    std::fs::read_dir("/var/lib/apt/lists").is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[(&str, u32)] = &[("libx3", 13), ("libx2.0", 0)];

    #[test]
    fn a_package_can_be_installed_if_apt_has_a_candidate_for_it() {
        let of = |new: &str, old: &str| {
            let reported = format!(
                "libx3:\n  Installed: (none)\n  Candidate: {new}\n  Version table:\n     3.1 500\n\
                 libx2.0:\n  Installed: 2\n  Candidate: {old}\n"
            );
            candidates(&reported).join(" ")
        };
        assert_eq!(of("3.1", "2.0"), "libx3 libx2.0");
        assert_eq!(of("(none)", "2.0"), "libx2.0");
        assert_eq!(of("(none)", "(none)"), "");
        assert!(candidates("").is_empty());
    }

    #[test]
    fn without_apts_lists_the_release_decides() {
        assert_eq!(by_release(NAMES, 12), "libx2.0");
        assert_eq!(by_release(NAMES, 13), "libx3");
        assert_eq!(by_release(NAMES, u32::MAX), "libx3");
        assert_eq!(by_release(&[("new", 13)], 12), "new");
    }

    #[test]
    fn a_package_that_no_archive_has_is_not_advised() {
        let none = Package { names: &[("tek-no-such-package", 0)] };
        let reported = install(&[none], None);
        assert_eq!(reported.contains("have no package"), has_lists(), "{reported}");
    }
}
