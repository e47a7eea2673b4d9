// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the machine's own apt gets its packages from.
use super::apt::{quiet, start, text};
use super::Error;
use std::fs;

/// One source of the machine's apt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its origin: "Debian", "Debian-Security". Known after the first `apt-get update`.
    pub label: String,
    /// The suite, by the name that the machine's sources have.
    pub release: String,
    /// Top of the archive.
    pub uri: String,
}

/// The sources of the machine's own apt.
pub(super) fn targets() -> Result<Vec<Target>, Error> {
    let mut command = quiet("apt-get");
    command.args([
        "indextargets",
        "--format",
        "$(LABEL)|$(RELEASE)|$(REPO_URI)",
        "Created-By: Packages",
    ]);
    let output = start(&mut command, "apt-get")?;
    let lines = text(output, || "ask apt where this machine gets Debian from".into())?;
    let target = |line: &str| {
        let mut fields = line.split('|').map(str::to_owned);
        Some(Target { label: fields.next()?, release: fields.next()?, uri: fields.next()? })
    };
    let known: Vec<_> = lines.lines().filter_map(target).collect();
    if !known.is_empty() {
        return Ok(known);
    }
    // Before the first `apt-get update`, as in a new container, apt lists only the addresses.
    let mut command = quiet("apt-get");
    let output = start(command.args(["update", "--print-uris"]), "apt-get")?;
    let lines = text(output, || "ask apt where this machine gets Debian from".into())?;
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    Ok(lines.lines().filter_map(|line| future_target(line, &release)).collect())
}

/// Reads 'URI/dists/SUITE/InRelease' and a machine's os-release: on Debian its own suite is
/// Debian's.
fn future_target(line: &str, os_release: &str) -> Option<Target> {
    let (address, _) = line.strip_prefix('\'')?.split_once('\'')?;
    let (uri, rest) = address.split_once("/dists/")?;
    let release = rest.strip_suffix("/InRelease")?;
    let has = |name: &str, value: &str| {
        os_release.lines().any(|line| {
            line.split_once('=')
                .is_some_and(|(left, right)| left == name && right.trim_matches('"') == value)
        })
    };
    let own = has("ID", "debian") && has("VERSION_CODENAME", release);
    Some(Target {
        label: if own { "Debian".to_owned() } else { String::new() },
        release: release.to_owned(),
        uri: uri.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::future_target;

    #[test]
    fn a_new_container_of_debian_gets_it_where_its_own_suite_comes_from() {
        let debian = "ID=debian\nVERSION_CODENAME=bookworm\n";
        let line = |suite: &str| format!("'http://a.example/d/dists/{suite}/InRelease' a 0 ");
        let label =
            |suite: &str, release: &str| future_target(&line(suite), release).unwrap().label;
        assert_eq!(label("bookworm", debian), "Debian");
        assert_eq!(label("bookworm-updates", debian), "");
        assert_eq!(label("bookworm", "ID=other\nVERSION_CODENAME=bookworm\n"), "");
        let found = future_target(&line("bookworm-security"), debian).unwrap();
        assert_eq!(
            (found.release.as_str(), found.uri.as_str()),
            ("bookworm-security", "http://a.example/d")
        );
        assert_eq!(future_target("W: something", debian), None);
    }
}
