// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variables that contain the process's own pid, such as LISTEN_PID and WATCHDOG_PID of systemd.
//!
//! They name tek, which was started in the program's place. The program has another pid, and
//! ignores its sockets or its watchdog unless the variables name it.
use std::env;
use std::ffi::{c_char, CString, OsString};
use std::os::unix::ffi::OsStrExt;

/// As many digits as a pid can have.
const DIGITS: usize = i32::MAX.ilog10() as usize + 1;

/// systemd's second name for the process: the inode of its pidfd. A program without this variable
/// compares the pid alone.
const PIDFD_INODE: &str = "LISTEN_PIDFDID";

/// The values in tek's environment that the program's process overwrites with its own pid.
#[derive(Clone)]
pub struct OwnPid {
    values: Vec<*mut c_char>,
}

// SAFETY: the pointers are used in the program's process only, which has one thread.
unsafe impl Send for OwnPid {}
// SAFETY: as above.
unsafe impl Sync for OwnPid {}

impl OwnPid {
    /// Makes room in the variables that name this process. The environment must not change any
    /// more.
    pub fn prepare() -> Self {
        let own = OsString::from(std::process::id().to_string());
        let names_us = |(name, value): (OsString, OsString)| {
            let is_name = name.as_bytes().ends_with(b"PID") && !name.as_bytes().contains(&b'=');
            (is_name && value == own).then_some(name)
        };
        let names: Vec<_> = env::vars_os().filter_map(names_us).collect();
        if !names.is_empty() {
            env::remove_var(PIDFD_INODE);
        }
        for name in &names {
            env::set_var(name, "0".repeat(DIGITS));
        }
        let value = |name: OsString| {
            let name = CString::new(name.as_bytes()).expect("a variable's name has no zero byte");
            // SAFETY: getenv() takes any string.
            unsafe { libc::getenv(name.as_ptr()) }
        };
        Self { values: names.into_iter().map(value).collect() }
    }

    /// Makes them name the calling process. Between fork and exec: async-signal-safe, and allocates
    /// nothing.
    pub fn name_this_process(&self) {
        // SAFETY: takes nothing.
        let pid = unsafe { libc::getpid() };
        let mut text = [0_u8; DIGITS + 1];
        let mut at = DIGITS;
        let mut rest = pid;
        while rest > 0 {
            at -= 1;
            text[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let text = &text[at..]; // with the zero byte at its end
        for &value in &self.values {
            // SAFETY: prepare() made room for DIGITS bytes and a zero byte there.
            unsafe { value.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_name_this_process_name_its_caller_and_other_variables_stay() {
        let own = std::process::id().to_string();
        env::set_var("TEK_TEST_LISTEN_PID", &own);
        env::set_var("TEK_TEST_OTHER_PID", "1");
        env::set_var("TEK_TEST_NUMBER", &own);
        let variables = OwnPid::prepare();
        assert_eq!(env::var("TEK_TEST_LISTEN_PID").unwrap().len(), DIGITS);
        variables.name_this_process();
        assert_eq!(env::var("TEK_TEST_LISTEN_PID").unwrap(), own);
        assert_eq!(env::var("TEK_TEST_OTHER_PID").unwrap(), "1");
        assert_eq!(env::var("TEK_TEST_NUMBER").unwrap(), own);
    }
}
