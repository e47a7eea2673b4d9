// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that need root: plain for root, with sudo where it is installed, else marked.
use crate::quoted;
use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How the reader of a message runs a command as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Person {
    /// The reader is root.
    Root,
    /// With sudo.
    Sudo,
    /// In an unknown way: the command is marked with `as root: `.
    Other,
}

impl Person {
    /// For the user of this process.
    pub fn here() -> Self {
        match nix::unistd::geteuid().is_root() {
            true => Self::Root,
            false if program("sudo", &[]).is_some() => Self::Sudo,
            false => Self::Other,
        }
    }

    /// A command line of the shell, with one or more commands, to be run as root.
    pub fn as_root(self, command: &str) -> String {
        let is_plain = !command.contains(['>', '<', '|', '&', ';']);
        match self {
            Self::Root => command.to_owned(),
            Self::Sudo if is_plain => format!("sudo {command}"),
            Self::Sudo => format!("sudo sh -c {}", quoted(command)),
            Self::Other => format!("as root: {command}"),
        }
    }

    /// A command that writes a value into a file.
    pub fn write(self, value: &str, file: &Path) -> String {
        let (value, file) = (quoted(value), quoted(&file.display().to_string()));
        match self {
            // With `sudo echo VALUE > FILE` the user's shell would open the file.
            Self::Sudo => format!("echo {value} | sudo tee {file}"),
            Self::Root | Self::Other => self.as_root(&format!("echo {value} > {file}")),
        }
    }

    /// A program of TEK's, by its path where root's shell would not find it by its name.
    fn tool(self, path: &Path, arguments: &str) -> String {
        let usual = ["/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"];
        let is_usual =
            path.parent().is_some_and(|parent| usual.iter().any(|dir| parent == Path::new(dir)));
        let name = match path.file_name() {
            Some(name) if is_usual => PathBuf::from(name),
            _ => path.to_owned(),
        };
        let command = format!("{} {arguments}", quoted(&name.display().to_string()));
        self.as_root(command.trim_end())
    }
}

/// [`Person::as_root`] for the user of this process.
pub fn as_root(command: &str) -> String {
    Person::here().as_root(command)
}

/// [`Person::write`] for the user of this process.
pub fn write_as_root(value: impl ToString, file: impl AsRef<Path>) -> String {
    Person::here().write(&value.to_string(), file.as_ref())
}

/// The command after which only its owner, a user id, can write a file.
pub fn only_owner_writes(file: &Path, owner: u32) -> String {
    let command = format!("chmod go-w {}", quoted(&file.display().to_string()));
    match nix::unistd::geteuid().as_raw() == owner {
        true => command,
        false => as_root(&command),
    }
}

/// A program that lies beside this one (tek, tekd), to be run as root.
pub fn tool_as_root(name: &str, arguments: &str) -> String {
    let path = env::current_exe().map_or_else(|_| name.into(), |own| own.with_file_name(name));
    Person::here().tool(&path, arguments)
}

/// The command line of this process, to be run as root, with these variables if they are set: sudo
/// and su do not pass them on.
pub fn again_as_root(variables: &[&str]) -> String {
    let set = |name: &&str| Some(quoted(&format!("{name}={}", env::var(name).ok()?)));
    let variables: Vec<_> = variables.iter().filter_map(set).collect();
    let words: Vec<_> =
        env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
    let path = env::current_exe().unwrap_or_else(|_| "tek".into());
    let (path, first) = as_called(path);
    let words: Vec<_> = first.into_iter().chain(words).collect();
    let command = Person::Root.tool(&path, &words.join(" "));
    Person::here().as_root(&match variables.is_empty() {
        true => command,
        false => format!("env {} {command}", variables.join(" ")),
    })
}

/// A program as its user calls it: tek-bench is `tek bench`.
fn as_called(program: PathBuf) -> (PathBuf, Option<String>) {
    let name = program.file_name().and_then(OsStr::to_str);
    match name.and_then(|name| name.strip_prefix("tek-")).map(str::to_owned) {
        Some(command) => (program.with_file_name("tek"), Some(command)),
        None => (program, None),
    }
}

/// An executable file of that name in PATH, else in one of these directories.
pub fn program(name: &str, also: &[&str]) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<_> = env::split_paths(&path).collect();
    directories.extend(also.iter().map(PathBuf::from));
    directories.into_iter().map(|directory| directory.join(name)).find(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_gets_the_command_and_other_users_the_way_to_run_it() {
        let reported =
            |command| [Person::Root, Person::Sudo, Person::Other].map(|p| p.as_root(command));
        let expected = ["mount x", "sudo mount x", "as root: mount x"];
        assert_eq!(reported("mount x"), expected);
        assert_eq!(reported("a && b 'c'")[1], r"sudo sh -c 'a && b '\''c'\'''");
    }

    #[test]
    fn a_file_of_another_user_is_closed_by_root() {
        let own = nix::unistd::geteuid().as_raw();
        let reported = |owner| only_owner_writes(Path::new("/a b"), owner);
        assert_eq!(reported(own), "chmod go-w '/a b'");
        assert_eq!(reported(own + 1), as_root("chmod go-w '/a b'"));
    }

    #[test]
    fn with_sudo_root_opens_the_file() {
        let file = Path::new("/proc/sys/a");
        assert_eq!(Person::Root.write("1", file), "echo 1 > /proc/sys/a");
        assert_eq!(Person::Sudo.write("1", file), "echo 1 | sudo tee /proc/sys/a");
        assert_eq!(Person::Other.write("+cpu", file), "as root: echo +cpu > /proc/sys/a");
    }

    #[test]
    fn a_program_is_searched_in_path_and_then_in_further_directories() {
        assert!(program("sh", &[]).is_some_and(|path| path.is_absolute()));
        assert_eq!(program("self", &["/proc"]), None);
        assert_eq!(program("exe", &["/proc/self"]), Some("/proc/self/exe".into()));
        assert_eq!(program("no-such-program", &["/usr/sbin"]), None);
    }

    #[test]
    fn a_command_that_is_a_program_of_its_own_is_called_by_tek() {
        let called = |program: &str| as_called(program.into());
        assert_eq!(called("/a/bin/tek"), ("/a/bin/tek".into(), None));
        assert_eq!(called("/a/bin/tek-bench"), ("/a/bin/tek".into(), Some("bench".into())));
    }

    #[test]
    fn a_program_that_roots_path_does_not_have_is_called_by_its_path() {
        let tool = |path: &str| Person::Sudo.tool(Path::new(path), "--check");
        assert_eq!(tool("/usr/local/bin/tekd"), "sudo tekd --check");
        assert_eq!(tool("/home/mary/my tek/bin/tekd"), "sudo '/home/mary/my tek/bin/tekd' --check");
    }
}
