// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtio ports, as a guest finds them.
use std::fs;
use std::path::{Path, PathBuf};

/// The device of the port of that name, if there is one yet.
pub fn find(name: &str) -> Option<PathBuf> {
    find_in(Path::new("/sys/class/virtio-ports"), name)
}

fn find_in(ports: &Path, name: &str) -> Option<PathBuf> {
    let ports = fs::read_dir(ports).ok()?.flatten();
    let wanted = ports.into_iter().find(|port| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|found| found.trim_end() == name)
    })?;
    Some(Path::new("/dev").join(wanted.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_by_its_name() {
        let ports = tempfile::tempdir().unwrap();
        assert_eq!(find_in(ports.path(), "tek.lab"), None);
        for (port, name) in [("vport0p0", "org.qemu.guest_agent.0\n"), ("vport2p1", "tek.lab\n")] {
            fs::create_dir(ports.path().join(port)).unwrap();
            fs::write(ports.path().join(port).join("name"), name).unwrap();
        }
        fs::create_dir(ports.path().join("vport1p1")).unwrap();
        let found = find_in(ports.path(), "tek.lab");
        assert_eq!(found.as_deref(), Some(Path::new("/dev/vport2p1")));
    }
}
