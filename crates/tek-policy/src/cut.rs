// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names as the kernel keeps them: the first 15 bytes.

/// TASK_COMM_LEN, without the zero byte.
const LONGEST: usize = 15;

/// Whether a name is what the kernel keeps of a longer one that begins as the pattern does, as
/// `systemd-network` of `systemd-networkd`. What stands before the pattern's first wildcard must be
/// longer than a kept name: of the rest nothing would be known.
pub fn is_cut_from(name: &[u8], pattern: &str) -> bool {
    name.len() == LONGEST && {
        let literal = literal_beginning(pattern);
        literal.len() > LONGEST && literal.starts_with(name)
    }
}

fn literal_beginning(pattern: &str) -> Vec<u8> {
    let mut literal = Vec::new();
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'*' | b'?' | b'[' => break,
            b'\\' => literal.extend(bytes.next()),
            _ => literal.push(byte),
        }
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_keeps_of_a_long_name_fits_its_pattern() {
        for pattern in
            ["systemd-networkd", "systemd-networkd*", r"systemd\-networkd?", "systemd-networkd[12]"]
        {
            assert!(is_cut_from(b"systemd-network", pattern), "{pattern}");
        }
        assert!(is_cut_from(b"a*23456789abcde", r"a\*23456789abcdef"));
    }

    #[test]
    fn other_names_do_not() {
        for (name, pattern) in [
            ("systemd-network", "systemd-network"),
            ("systemd-network", "systemd-networ*"),
            ("systemd-network", "systemd-netword-x"),
            ("systemd-networ", "systemd-networkd"),
            ("systemd-networkd", "systemd-networkd-x"),
            ("systemd-network", "*systemd-networkd"),
        ] {
            assert!(!is_cut_from(name.as_bytes(), pattern), "{name} {pattern}");
        }
    }
}
