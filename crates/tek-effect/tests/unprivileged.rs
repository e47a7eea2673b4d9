// SPDX-License-Identifier: MIT OR Apache-2.0
//! A change that the kernel refuses leaves no trace. In a test program of its own, because no
//! thread of the process may have used the privilege before.
mod common;

use common::{seen, Sleeper};
use std::fs::{set_permissions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use tek_effect::{Effect, Identity, Scheduling};

const NOBODY: libc::uid_t = 65534;

#[test]
fn a_thread_that_may_not_be_real_time_keeps_no_flag_either() {
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let journal = directory.path().join("state");
    // SAFETY: no memory is involved.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root, to be somebody else");
        return;
    }
    let refused = thread::spawn(move || {
        // SAFETY: no memory is involved. The system call is of this thread alone.
        let set = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(set, 0);
        let sleeper = Sleeper::new();
        let before = seen(sleeper.tid);
        let (mut effect, _) = Effect::open(&journal).unwrap();
        let wanted = Scheduling { policy: 2, nice: 0, priority: 1, reset_on_fork: true };
        let thread_id = Identity::of(sleeper.tid).unwrap();
        let error = effect.set_scheduling(thread_id, wanted).unwrap_err();
        assert_eq!(seen(sleeper.tid), before);
        error.errno()
    });
    assert_eq!(refused.join().unwrap(), libc::EPERM);
}
