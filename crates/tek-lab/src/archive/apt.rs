// SPDX-License-Identifier: MIT OR Apache-2.0
//! apt-get and its relatives, with a state of their own.
use super::entry::Entry;
use super::settings::{configuration, sources};
use super::{Cause, Error, Package};
use crate::cache;
use std::cmp::Ordering;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// apt with lists, sources and caches in one directory.
pub(super) struct Apt {
    configuration: PathBuf,
}

impl Apt {
    /// Prepares an empty directory for it.
    pub fn new(state: &Path, entries: &[Entry], architecture: &str) -> Result<Self, Error> {
        if state.to_string_lossy().contains(|c: char| c == '"' || c == '\\' || c.is_control()) {
            return Err(Error::Path(state.parent().unwrap_or(state).to_owned()));
        }
        for directory in ["lists/partial", "cache/archives/partial", "sources"] {
            let path = state.join(directory);
            fs::create_dir_all(&path).map_err(cache::Error::doing("create", &path))?;
        }
        let write = |name: &str, text: &str| {
            let path = state.join(name);
            fs::write(&path, text).map_err(cache::Error::doing("write", &path)).map(|()| path)
        };
        write("status", "")?;
        write("sources/lab.sources", &sources(entries, architecture))?;
        let configuration = write("apt.conf", &configuration(state, architecture))?;
        Ok(Self { configuration })
    }

    /// Gets the indexes.
    pub fn update(&self, suite: &str, mirror: &str) -> Result<(), Error> {
        let output = start(self.command("apt-get").arg("update"), "apt-get")?;
        // An older apt reports a part that it could not get as a warning, and exits with 0.
        let wrong = complaints(&output).next();
        match wrong {
            None if output.status.success() => Ok(()),
            _ => Err(failed(format!("read suite {suite} of {mirror}"), &output)),
        }
    }

    /// Names of all packages with that prefix.
    pub fn names(&self, prefix: &str) -> Result<String, Error> {
        let output = start(self.command("apt-cache").args(["pkgnames", prefix]), "apt-cache")?;
        text(output, || "list the packages".into())
    }

    /// The index's entries of packages; packages without an entry are left out.
    pub fn show<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<String, Error> {
        let output = start(self.command("apt-cache").arg("show").args(names), "apt-cache")?;
        if String::from_utf8_lossy(&output.stderr).contains("No packages found") {
            return Ok(String::new());
        }
        text(output, || "look packages up".into())
    }

    /// Names and versions of these packages and of all their dependencies.
    pub fn closure(&self, names: &[String]) -> Result<Vec<(String, String)>, Error> {
        let mut command = self.command("apt-get");
        command.args(["install", "--yes", "--no-install-recommends", "--print-uris", "-qq"]);
        let output = start(command.args(names), "apt-get")?;
        if !output.status.success() {
            return Err(failed(format!("choose versions of {}", names.join(" ")), &output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(uri_line).collect())
    }

    /// Downloads packages into a directory, and compares them with the index.
    pub fn download(&self, packages: &[Package], directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut command = self.command("apt-get");
        command.arg("download").current_dir(directory);
        for package in packages {
            command.arg(format!("{}={}", package.name, package.version));
        }
        let output = start(&mut command, "apt-get")?;
        let doing = || format!("download {}", super::listed(packages));
        if !output.status.success() {
            return Err(failed(doing(), &output));
        }
        let files = fs::read_dir(directory).map_err(cache::Error::doing("read", directory))?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|name| name == "deb");
        let files: Vec<_> = files.flatten().map(|entry| entry.path()).filter(is_package).collect();
        if files.len() != packages.len() {
            return Err(failed(doing(), &output));
        }
        Ok(files)
    }

    fn command(&self, program: &'static str) -> Command {
        let mut command = quiet(program);
        command.arg("-c").arg(&self.configuration).arg("-q");
        command
    }
}

/// Unpacks a package's files into a directory.
pub(super) fn unpack(file: &Path, into: &Path) -> Result<(), Error> {
    let output = start(quiet("dpkg-deb").arg("--extract").arg(file).arg(into), "dpkg-deb")?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!("unpack {}", file.display()), &output))
}

/// In Debian's order.
pub(super) fn compare_versions(a: &str, b: &str) -> Result<Ordering, Error> {
    let less = |a: &str, b: &str| -> Result<bool, Error> {
        let output = start(quiet("dpkg").args(["--compare-versions", a, "lt", b]), "dpkg")?;
        Ok(output.status.success())
    };
    Ok(match (less(a, b)?, less(b, a)?) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    })
}

/// The packages that `apt-cache show` shows.
pub(super) fn packages(shown: &str) -> impl Iterator<Item = Package> + '_ {
    shown.split("\n\n").filter_map(|paragraph| {
        let field = |name: &str| {
            paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        Some(Package {
            name: field("Package")?.to_owned(),
            version: field("Version")?.to_owned(),
            sha256: field("SHA256")?.to_owned(),
            size: field("Size")?.parse().ok()?,
            // In KiB; a package that is made by hand may lack it.
            unpacked: field("Installed-Size")
                .and_then(|size| size.parse::<u64>().ok()?.checked_mul(1024))
                .unwrap_or_default(),
        })
    })
}

/// Name and version from a line of `--print-uris`: 'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH.
fn uri_line(line: &str) -> Option<(String, String)> {
    let file = line.split(' ').nth(1)?.strip_suffix(".deb")?;
    let (name, rest) = file.split_once('_')?;
    let (version, _) = rest.rsplit_once('_')?;
    // A file's name has no colon.
    Some((name.to_owned(), version.replace("%3a", ":")))
}

/// A program whose messages are English, and which does not outlive this one.
pub(super) fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C.UTF-8").env_remove("APT_CONFIG").stdin(std::process::Stdio::null());
    // SAFETY: prctl() may be called between fork() and exec(); it touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            // The child's download is of no use without this process.
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
            Ok(())
        });
    }
    command
}

/// Runs it to its end.
pub(super) fn start(command: &mut Command, program: &'static str) -> Result<Output, Error> {
    command.output().map_err(|error| Error::Program { program, why: error.to_string() })
}

/// Its standard output, if it succeeded.
pub(super) fn text(output: Output, doing: impl Fn() -> String) -> Result<String, Error> {
    if !output.status.success() && complaints(&output).next().is_some() {
        return Err(failed(doing(), &output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines in which apt reports a failure.
fn complaints(output: &Output) -> impl Iterator<Item = String> {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<_> = message
        .lines()
        .filter_map(|line| {
            line.strip_prefix("E: ").or_else(|| {
                line.strip_prefix("W: ").filter(|line| line.contains("Failed to fetch"))
            })
        })
        .map(str::to_owned)
        .collect();
    lines.into_iter()
}

fn failed(doing: String, output: &Output) -> Error {
    let all = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    // stderr only reports that a Release file is missing; the details on stdout have the reason.
    let details: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let cause = Cause::of(&format!("{all}\n{}", details.join("\n")));
    let mut lines: Vec<_> = complaints(output).collect();
    lines.extend(details.iter().map(|line| line.trim().to_owned()));
    let telling = lines.iter().find(|line| Cause::of(line) == cause);
    let last = || all.lines().next_back().unwrap_or("no reason given");
    let message = telling.or(lines.first()).map_or_else(last, String::as_str);
    Error::Apt { doing, message: message.trim_end_matches('.').to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::{failed, packages, uri_line};
    use proptest::prelude::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};

    #[test]
    fn why_there_is_no_release_file_comes_before_that_there_is_none() {
        let log = |out: &str| {
            let message = "E: The repository 'http://a x Release' does not have a Release file.\n";
            let (stdout, stderr) = (out.as_bytes().to_vec(), message.as_bytes().to_vec());
            let status = ExitStatus::from_raw(100 << 8);
            failed("read suite x".into(), &Output { status, stdout, stderr }).to_string()
        };
        let network =
            "Ign:1 http://a x InRelease\nErr:2 http://a x Release\n  Cannot initiate the \
                       connection to 127.0.0.1:1 (127.0.0.1). - connect (101: Network)\n";
        let error = log(network);
        assert!(error.contains("cannot read suite x: Cannot initiate the connection"), "{error}");
        assert!(error.contains("(101: Network); the archive cannot be reached"), "{error}");
        let error = log("Err:2 http://a x Release\n  404  Not Found\n");
        assert!(error.contains("have a Release file; the archive does not have it"), "{error}");
    }

    #[test]
    fn a_line_of_print_uris_has_name_and_version() {
        let line = "'http://archive.example/pool/busybox-static_1.35.0-4%2bb1_armhf.deb' \
                    busybox-static_1%3a1.35.0-4+b1_armhf.deb 815288 MD5Sum:88";
        let expected = ("busybox-static".to_owned(), "1:1.35.0-4+b1".to_owned());
        assert_eq!(uri_line(line), Some(expected));
        for odd in
            ["", "Reading package lists...", "'x' a.deb 1", "'x' a_1.deb", "'x' a_1_all.rpm 1"]
        {
            assert_eq!(uri_line(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_fields_of_a_package_are_found_and_no_other_fields() {
        let shown =
            "Package: a\nVersion: 1\nDescription: x\n Package: no\nSize: 12\nSHA256: ab\n\n\
                     Package: lacks its size\nVersion: 1\nSHA256: cd\n\nPackage: b\nSize: 3\n\
                     Version: 2:1\nSHA256: ef\n\n";
        let found: Vec<_> = packages(shown)
            .map(|package| (package.name, package.version, package.sha256, package.size))
            .collect();
        let expected =
            [("a", "1", "ab", 12), ("b", "2:1", "ef", 3)].map(|(name, version, sha256, size)| {
                (name.into(), version.into(), sha256.into(), size)
            });
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn anything_may_be_shown(
            text in "(Package: |Size: |Version: |SHA256: |[a-z0-9\n' _.]){0,60}",
        ) {
            for package in packages(&text) {
                prop_assert!(text.contains(&package.name));
            }
            let _ = uri_line(&text);
        }
    }
}
