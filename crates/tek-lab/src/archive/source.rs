// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the archive is: the one that the user named, or else the machine's apt's source of Debian.
use super::entry::Entry;
use super::{targets, Error};
use crate::cache;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Debian's keys, on a Debian machine.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where packages come from, if not from where the machine's own apt gets them.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Address of the archive's top, which has `dists/`.
    pub mirror: Option<String>,
    /// The keys that may sign its indexes; Debian's without it.
    pub keyring: Option<PathBuf>,
}

impl Source {
    /// The entries for a suite: the archive, and its security updates where the machine has them.
    pub(super) fn entries(&self, suite: &str) -> Result<Vec<Entry>, Error> {
        let keyring = match &self.keyring {
            Some(named) => Some(readable(named)?),
            None => Some(PathBuf::from(KEYRING)).filter(|usual| usual.exists()),
        };
        let entry = |uri: String, suite: String| Entry { uri, suite, keyring: keyring.clone() };
        if let Some(mirror) = &self.mirror {
            return Ok(vec![entry(address(mirror)?, suite.to_owned())]);
        }
        let known = targets::targets()?;
        let of = |label: &str| known.iter().find(|target| target.label == label);
        let debian = of("Debian").ok_or(Error::NoArchive)?;
        let mut entries = vec![entry(address(&debian.uri)?, suite.to_owned())];
        let security = format!("{suite}-security");
        let security = known.iter().find(|target| target.release == security);
        if let Some(security) = security {
            entries.push(entry(address(&security.uri)?, security.release.clone()));
        }
        Ok(entries)
    }
}

/// The absolute path of a file with keys, in a form that apt accepts.
fn readable(keyring: &Path) -> Result<PathBuf, Error> {
    let path = keyring.canonicalize().map_err(cache::Error::doing("read", keyring))?;
    File::open(&path).map_err(cache::Error::doing("read", keyring))?;
    // In that field, blanks separate fingerprints of keys.
    if path.to_string_lossy().contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Error::Path(path));
    }
    Ok(path)
}

/// An address in the form that apt accepts.
fn address(mirror: &str) -> Result<String, Error> {
    // It goes into a file in which blanks and line ends are separators.
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if mirror.is_empty() || mirror.contains(odd) {
        return Err(Error::Address(mirror.to_owned()));
    }
    if Path::new(mirror).is_absolute() {
        return Ok(format!("file:{mirror}"));
    }
    if !mirror.contains(':') {
        return Err(Error::Address(mirror.to_owned()));
    }
    Ok(mirror.to_owned())
}
