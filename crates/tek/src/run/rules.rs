// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of a run: files of the system, of the user and of the command line, in this order,
//! then `--role` and `--critical`. Errors in them are reported before anything starts.
use super::options::{critical_rules, Critical, RoleOption};
use crate::message;
use std::env;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tek_policy::{Contents, EnvironmentError, Rule, StackSettings};

/// The directory of the administrator's rules.
const SYSTEM: &str = "/etc/tek";

/// A larger file is no rules file; 64 rules need a hundredth of it.
const MOST_BYTES: u64 = 1024 * 1024;

const ADVICE: &str =
    "mend it, or leave the files of /etc/tek and ~/.config/tek out with --no-rules";

/// Why the rules cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its text contains the place.
    #[error(transparent)]
    File(#[from] tek_policy::Error),
    /// A file or a directory of them.
    #[error("{path}: the rules cannot be read: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something else, or garbage.
    #[error("{path}: this is no rules file: it has more than {MOST_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Found in a default directory, but another user could have put it there.
    #[error("{path}: these rules are not trusted: {why}")]
    NotTrusted {
        /// File or directory.
        path: PathBuf,
        /// The users that could change it.
        why: String,
    },
    /// All together are too many.
    #[error(transparent)]
    All(#[from] EnvironmentError),
    /// The user did not ask for this file.
    #[error("{0}\n{ADVICE}")]
    Unasked(Box<Error>),
}

/// The sources of rules.
pub struct Sources<'a> {
    /// Leave the default directories out.
    pub no_defaults: bool,
    /// `--rules`.
    pub files: &'a [PathBuf],
    /// `--role`.
    pub roles: &'a [RoleOption],
    /// `--critical`.
    pub critical: &'a [Critical],
}

/// The contents of the files and options.
pub struct Gathered {
    /// The rules as libtek.so takes them; `None` if there are none.
    pub rules: Option<String>,
    /// The files' settings for the Stack Tuner; of two files the later one counts.
    pub stack: StackSettings,
    list: Vec<Rule>,
}

impl Gathered {
    /// Reports which rules and variables do not hold for a program on user-level threads. Options
    /// that do not hold are refused.
    pub fn report_what_uthreads_lack(&self, program: &OsStr) {
        if env::var_os("TEK_CRITICAL").is_some_and(|patterns| !patterns.is_empty()) {
            message::print(
                "TEK_CRITICAL is not followed: user-level threads are not made time-critical",
            );
        }
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        if self.make_critical(&name) {
            message::print(&format!(
                "rules that make threads of {name} time-critical, or mark them, are followed for \
                 roles only: its threads are user-level ones"
            ));
        }
    }

    /// Whether a rule makes threads of a program time-critical, or marks them to follow such
    /// threads.
    fn make_critical(&self, program: &str) -> bool {
        self.list.iter().any(|Rule { matches, set, .. }| {
            (set.critical == Some(true) || set.mark == Some(true))
                && matches.program.as_ref().is_none_or(|glob| glob.matches(program.as_bytes()))
        })
    }
}

/// The default files' settings for the Stack Tuner.
pub fn stack_settings() -> Result<StackSettings, Error> {
    Ok(Sources { no_defaults: false, files: &[], roles: &[], critical: &[] }.gather()?.stack)
}

impl Sources<'_> {
    /// All their contents.
    pub fn gather(&self) -> Result<Gathered, Error> {
        let mut rules = Vec::new();
        let mut stack = StackSettings::default();
        let mut add = |contents: Contents| {
            rules.extend(contents.rules);
            stack = stack.overridden_by(contents.stack);
        };
        if !self.no_defaults {
            for directory in [Some(PathBuf::from(SYSTEM)), user_directory()].into_iter().flatten() {
                let found =
                    read_directory(&directory).map_err(|error| Error::Unasked(error.into()))?;
                found.into_iter().for_each(&mut add);
            }
        }
        for path in self.files {
            let open = File::open(path).map_err(cannot_read(path))?;
            add(read(open, path)?);
        }
        rules.extend(self.roles.iter().map(|RoleOption(rule)| rule.clone()));
        rules.extend(critical_rules(self.critical));
        let text = tek_policy::to_environment(&rules)?;
        Ok(Gathered { rules: (!rules.is_empty()).then_some(text), stack, list: rules })
    }
}

/// $XDG_CONFIG_HOME/tek, as in the XDG Base Directory Specification.
fn user_directory() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("tek"))
}

/// The rules of a default directory, its files by name. It may be missing. A directory that this
/// user may not enter, such as another user's $HOME, has no rules for this user.
fn read_directory(directory: &Path) -> Result<Vec<Contents>, Error> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let entries = match directory.read_dir() {
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => return Ok(Vec::new()),
        entries => entries.map_err(cannot_read(directory))?,
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()
        .map_err(cannot_read(directory))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    tek_sort::ascending(&mut paths);
    if !paths.is_empty() {
        trust(directory, &directory.metadata().map_err(cannot_read(directory))?)?;
    }

    let mut files = Vec::new();
    for path in &paths {
        // A FIFO in this place must not stop every run.
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = open.map_err(cannot_read(path))?;
        trust(path, &file.metadata().map_err(cannot_read(path))?)?;
        files.push(read(file, path)?);
    }
    Ok(files)
}

/// Rules decide about real-time priorities: unnamed ones must be root's or the user's.
fn trust(path: &Path, metadata: &std::fs::Metadata) -> Result<(), Error> {
    let user = nix::unistd::geteuid().as_raw();
    let why = if metadata.uid() != 0 && metadata.uid() != user {
        format!("user {} owns them, neither root nor you", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        let cure = tek_advice::only_owner_writes(path, metadata.uid());
        format!("others can write to them (mode {:o}): {cure}", metadata.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(Error::NotTrusted { path: path.to_owned(), why })
}

fn read(file: File, path: &Path) -> Result<Contents, Error> {
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(cannot_read(path))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    Ok(tek_policy::read(text, &path.to_string_lossy())?)
}

fn cannot_read(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn rule(role: &str) -> String {
        format!("[[rule]]\nmatch.thread = \"ui\"\nset.role = \"{role}\"\n")
    }

    fn roles(directory: &Path) -> Vec<String> {
        let files = read_directory(directory).unwrap();
        let rules = files.into_iter().flat_map(|contents| contents.rules);
        rules.map(|rule| rule.set.role.unwrap().to_string()).collect()
    }

    #[test]
    fn the_files_of_a_directory_are_read_by_name_and_only_toml() {
        let directory = tempfile::tempdir().unwrap();
        for (name, role) in [("b.toml", "second"), ("a.toml", "first"), ("c.toml~", "backup")] {
            fs::write(directory.path().join(name), rule(role)).unwrap();
        }
        assert_eq!(roles(directory.path()), ["first", "second"]);
        assert_eq!(roles(&directory.path().join("nowhere")), [""; 0]);
    }

    #[test]
    fn what_other_users_can_write_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.toml");
        fs::write(&file, rule("any")).unwrap();
        for path in [file.as_path(), directory.path()] {
            let before = path.metadata().unwrap().permissions();
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
            let error = read_directory(directory.path()).unwrap_err().to_string();
            assert!(error.contains("others can write to them (mode 777)"), "{error}");
            fs::set_permissions(path, before).unwrap();
        }
        assert_eq!(roles(directory.path()), ["any"]);
    }

    #[test]
    fn a_pipe_among_the_rules_stops_no_run() {
        let directory = tempfile::tempdir().unwrap();
        let mode = nix::sys::stat::Mode::S_IRUSR;
        nix::unistd::mkfifo(&directory.path().join("a.toml"), mode).unwrap();
        assert_eq!(roles(directory.path()), [""; 0]);
    }
}
