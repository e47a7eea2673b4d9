// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that a client may see in replies: those that it could see in /proc itself.
//!
//! tekd sees all of /proc. A client may not: a mount option of its /proc (hidepid) hides processes
//! of other users, and another pid namespace has no processes from outside.
use crate::process::Status;
use std::fs;
use std::os::unix::fs::MetadataExt;
use tek_procfs::path;

/// The number of CAP_SYS_PTRACE, for whose holders /proc hides nothing.
const SYS_PTRACE: u32 = 19;

/// The view of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// All processes of tekd's pid namespace.
    All,
    /// The processes of one user.
    User(u32),
    /// None: its ids differ from those of tekd.
    Nobody,
}

impl Viewer {
    /// The view of the process with this id and status.
    pub fn of(pid: i32, status: &Status) -> Self {
        let Some((uid, gids)) = status.user_and_groups() else { return Self::Nobody };
        if status.has_own_pids() {
            return Self::Nobody;
        }
        // In another user namespace capabilities mean nothing here, and any user can mount a /proc.
        let own = std::process::id() as i32;
        let is_in_ours = namespace_of(pid) == namespace_of(own);
        if !is_in_ours {
            return Self::User(uid);
        }
        let mounts = || path(pid, "mountinfo").and_then(fs::read_to_string).unwrap_or_default();
        match status.has_capability(SYS_PTRACE) || shows_all(&mounts(), &gids) {
            true => Self::All,
            false => Self::User(uid),
        }
    }

    /// Whether a process or thread with this status is in the view.
    pub fn sees(self, status: &Status) -> bool {
        match self {
            Self::All => true,
            Self::User(uid) => status.is_wholly_of(uid),
            Self::Nobody => false,
        }
    }

    /// The same for the process or thread with this id. An ended one is only in the view `All`.
    pub fn sees_id(self, id: i32) -> bool {
        self == Self::All || Status::of(id).is_ok_and(|status| self.sees(&status))
    }

    /// The same for a process that may have ended, by its user.
    pub fn sees_user(self, uid: u32) -> bool {
        match self {
            Self::All => true,
            Self::User(own) => own == uid,
            Self::Nobody => false,
        }
    }
}

fn namespace_of(process: i32) -> Option<u64> {
    fs::metadata(path(process, "ns/user").ok()?).ok().map(|about| about.ino())
}

/// Whether a process with these mounts and groups has a /proc, and no /proc that hides processes
/// of other users.
fn shows_all(mountinfo: &str, gids: &[u32]) -> bool {
    let mut options = mountinfo.lines().filter_map(options_of_proc).peekable();
    options.peek().is_some() && options.all(|options| !hides(options, gids))
}

/// The options of the file system, if that is a /proc: proc_pid_mountinfo(5).
fn options_of_proc(line: &str) -> Option<&str> {
    let (_, file_system) = line.split_once(" - ")?;
    let mut fields = file_system.split(' ');
    (fields.next()? == "proc").then(|| fields.nth(1)).flatten()
}

/// Whether a /proc with these options hides processes from members of these groups: proc(5).
fn hides(options: &str, gids: &[u32]) -> bool {
    let value = |key: &str| {
        options.split(',').find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    };
    let exempt: u32 = value("gid").and_then(|gid| gid.parse().ok()).unwrap_or(0);
    match value("hidepid") {
        None | Some("0" | "off") => false,
        Some("4" | "ptraceable") => true,
        Some(_) => !gids.contains(&exempt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "21 28 0:19 / /sys rw,nosuid - sysfs sysfs rw\n\
                          22 28 0:20 / /proc rw,nosuid shared:12 - proc proc rw";

    #[test]
    fn a_proc_with_hidepid_shows_processes_of_other_users_to_members_of_its_group_only() {
        for (options, shown, shown_to_its_group) in [
            ("", true, true),
            (",hidepid=off", true, true),
            (",hidepid=0", true, true),
            (",hidepid=1,gid=7", false, true),
            (",gid=7,hidepid=invisible", false, true),
            (",hidepid=2", false, false),
            (",hidepid=ptraceable,gid=7", false, false),
            (",hidepid=something-new", false, false),
        ] {
            let mounts = format!("{MOUNTS}{options}\n");
            assert_eq!(shows_all(&mounts, &[5]), shown, "{options}");
            assert_eq!(shows_all(&mounts, &[5, 7]), shown_to_its_group, "{options}");
        }
    }

    #[test]
    fn without_a_proc_and_with_one_more_that_hides_nothing_is_shown() {
        assert!(!shows_all("", &[0]));
        assert!(!shows_all("21 28 0:19 / /sys rw,nosuid - sysfs sysfs rw\n", &[5]));
        let pair = format!("{MOUNTS}\n23 28 0:21 / /box/proc rw - proc proc rw,hidepid=2\n");
        assert!(!shows_all(&pair, &[5]));
    }

    #[test]
    fn root_sees_all_and_a_user_its_own() {
        let own = i32::try_from(std::process::id()).unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        let status = Status::of(own).unwrap();
        assert!(Viewer::All.sees_id(own) && Viewer::All.sees_user(uid + 1));
        assert!(Viewer::User(uid).sees(&status) && Viewer::User(uid).sees_user(uid));
        assert!(!Viewer::User(uid + 1).sees(&status) && !Viewer::User(uid + 1).sees_user(uid));
        assert!(!Viewer::Nobody.sees_id(own) && !Viewer::Nobody.sees_user(uid));
    }
}
