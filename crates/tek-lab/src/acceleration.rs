// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether guests run on the machine's own processor (KVM) or on an emulated one.
use std::fs;
use std::path::PathBuf;

/// Passes the result from one run to the next: a KVM that cannot run a kernel is tried once.
///
/// A /dev/kvm need not work with every processor, nor inside of every other guest.
pub struct Acceleration {
    /// The file that notes that KVM failed; `None` if there is no place for it.
    note: Option<PathBuf>,
    wanted: bool,
}

impl Acceleration {
    /// For guests with that kernel; `directory` holds the notes.
    pub fn new(wanted: bool, directory: Option<PathBuf>, release: &str) -> Self {
        Self { note: directory.map(|place| place.join(format!("kvm-fails-{release}"))), wanted }
    }

    /// Whether KVM is to be tried.
    pub fn is_wanted(&self) -> bool {
        let noted = self.note.as_ref().and_then(|note| fs::read_to_string(note).ok());
        self.wanted && (noted.is_none() || noted != boot())
    }

    /// KVM was tried and failed. This holds until the machine boots again.
    pub fn has_failed(&self) {
        if let (Some(note), Some(boot), true) = (&self.note, boot(), self.is_wanted()) {
            // Without the note, the next run tries KVM again.
            let _ = fs::write(note, boot);
        }
    }
}

/// Identifies this boot of the machine: random(4).
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
    fn a_thread_that_does_not_want_it_notes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let unwanted = Acceleration::new(false, Some(directory.path().into()), "7.2");
        unwanted.has_failed();
        assert!(!unwanted.is_wanted());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(Acceleration::new(true, None, "7.2").is_wanted());
    }
}
