// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why the programs do not work or do not accept a value.
use crate::dependency::Kind;
use std::io;

/// The error and its remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build has no loader.
    #[error(
        "kernel threads cannot be followed: TEK was built without the loader of BPF programs, \
         which needs a 64-bit processor"
    )]
    NotBuilt,
    /// The kernel does not describe its types.
    #[error(
        "kernel threads cannot be followed: this kernel has no /sys/kernel/btf/vmlinux, so take \
         one that was built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf {
        /// The error of the read.
        source: io::Error,
    },
    /// The description cannot be read.
    #[error("kernel threads cannot be followed: /sys/kernel/btf/vmlinux is invalid ({0})")]
    BadBtf(&'static str),
    /// Privileges are missing.
    #[error(
        "kernel threads cannot be followed: {missing} is missing, so run tekd as root, and with \
         its service CapabilityBoundingSet= must have it"
    )]
    NotPermitted {
        /// The capabilities, as in "CAP_BPF and CAP_PERFMON".
        missing: String,
    },
    /// Lockdown in its mode "confidentiality" forbids programs to read the kernel's memory.
    #[error(
        "kernel threads cannot be followed: kernel lockdown is in the mode `confidentiality`, so \
         boot with lockdown=integrity"
    )]
    Lockdown,
    /// The kernel or libbpf refused the programs.
    #[error("kernel threads cannot be followed: the programs cannot be loaded: {message}")]
    Load {
        /// The last message of libbpf, or the error.
        message: String,
    },
    /// The programs of a dependency cannot be attached or detached.
    #[error("{dependency} cannot be followed: {program} cannot be attached: {source}")]
    Attach {
        /// The dependency of the program.
        dependency: Kind,
        /// The program.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A map did not take a value.
    #[error("cannot access thread {tid} in the map `{map}`: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// The thread of the entry; 0: no single thread.
        tid: i32,
        /// The kernel's error; `StorageFull` (E2BIG): the map is full.
        source: io::Error,
    },
    /// Events cannot be read.
    #[error("the events of the BPF programs cannot be read: {source}")]
    Events {
        /// The error of libbpf.
        source: io::Error,
    },
}
