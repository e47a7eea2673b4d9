// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of kernel threads.
use std::fmt;

/// A kernel thread's name with the kernel's limit of 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Name([u8; 16]);

impl Name {
    /// The name of a thread whose name the programs did not read.
    pub const UNKNOWN: Self = Self([0; 16]);

    pub(crate) fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes before the first zero.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// The first 15 bytes of the argument.
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; 16];
        bytes.iter_mut().take(15).zip(name.bytes()).for_each(|(byte, its)| *byte = its);
        Self(bytes)
    }

    /// Whether the name is not known.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}
