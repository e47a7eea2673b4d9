// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of machines, and the kernels that they boot: lab/kinds.toml.
use serde::Deserialize;
use std::collections::BTreeMap;

/// The kinds that come with TEK.
const OWN: &str = include_str!("../../../lab/kinds.toml");

/// All kinds, kernels and sysroots.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    #[serde(rename = "kernel")]
    kernels: BTreeMap<String, Kernel>,
    #[serde(rename = "sysroot")]
    sysroots: BTreeMap<String, Sysroot>,
    #[serde(rename = "kind")]
    kinds: BTreeMap<String, Kind>,
}

/// A kernel that a Debian archive has.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Its name in the file.
    #[serde(skip)]
    pub name: String,
    /// Its description for users.
    pub about: String,
    /// Suite of the Debian archive.
    pub suite: String,
    /// Series of versions, such as 7.2.
    pub series: String,
    /// Debian's name of the architecture.
    #[serde(default = "amd64")]
    pub architecture: String,
    /// Pattern of the package with the kernel's image.
    pub image: String,
    /// Pattern of the package with its configuration, where that is another one.
    pub base: Option<String>,
    /// Pattern of the package with its modules, where that is another one.
    pub modules: Option<String>,
    /// The kernel to take where this one cannot be got.
    pub otherwise: Option<String>,
}

/// Packages of another architecture: its programs are built against them and run with them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Sysroot {
    /// Its name in the file.
    #[serde(skip)]
    pub name: String,
    /// Suite of the Debian archive.
    pub suite: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// Names of packages; their dependencies are added.
    pub packages: Vec<String>,
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Its name in the file.
    #[serde(skip)]
    pub name: String,
    /// Its description for users.
    pub about: String,
    /// Name of its kernel.
    pub kernel: String,
    /// Name of the packages for its architecture, where that is not the host's.
    pub sysroot: Option<String>,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory as QEMU takes it: 256M, 1G.
    pub memory: String,
    /// More arguments for the kernel.
    #[serde(default)]
    pub append: String,
    /// Size of an empty disk, as QEMU takes it; the guest finds it formatted at /disk.
    pub disk: Option<String>,
    /// More modules of the kernel, which are loaded before the guest is up.
    #[serde(default)]
    pub modules: Vec<String>,
    /// The version of control groups that the guest mounts.
    #[serde(default)]
    pub cgroups: Cgroups,
}

impl Kind {
    /// Whether its kernel's modules have to be there.
    pub fn needs_modules(&self) -> bool {
        self.disk.is_some() || !self.modules.is_empty()
    }
}

/// Version of control groups.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Cgroups {
    /// The unified hierarchy, at /sys/fs/cgroup.
    #[default]
    V2,
    /// A hierarchy for each controller, below /sys/fs/cgroup.
    V1,
}

/// There is no kind of that name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind {name}; there are {known}")]
pub struct NoKind {
    name: String,
    known: String,
}

fn amd64() -> String {
    "amd64".into()
}

impl Kinds {
    /// The kinds that come with TEK.
    pub fn own() -> Self {
        Self::parse(OWN).expect("lab/kinds.toml is tested")
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut all: Self = toml::from_str(text)?;
        for (name, kernel) in &mut all.kernels {
            kernel.name.clone_from(name);
        }
        for (name, sysroot) in &mut all.sysroots {
            sysroot.name.clone_from(name);
        }
        for (name, kind) in &mut all.kinds {
            kind.name.clone_from(name);
        }
        Ok(all)
    }

    /// The kind of that name.
    pub fn kind(&self, name: &str) -> Result<&Kind, NoKind> {
        self.kinds.get(name).ok_or_else(|| NoKind {
            name: name.to_owned(),
            known: self.kinds.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// All kinds, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values()
    }

    /// The kernel of a kind.
    pub fn kernel_of(&self, kind: &Kind) -> &Kernel {
        self.kernels.get(&kind.kernel).expect("lab/kinds.toml is tested")
    }

    /// The kernel to take where that one cannot be got.
    pub fn instead_of(&self, kernel: &Kernel) -> Option<&Kernel> {
        kernel.otherwise.as_deref().and_then(|name| self.kernel(name))
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// The packages of that name.
    pub fn sysroot(&self, name: &str) -> Option<&Sysroot> {
        self.sysroots.get(name)
    }

    /// The packages of a kind, where its programs are not this machine's.
    pub fn sysroot_of(&self, kind: &Kind) -> Option<&Sysroot> {
        let name = kind.sysroot.as_ref()?;
        Some(self.sysroots.get(name).expect("lab/kinds.toml is tested"))
    }
}

#[cfg(test)]
mod tests {
    use super::Kinds;

    #[test]
    fn every_kind_has_a_kernel_and_the_packages_for_it_and_every_kernel_what_it_falls_back_to() {
        let all = Kinds::own();
        for kind in all.kinds() {
            let mut kernel = all.kernel_of(kind);
            for _ in 0..all.kernels.len() {
                let Some(otherwise) = &kernel.otherwise else { break };
                kernel = all.kernel(otherwise).expect("another kernel");
            }
            assert_eq!(kernel.otherwise, None, "falls back in a circle");
            let architecture =
                all.sysroot_of(kind).map_or("amd64", |sysroot| sysroot.architecture.as_str());
            assert_eq!(kernel.architecture, architecture);
        }
    }

    #[test]
    fn an_unknown_kind_is_reported_with_the_known_ones() {
        let error = Kinds::own().kind("rtt").unwrap_err().to_string();
        assert!(error.starts_with("no kind rtt; there are arm64, board, "), "{error}");
    }
}
