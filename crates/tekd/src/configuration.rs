// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads /etc/tek/tekd.toml and the active sessions, and describes the configuration in words.
use crate::links;
use anyhow::{bail, Context, Result};
use nix::unistd::{Group as SystemGroup, Uid, User};
use std::fmt::{Display, Write};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tek_policy::{
    read_configuration, Backend, Configuration, Grant, Group, GroupSettings, Placing,
};

/// The default file.
const USUAL_FILE: &str = "/etc/tek/tekd.toml";
/// logind's record of each seat, with the session in front.
const SEATS: &str = "/run/systemd/seats";
/// A longer file is refused.
const MOST_BYTES: u64 = 1 << 20;

/// A configuration, with the numbers of its users and groups.
#[derive(Debug)]
pub struct Loaded {
    pub configuration: Configuration,
    /// Advice to the author of the file.
    pub warnings: Vec<String>,
    /// Where it comes from.
    pub source: String,
}

/// Reads this file, or the usual one if that is there.
pub fn load(file: Option<&PathBuf>) -> Result<Loaded> {
    let path = file.map_or(Path::new(USUAL_FILE), PathBuf::as_path);
    let text = match read(path) {
        Err(error) if file.is_none() && is_missing(&error) => None,
        text => Some(text.with_context(|| format!("cannot read {}", path.display()))?),
    };
    let Some(text) = text else {
        let configuration = Configuration::default();
        let source = format!("the defaults, because there is no {USUAL_FILE}");
        return Ok(Loaded { configuration, warnings: Vec::new(), source });
    };
    let mut configuration = read_configuration(text, &path.display().to_string())?;
    let user_id = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
    let group_id = |name: &str| Some(SystemGroup::from_name(name).ok()??.gid.as_raw());
    let mut warnings = configuration.resolve(user_id, group_id);
    warnings.extend(configuration.follow_links(|pattern| links::behind(pattern).ok()));
    Ok(Loaded { configuration, warnings, source: path.display().to_string() })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    // A FIFO in its place must not block tekd, even one that replaces the file just now.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    trust(path, &file.metadata()?)?;
    read_all(file)
}

fn read_all(file: File) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        bail!("it is more than 1 MiB long");
    }
    Ok(text)
}

/// Grants are rights: a user that can write the file can grant itself any.
fn trust(path: &Path, about: &Metadata) -> Result<()> {
    let own = nix::unistd::geteuid().as_raw();
    if !about.is_file() {
        bail!("it is no file");
    }
    if ![0, own].contains(&about.uid()) {
        let path = tek_advice::quoted(&path.display().to_string());
        let cure = tek_advice::as_root(&format!("chown root {path}"));
        bail!("it is not trusted: user {} owns it: {cure}", about.uid());
    }
    if about.mode() & 0o022 != 0 {
        let mode = about.mode() & 0o777;
        let cure = tek_advice::only_owner_writes(path, about.uid());
        bail!("it is not trusted: other users can write to it (mode {mode:o}): {cure}");
    }
    Ok(())
}

fn is_missing(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::NotFound)
}

/// Whether a user's session is in front at a seat. Without logind no user's session is.
pub fn is_active(uid: u32) -> bool {
    is_active_in(Path::new(SEATS), uid)
}

fn is_active_in(seats: &Path, uid: u32) -> bool {
    let Ok(seats) = fs::read_dir(seats) else { return false };
    let wanted = format!("ACTIVE_UID={uid}");
    seats
        .flatten()
        .filter_map(|seat| fs::read_to_string(seat.path()).ok())
        .any(|text| text.lines().any(|line| line == wanted))
}

/// The meaning of a configuration, for `--check`.
pub fn describe(loaded: &Loaded) -> String {
    let Configuration { grants, real_time, canary_seconds, protected, .. } = &loaded.configuration;
    let mut text = format!("Configuration: {}\n", loaded.source);
    let _ = writeln!(
        text,
        "Critical threads are SCHED_RR {} (priority 19) to {} (-20); tekd is SCHED_FIFO {}.",
        real_time.low,
        real_time.high,
        real_time.high + 2
    );
    let _ = match canary_seconds {
        0 => writeln!(text, "There is no canary."),
        seconds => writeln!(
            text,
            "When ordinary threads did not run for {seconds} s, all critical ones are sent back."
        ),
    };
    let _ = writeln!(text, "{} patterns protect processes by their names.", protected.len());
    text.push_str(&describe_groups(&loaded.configuration));
    if !grants.is_empty() {
        text.push_str(&loaded.configuration.inherit.to_string());
    }
    if grants.is_empty() {
        text.push_str("No process may have critical threads: there is no [[grant]].\n");
    }
    for grant in grants {
        text.push_str(&describe_grant(grant));
    }
    for warning in &loaded.warnings {
        let _ = writeln!(text, "Warning: {warning}");
    }
    text
}

fn describe_groups(configuration: &Configuration) -> String {
    let Configuration { backend, groups, places, .. } = configuration;
    let mut text = format!(
        "Backend {backend}{}\n",
        match backend {
            Backend::Auto => ": rt where tekd may make threads real-time, else fair.",
            Backend::Rt =>
                ": critical threads are real-time, and others that are wait beneath them.",
            Backend::Fair => ": critical threads are in a control group of great weight.",
        }
    );
    let usual = GroupSettings::default();
    let Some(groups) = groups.as_ref().or((*backend == Backend::Fair).then_some(&usual)) else {
        text.push_str("No process is placed in groups: there is no [groups].\n");
        return text;
    };
    let in_order = [Group::Urgent, Group::Normal, Group::Service, Group::Background];
    let weights = in_order.map(|group| format!("{group} {}", groups.weights.of(group)));
    let _ = writeln!(
        text,
        "All processes are placed in control groups beneath {}, with the weights {}; under fair \
         all threads that are not critical keep {} of each CPU.",
        match &groups.below {
            Some(below) => format!("{}/{}", below.trim_end_matches('/'), groups.name),
            None => format!("{}, in the topmost one or what systemd delegates", groups.name),
        },
        weights.join(", "),
        groups.weights.floor
    );
    for Placing { source, group, names, users, cgroups } in places {
        let subject = [
            list("names", names),
            list("users", &users_by_name(users)),
            list("control groups", cgroups),
        ];
        let _ = writeln!(text, "{source}: {group} for {}", all_of(subject));
    }
    text
}

/// User names where they exist, else the numbers.
fn users_by_name(users: &[impl Display]) -> Vec<String> {
    let by_name = |text: String| {
        let found = text.parse().ok().map(|id| User::from_uid(Uid::from_raw(id)));
        found.and_then(|user| user.ok().flatten()).map_or(text, |user| user.name)
    };
    users.iter().map(|user| by_name(user.to_string())).collect()
}

/// The named items of a kind; `None` if any item will do.
fn list(kind: &str, of: &[impl Display]) -> Option<String> {
    let named: Vec<String> = of.iter().map(ToString::to_string).collect();
    (!named.is_empty()).then(|| format!("{kind} {}", named.join(", ")))
}

fn all_of<const N: usize>(lists: [Option<String>; N]) -> String {
    lists.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn describe_grant(grant: &Grant) -> String {
    let Grant { source, users, groups, programs, cgroups, terms } = grant;
    let subject = [
        list("users", &users_by_name(users)),
        list("groups", groups),
        list("programs", programs),
        list("control groups", cgroups),
    ];
    format!(
        "{source}: {}\n    {} threads a process, {} a user, priorities {} to {}, budget {}, \
         {} switches a second, {} at once{}{}\n",
        all_of(subject),
        terms.threads,
        terms.user_threads,
        terms.first.nice(),
        terms.last.nice(),
        terms.budget,
        terms.rate,
        terms.burst,
        if terms.limit { ", may switch by itself" } else { "" },
        match terms.other_users {
            Some(true) => ", threads of others, too",
            Some(false) => "",
            None => "; root threads of others, too",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn users_at_the_device_are_read_from_the_seats() {
        let seats = tempfile::tempdir().unwrap();
        fs::write(seats.path().join("seat0"), "# x\nACTIVE=c1\nACTIVE_UID=1000\nUIDS=7\n").unwrap();
        assert!(is_active_in(seats.path(), 1000));
        assert!(!is_active_in(seats.path(), 100));
        assert!(!is_active_in(seats.path(), 7));
        assert!(!is_active_in(&seats.path().join("none"), 1000));
    }

    #[test]
    fn a_file_that_is_named_must_be_there_and_be_one() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("none"), directory.path().to_owned()] {
            let reported = format!("{:#}", load(Some(&path)).unwrap_err());
            assert!(reported.starts_with("cannot read /"), "{reported}");
        }
    }

    #[test]
    fn what_other_users_can_write_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tekd.toml");
        fs::write(&path, "").unwrap();
        for (mode, is_trusted) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(load(Some(&path)).is_ok(), is_trusted, "{mode:o}");
        }
    }

    #[test]
    fn more_than_a_mebibyte_is_no_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tekd.toml");
        let load_of = |length: u64| {
            fs::write(&path, vec![b'#'; usize::try_from(length).unwrap()]).unwrap();
            load(Some(&path))
        };
        assert!(load_of(MOST_BYTES).is_ok());
        assert!(format!("{:#}", load_of(MOST_BYTES + 1).unwrap_err()).contains("1 MiB"));
    }

    #[test]
    fn names_are_replaced_and_the_whole_is_described() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tekd.toml");
        fs::write(&path, "[[grant]]\nusers = [\"root\", \"nobody-has-it\"]\nlimit = true").unwrap();
        let loaded = load(Some(&path)).unwrap();
        assert_eq!(loaded.warnings.len(), 1);
        let reported = describe(&loaded);
        assert!(
            reported.contains("users root, nobody-has-it")
                && reported.contains("may switch by itself"),
            "{reported}"
        );
        assert!(reported.contains("there is no user nobody-has-it"), "{reported}");
    }

    #[test]
    fn the_program_behind_a_link_is_named_and_a_missing_program_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tekd.toml");
        let shell = fs::canonicalize("/bin/sh").unwrap();
        if shell == Path::new("/bin/sh") {
            return; // no link here
        }
        fs::write(&path, "[[grant]]\nprograms = [\"/bin/sh\", \"/nowhere/none\"]").unwrap();
        let loaded = load(Some(&path)).unwrap();
        let reported = describe(&loaded);
        let programs = format!("programs /bin/sh, /nowhere/none, {}\n", shell.display());
        assert!(reported.contains(&programs), "{reported}");
        assert_eq!(loaded.warnings.len(), 1);
        assert!(reported.contains("there is no file /nowhere/none\n"), "{reported}");
    }
}
