// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether guests get the machine's own processor (KVM), or an emulated one.
use std::fs;
use std::path::PathBuf;

/// Says so from one run to the next: a KVM that cannot run a kernel is found out once.
///
/// A /dev/kvm need not work with every processor, nor inside of every other guest.
pub struct Acceleration {
    /// Where it is noted that KVM failed; not at all if there is no place.
    note: Option<PathBuf>,
    wanted: bool,
}

impl Acceleration {
    /// For guests with that kernel; notes are kept in a directory.
    pub fn new(wanted: bool, directory: Option<PathBuf>, release: &str) -> Self {
        Self { note: directory.map(|place| place.join(format!("kvm-fails-{release}"))), wanted }
    }

    /// Whether KVM is to be tried.
    pub fn is_wanted(&self) -> bool {
        let noted = self.note.as_ref().and_then(|note| fs::read_to_string(note).ok());
        self.wanted && (noted.is_none() || noted != boot())
    }

    /// It was tried, and did not work. That holds until this machine boots anew.
    pub fn has_failed(&self) {
        if let (Some(note), Some(boot), true) = (&self.note, boot(), self.is_wanted()) {
            // Where it cannot be noted it is found out again.
            let _ = fs::write(note, boot);
        }
    }
}

/// What tells this boot of the machine from all others: random(4).
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_noted_for_that_kernel_until_the_next_boot() {
        let directory = tempfile::tempdir().unwrap();
        let of = |release| Acceleration::new(true, Some(directory.path().into()), release);
        assert!(of("7.2").is_wanted());
        of("7.2").has_failed();
        assert!(!of("7.2").is_wanted());
        assert!(of("6.1").is_wanted());
        fs::write(directory.path().join("kvm-fails-7.2"), "another boot\n").unwrap();
        assert!(of("7.2").is_wanted());
    }

    #[test]
    fn who_does_not_want_it_notes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let unwanted = Acceleration::new(false, Some(directory.path().into()), "7.2");
        unwanted.has_failed();
        assert!(!unwanted.is_wanted());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(Acceleration::new(true, None, "7.2").is_wanted());
    }
}
