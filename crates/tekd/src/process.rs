// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads /proc about processes. It reads only files that never wait for the process, or for a file
//! system of that process.
use crate::sys;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tek_effect::Identity;
use tek_policy::Requester;
use tek_procfs::{path, thread_path};

/// The kernel's PF_KTHREAD among the flags in stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The identity of a process that can change during its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Effective user.
    pub uid: u32,
    /// Effective and supplementary groups.
    pub gids: Vec<u32>,
    /// Device and inode of its program.
    pub program: (u64, u64),
}

/// All processes.
pub fn all() -> Vec<i32> {
    names_in(Path::new("/proc")).filter_map(|name| name.parse().ok()).collect()
}

/// The names in a directory; none if it cannot be read.
pub fn names_in(directory: &Path) -> impl Iterator<Item = String> {
    let list = fs::read_dir(directory).into_iter().flatten().flatten();
    list.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The thread ids of a process.
pub fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let mut tids = Vec::new();
    for entry in fs::read_dir(path(pid, "task")?)? {
        tids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(tids)
}

/// Opens a thread's scheduler statistics, for repeated reads.
pub fn schedstat(tid: i32) -> io::Result<File> {
    File::open(path(tid, "schedstat")?)
}

/// CPU time of a thread since its start in ns, from its schedstat; `None`: it ended.
pub fn ran_ns_in(schedstat: &File) -> Option<u64> {
    let mut buffer = [0; 128];
    let length = schedstat.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The same for a single read.
pub fn ran_ns(tid: i32) -> Option<u64> {
    ran_ns_in(&schedstat(tid).ok()?)
}

/// Whether a thread belongs to a process.
pub fn has_thread(pid: i32, tid: i32) -> bool {
    thread_path(pid, tid, "").is_ok_and(|path| Path::new(&path).exists())
}

/// The process that a thread belongs to, with its start.
pub fn of_thread(tid: i32) -> Option<Identity> {
    let status = Status::of(tid).ok()?;
    Identity::of_process(status.number("Tgid")?).ok()
}

/// The text of /proc/PID/status. A name in it has no line ends.
pub struct Status(String);

impl Status {
    /// Of a process or thread.
    pub fn of(id: i32) -> io::Result<Self> {
        let text = read(&path(id, "status")?)?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Self {
        Self(String::from_utf8_lossy(text).into_owned())
    }

    fn line(&self, key: &str) -> &str {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map_or("", str::trim)
    }

    /// The numbers of a line.
    pub fn numbers<T: std::str::FromStr>(&self, key: &str) -> Vec<T> {
        self.line(key).split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
    }

    fn number(&self, key: &str) -> Option<i32> {
        self.numbers(key).first().copied()
    }

    /// Whether it is in a pid namespace of its own.
    pub fn has_own_pids(&self) -> bool {
        self.numbers::<i32>("NSpid").len() > 1
    }

    /// Whether its real, effective and saved user are this one.
    pub fn is_wholly_of(&self, uid: u32) -> bool {
        let uids = self.numbers::<u32>("Uid");
        uids.len() >= 3 && uids[..3].iter().all(|&its| its == uid)
    }

    /// Whether the capability of this number is effective.
    pub fn has_capability(&self, number: u32) -> bool {
        u64::from_str_radix(self.line("CapEff"), 16).is_ok_and(|set| set >> number & 1 != 0)
    }

    /// Effective user, and groups.
    pub fn user_and_groups(&self) -> Option<(u32, Vec<u32>)> {
        let mut gids = vec![*self.numbers("Gid").get(1)?];
        gids.extend(self.numbers::<u32>("Groups"));
        Some((*self.numbers("Uid").get(1)?, gids))
    }

    /// The printable name of the process or thread.
    pub fn name(&self) -> &str {
        self.line("Name")
    }

    /// Whether it has memory of its own. Kernel threads and ended processes have none.
    pub fn has_memory(&self) -> bool {
        !self.line("VmSize").is_empty()
    }

    /// The process that started it.
    pub fn parent(&self) -> Option<i32> {
        self.number("PPid")
    }
}

impl Person {
    /// The present identity of a process.
    pub fn of(pid: i32, status: &Status) -> Option<Self> {
        let (uid, gids) = status.user_and_groups()?;
        let program = exe(pid, |link| sys::file_identity(link).ok())?;
        Some(Self { uid, gids, program })
    }

    /// The input of the decision on grants, for a process in these cgroups.
    pub fn requester(&self, pid: i32, active: bool, cgroups: Vec<String>) -> Requester {
        Requester {
            uid: self.uid,
            gids: self.gids.clone(),
            program: exe(pid, |link| fs::read_link(link).ok())
                .and_then(|path| path.into_os_string().into_string().ok()),
            cgroups,
            active,
        }
    }

    /// Whether `path` names the same program in tekd's mount namespace: a user can mount another
    /// file over it in a namespace of its own.
    pub fn has_program(&self, path: &str) -> bool {
        sys::file_identity(path).is_ok_and(|program| program == self.program)
    }
}

/// Applies `examine` to a process's link to its program, or to that of another thread if the first
/// thread has ended.
fn exe<T>(pid: i32, examine: impl Fn(&str) -> Option<T>) -> Option<T> {
    examine(&path(pid, "exe").ok()?).or_else(|| {
        let tids = threads(pid).ok()?;
        tids.into_iter().find_map(|tid| examine(&thread_path(pid, tid, "exe").ok()?))
    })
}

/// Reads a file of /proc about one process or thread. The kernel returns all of it to a read with
/// enough room, and each further call delays a switch.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let (mut text, mut length) = (vec![0; 4096], 0);
    let mut file = fs::File::open(path)?;
    loop {
        length += file.read(&mut text[length..])?;
        if length < text.len() {
            text.truncate(length);
            return Ok(text);
        }
        text.resize(2 * length, 0);
    }
}

/// The cgroups of a process, one a hierarchy.
pub fn cgroups(pid: i32) -> Vec<String> {
    let text = path(pid, "cgroup").and_then(fs::read_to_string).unwrap_or_default();
    let mut paths: Vec<String> =
        text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Whether a thread is a kernel thread.
pub fn is_of_kernel(tid: i32) -> bool {
    let stat = thread_path(tid, tid, "stat").and_then(|path| read(&path));
    let Ok(stat) = stat else { return false };
    let text = String::from_utf8_lossy(&stat);
    // Flags are the seventh field behind the name, which ends with the last bracket.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let flags = fields.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse().ok());
    flags.is_some_and(|flags: u64| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_pid() -> i32 {
        std::process::id().try_into().unwrap()
    }

    #[test]
    fn a_process_is_known_by_its_files_in_proc() {
        let status = Status::of(own_pid()).unwrap();
        let own = Person::of(own_pid(), &status).unwrap();
        assert_eq!(own.uid, nix::unistd::geteuid().as_raw());
        assert_eq!(own.gids[0], nix::unistd::getegid().as_raw());
        let program = own.requester(own_pid(), false, Vec::new()).program.unwrap();
        assert!(own.has_program(&program));
        assert!(!own.has_program("/bin/sh"));
        assert!(has_thread(own_pid(), own_pid()));
        assert!(!has_thread(own_pid(), 1));
        assert_eq!(of_thread(own_pid()).unwrap().tid, own_pid());
    }

    #[test]
    fn a_name_cannot_pretend_to_be_another_line() {
        let status =
            Status::parse(b"Name:\ta\\nUid:\t5\nUid:\t1\t2\t3\t4\nGid:\t5\t6\nGroups:\t7 8 \n");
        assert_eq!(status.user_and_groups(), Some((2, vec![6, 7, 8])));
    }

    #[test]
    fn a_process_that_has_another_user_anywhere_is_not_wholly_of_one() {
        let status = |uids: &str| Status::parse(format!("Uid:\t{uids}\nGid:\t1\n").as_bytes());
        assert!(status("7\t7\t7\t0").is_wholly_of(7));
        assert!(!status("7\t0\t0\t0").is_wholly_of(7));
        assert!(!status("").is_wholly_of(7));
        let status = Status::parse(b"CapEff:\t0000000000080000\n");
        assert!(status.has_capability(19) && !status.has_capability(18));
    }

    #[test]
    fn the_second_thread_of_the_device_is_the_kernels() {
        assert!(!is_of_kernel(1));
        // In a container pid 2 may be anything, or nothing.
        let name = fs::read_to_string("/proc/2/comm").unwrap_or_default();
        assert_eq!(is_of_kernel(2), name == "kthreadd\n");
    }
}
