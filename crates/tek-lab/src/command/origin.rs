// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for the source and the store of kernels, alike in all commands.
use crate::archive::Source;
use crate::Cache;
use std::path::PathBuf;
use tek_command::message;

/// Where kernels come from, and where they are kept.
#[derive(clap::Args)]
#[command(next_help_heading = "Where kernels come from")]
pub struct Origin {
    /// Keep downloads here [default: tek/lab in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", env = "TEK_LAB_CACHE", hide_env_values = true)]
    cache: Option<PathBuf>,
    /// Get packages from this Debian archive [default: where this machine's apt gets Debian]
    #[arg(long, value_name = "URI", env = "TEK_LAB_MIRROR", hide_env_values = true)]
    mirror: Option<String>,
    /// File with the keys that may sign the archive's indexes [default: Debian's]
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
}

impl Origin {
    /// The cache.
    pub fn cache(&self) -> anyhow::Result<Cache> {
        Ok(match &self.cache {
            Some(directory) if !directory.as_os_str().is_empty() => Cache::at(directory),
            _ => Cache::usual()?,
        })
    }

    /// The archive.
    pub fn source(&self) -> Source {
        let mirror = self.mirror.clone().filter(|uri| !uri.is_empty());
        Source { mirror, keyring: self.keyring.clone() }
    }
}

/// Reports long steps on standard error.
pub fn report(what: &str) {
    message::print(what);
}
